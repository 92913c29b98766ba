"""Where resident memory goes."""
