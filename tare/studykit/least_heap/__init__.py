"""The minimum heap: the search, by replays and by real runs."""
