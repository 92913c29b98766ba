"""The explorer of any number of results: a page of a server on this machine, over an index."""
