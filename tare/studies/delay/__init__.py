"""What delayed frees cost and bring."""
