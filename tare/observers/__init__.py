"""What watches one run: the runner, the recorder, the instrument, the agents."""
