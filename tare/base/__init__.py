"""What knows nothing of Tare: numbers, text, files, errors."""
