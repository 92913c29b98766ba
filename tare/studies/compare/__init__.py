"""Time and memory under each manager."""
