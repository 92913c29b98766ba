"""A change, judged: two builds of one program side by side: `tare gate`."""
