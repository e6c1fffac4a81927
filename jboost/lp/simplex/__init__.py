"""Simplex methods for the two families of small programs that boosting solves: soft
margins and boxes.
"""
