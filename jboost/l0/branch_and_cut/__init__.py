"""Provably optimal sparse votes, by branch and cut over a pool or over all hypotheses of a
learner.
"""
