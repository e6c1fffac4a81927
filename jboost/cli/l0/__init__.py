"""The method l0 on the command line."""
