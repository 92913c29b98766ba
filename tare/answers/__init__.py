"""What can be had of results: reports, differences, exports, the explorer."""
