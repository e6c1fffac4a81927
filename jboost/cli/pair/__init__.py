"""The method pair on the command line."""
