"""What a run left: outcomes, metrics, results folders, summaries."""
