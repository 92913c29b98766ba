"""The tables and figures of the five papers: what makes ours, and both side by side."""
