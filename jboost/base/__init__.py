"""The base layer: types, status codes, checks, numerics, loops and folds for all other modules."""
