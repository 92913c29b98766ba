"""What collecting more or less often does."""
