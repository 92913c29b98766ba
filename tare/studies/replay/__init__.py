"""The same allocations under any manager."""
