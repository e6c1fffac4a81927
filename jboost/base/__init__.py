"""Floor 0: what every room stands on. Types, status codes, checks, numerics, loops and folds."""
