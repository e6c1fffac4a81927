"""Which fits of the command line value all monomials at once."""

from types import SimpleNamespace

import pytest

from jboost.cli.l0 import large


@pytest.mark.parametrize(
    ("order", "num_bits", "served"),
    [(1, 1000, True), (2, 1000, True), (3, 140, True), (3, 150, False), (4, 10, False)],
)
def test_fits_whose_rules_can_be_listed_value_them_all(order, num_bits, served, monkeypatch):
    monkeypatch.setattr(large.memory, "of_device", lambda: 64 << 30)
    settings = SimpleNamespace(exact=0, max_order=order, vote=("sparse",))
    assert large.serves(settings, 5000, num_bits) == served


def test_three_literals_are_searched_where_a_list_takes_too_much_memory(monkeypatch):
    monkeypatch.setattr(large.memory, "of_device", lambda: 1 << 20)
    settings = SimpleNamespace(exact=0, max_order=3, vote=("sparse",))
    assert not large.serves(settings, 5000, 100)
    settings.max_order = 2  # which `fit` refuses
    assert large.serves(settings, 5000, 100)
