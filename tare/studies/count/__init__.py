"""Instructions inside and outside the manager."""
