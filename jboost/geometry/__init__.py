"""Exact geometric predicates, angular order around a centre, and the distance of convex hulls."""
