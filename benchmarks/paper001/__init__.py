"""The experiments of Goldberg and Eckstein (2009): `scripts/reproduce`."""
