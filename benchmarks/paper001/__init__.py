"""The experiments of paper 001 (Goldberg, Eckstein 2009): `scripts/reproduce`."""
