"""Exact sparse votes: branch and cut over a pool of columns, and over all columns of a learner."""
