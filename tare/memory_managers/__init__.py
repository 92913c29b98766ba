"""What serves memory: names, the catalogue, layers, collectors, runtimes."""
