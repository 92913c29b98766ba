"""A recorded trace again and again: growth or plateau."""
