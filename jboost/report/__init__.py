"""What a run found: the rules beside the optimal combination, the JSON report, and its text."""
