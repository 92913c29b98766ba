"""What is run: commands with their inputs, executables, suites."""
