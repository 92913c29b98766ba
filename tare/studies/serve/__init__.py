"""A service under load, under each manager."""
