"""Votes of few columns: local search on (15) of Goldberg and Eckstein (2009), and
rounded coefficients of the relaxation.
"""
