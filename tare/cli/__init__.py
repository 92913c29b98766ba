"""The command line: what is shown of an answer, and the commands that are no study."""
