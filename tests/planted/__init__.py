"""Programs with planted faults and their fixes, and what Tare says of them."""
