"""Preallocated nodes of branch and bound."""

from jboost.search import stack

__all__ = ["stack"]
