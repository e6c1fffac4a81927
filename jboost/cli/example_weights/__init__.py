"""The method example-weights on the command line."""
