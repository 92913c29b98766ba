"""What studies share: options, plans over time, sweeps, replays, minimum heaps."""
