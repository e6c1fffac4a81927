"""Votes of few columns: a local search on (15) of Goldberg and Eckstein (2009), and approximations
of the vote of the relaxation.
"""
