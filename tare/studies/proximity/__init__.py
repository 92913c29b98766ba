"""Whether events take longer close to a collection."""
