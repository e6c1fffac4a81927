"""Cases of parametrized tests that only `scripts/test --all` runs."""

import pytest


def slow(*values):
    """One case, of these values of the parameters."""
    return pytest.param(*values, marks=pytest.mark.slow)


def slow_but(cases, *quick):
    """The cases, each slow but for those of the default tests."""
    return [case if case in quick else slow(case) for case in cases]
