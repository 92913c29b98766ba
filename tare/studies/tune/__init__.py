"""The best managers and options for a program, found by trying and confirmed by fresh runs."""
