"""Which command runs a test, by its costs."""

import pytest

import costs


class Item(pytest.Function):
    """A test with a name and marks, without a function."""

    def __init__(self, nodeid, *marks):
        self._nodeid, self.marks = nodeid, set(marks)

    @property
    def nodeid(self):
        return self._nodeid

    def get_closest_marker(self, name, default=None):
        return name if name in self.marks else default

    def add_marker(self, marker, append=True):
        self.marks.add(marker)


@pytest.mark.parametrize(
    ("name", "marks", "seconds", "expected"),
    [
        ("tests/test_a.py::test_new", (), None, set()),
        ("tests/test_a.py::test_quick", (), costs.MOST_SECONDS, set()),
        ("tests/test_contract.py::test_brackets_long", (), 60.0, set()),
        ("tests/test_a.py::test_long", (), costs.MOST_SECONDS_IN_ALL, {"slow"}),
        ("tests/test_a.py::test_longer", (), 10.1, {"slow", "exhaustive"}),
        ("tests/test_a.py::test_slow", ("slow",), costs.MOST_SLOW_SECONDS, {"slow"}),
        ("tests/test_a.py::test_slower", ("slow",), 60.0, {"slow", "exhaustive"}),
        (costs.ALWAYS_IN_ALL[0] + "test_slower", ("slow",), 60.0, {"slow"}),
    ],
)
def test_mark_selects_by_costs(name, marks, seconds, expected):
    item = Item.__new__(Item)
    item.__init__(name, *marks)
    costs.mark([item], {} if seconds is None else {name: seconds})
    assert item.marks == expected


def test_write_keeps_the_last_measurement_above_the_limit(tmp_path, monkeypatch):
    measured = tmp_path / "measured.txt"
    measured.write_text(
        "9.00 tests/test_a.py::test_b[x y]\n0.10 t.py::c\n2.50 tests/test_a.py::test_b[x y]\n"
    )
    monkeypatch.setattr(costs, "FILE", tmp_path / "costs.txt")
    costs.write(measured)
    assert costs.read(costs.FILE) == {"tests/test_a.py::test_b[x y]": 2.5}
