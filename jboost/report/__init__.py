"""Reports of runs: rules to compare with, the JSON report, and its text."""
