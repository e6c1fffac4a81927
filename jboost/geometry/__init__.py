"""Floor 1: exact predicates, angular order round a centre, and the distance between two convex
hulls.
"""
