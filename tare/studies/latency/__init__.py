"""How long each call of malloc takes, under each manager."""
