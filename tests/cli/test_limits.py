"""The time limit of a command: when loops end, and what is refused."""

import signal

import pytest

from jboost.cli import limits


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("seconds", "of_loops"), [(60.0, 54.0), (600.0, 580.0), (1.0, 0.9)])
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


def test_a_choice_leaves_a_share_of_the_time_to_the_fit(clock):
    with limits.of_command(60.0):  # 54 s for loops
        on_step = limits.within_share(lambda state, info: not limits.is_over(), None, 0.6)
        clock[0] += 0.6 * 54 - 0.01
        assert on_step(None, (1, 9))
        clock[0] += 0.02
        assert not on_step(None, (2, 9))
        assert not limits.is_over()


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background, whose processes
    ignore it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_the_fit_after_a_choice_that_was_interrupted_goes_on(clock):
    with limits.of_command(None), limits.progress("choice", 3) as on_step:
        assert on_step(None, "")
        signal.raise_signal(signal.SIGINT)
        assert not on_step(None, "")
        limits.go_on_after_choice()
        assert on_step(None, "")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
