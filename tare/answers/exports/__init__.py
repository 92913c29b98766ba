"""What other tools read: results and traces in their formats."""
