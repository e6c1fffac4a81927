"""Benchmarks of jboost: each writes JSON, with its peers in the same run; `benchmarks.table` makes
the README's tables from it.
"""
