"""The method combine on the command line."""
