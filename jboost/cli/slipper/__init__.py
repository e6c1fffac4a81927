"""The method slipper on the command line."""
