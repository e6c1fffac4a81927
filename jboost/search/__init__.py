"""Preallocated stacks of nodes for branch and bound."""

from jboost.search import stack

__all__ = ["stack"]
