"""The time limit of a command: when loops end, and what is refused."""

import pytest

from jboost.cli import limits


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("seconds", "of_loops"), [(60.0, 54.0), (600.0, 592.0), (1.0, 0.9)])
def test_loops_end_before_the_limit_so_that_the_report_is_in_time(clock, seconds, of_loops):
    with limits.of_command(seconds):
        assert limits.left() == pytest.approx(of_loops)
        clock[0] += of_loops - 0.01
        assert not limits.is_over()
        clock[0] += 0.02
        assert limits.is_over()
        limits.check("reading")
        clock[0] = 100.0 + seconds
        with pytest.raises(ValueError, match="expired during reading, which ended after"):
            limits.check("reading")


def test_a_command_without_limit_goes_on(clock):
    with limits.of_command(None):
        clock[0] += 1e9
        limits.check("reading")
        assert limits.left() is None
        assert not limits.is_over()
