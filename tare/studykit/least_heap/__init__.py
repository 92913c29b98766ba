"""The least heap: the search, by replays and by real runs."""
