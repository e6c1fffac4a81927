"""What the command line does about compilation: counted, shown, kept; and the device that it
computes on.
"""

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rich.console

from jboost import cli, drive
from jboost.cli import devices, inputs, programs, resolution


@pytest.fixture
def terminal(monkeypatch):
    """The text of a terminal on which the command line shows what goes on."""
    text = io.StringIO()
    console = rich.console.Console(file=text, force_terminal=True, width=100)
    monkeypatch.setattr(drive, "console", lambda: console)
    return text


@pytest.fixture
def patience(monkeypatch):
    monkeypatch.setattr(programs, "_DELAY", 0.0)
    monkeypatch.setattr(programs, "_INTERVAL", 0.005)


def _compile_something(number):
    """A program that no other test has; XLA takes a while for it."""

    def chain(values):
        for step in range(40):
            values = jnp.cumsum(jnp.sin(values + number) * step)
        return values

    return jax.jit(chain)(jnp.arange(50.0))


def test_programs_are_counted():
    before = programs.count()
    _compile_something(0.25)
    found = programs.count().since(before)
    assert found.compiled + found.from_cache >= 1
    assert found.seconds > 0
    before = programs.count()
    assert programs.count().since(before) == (0, 0, 0.0)


def test_compilation_is_shown_while_it_goes_on_and_no_longer(
    terminal, patience, monkeypatch, tmp_path
):
    (tmp_path / "seconds.json").write_text(json.dumps({"fit l0": 12.3}))
    monkeypatch.setattr(programs, "_folder", lambda: tmp_path)
    with programs.notice("fit l0"):
        _compile_something(np.random.default_rng().random())
    shown = terminal.getvalue()
    assert "compiling for these sizes: about 12 s, once" in shown
    assert shown.rstrip().endswith("\x1b[2K")  # the line is cleared
    assert not [thread for thread in threading.enumerate() if thread.name == programs.WATCHER]


def test_nothing_is_shown_of_what_takes_no_time(terminal):
    with programs.notice("fit l0"):
        jax.block_until_ready(jnp.zeros(3) + 1)
    assert terminal.getvalue() == ""


def test_seconds_are_noted_for_the_next_command(terminal, monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "_folder", lambda: tmp_path)
    monkeypatch.setattr(programs, "_SHORTEST_STORED", 0.0)
    with programs.notice("fit pair"):
        _compile_something(np.random.default_rng().random())
    noted = json.loads((tmp_path / "seconds.json").read_text())
    assert list(noted) == ["fit pair"]
    assert noted["fit pair"] > 0


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"fit l0": "soon"}', "\x00"])
def test_notes_that_cannot_be_read_are_not_used(content, monkeypatch, tmp_path):
    (tmp_path / "seconds.json").write_text(content)
    monkeypatch.setattr(programs, "_folder", lambda: tmp_path)
    assert programs.expected_seconds("fit l0") == programs.TYPICAL_SECONDS["fit l0"]


def test_small_tables_are_for_the_cpu_and_what_is_named_is_taken():
    before = jax.config.jax_default_device
    with devices.restored():
        assert devices.choose("auto", 100, 10) == "cpu"
        assert devices.choose("cpu", 10**6, 100) == "cpu"
        assert jax.config.jax_default_device.platform == "cpu"
    assert jax.config.jax_default_device == before


@pytest.mark.parametrize("method, expected", [("l0", 40), ("adaboost", 4), ("pair", 4)])
def test_the_device_is_chosen_by_the_features_of_the_fit(method, expected, tmp_path, monkeypatch):
    (tmp_path / "d.csv").write_text("a,b,c,d,y\n" + "1,2,3,4,0\n2,1,3,4,1\n" * 3)
    chosen = []
    monkeypatch.setattr(devices, "choose", lambda *given: chosen.append(given) or "cpu")
    values = {"data": str(tmp_path / "d.csv"), "label": "y", "method": method, "quantiles": 10}
    inputs.read_source(resolution.resolve(values, {}))
    assert chosen == [("auto", 6, expected)]


def test_auto_takes_the_default_platform_where_jax_has_no_cpu(monkeypatch):
    cpu, devices_of = jax.devices("cpu"), jax.devices

    def without_cpu(name=None):
        if name == "cpu":
            raise RuntimeError("Unknown backend cpu")
        return cpu if name == "gpu" else devices_of(name)

    monkeypatch.setattr(jax, "devices", without_cpu)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with devices.restored():
        assert devices.choose("auto", 100, 10) == "gpu"
        assert devices._present() == ["cpu"]  # the platform of the device of the stub
        with pytest.raises(ValueError, match="device is cpu, and JAX finds none"):
            devices.choose("cpu", 100, 10)


def test_a_device_that_is_not_there_is_named(capsys, monkeypatch):
    with pytest.raises(
        ValueError,
        match="device is tpu, and JAX finds none on this machine: choose .*cpu.* or auto",
    ):
        devices.choose("tpu", 1, 1)
    with pytest.raises(SystemExit) as end:
        cli.main(["fit", "--data", "sklearn:wine", "--device", "abacus"])
    assert end.value.code == 2
    assert "abacus" in capsys.readouterr().err


_ALARMING = """
import logging
import jax
import jax.numpy as jnp
from jboost.cli import programs

programs.prepare()
logging.getLogger("jax").warning("a warning of JAX")
# a constant is folded at compile time, which takes XLA more than the second of its alarm
constant = jnp.ones(60_000)
window = lambda: jax.lax.reduce_window(constant, 0.0, jax.lax.add, (40,), (1,), "SAME")
jax.jit(lambda value: value + window().sum()).lower(1.0).compile()
"""


@pytest.mark.parametrize(
    ("chosen", "is_silent"), [({}, True), ({"TF_CPP_MIN_LOG_LEVEL": "0"}, False)]
)
def test_xla_raises_no_alarm_unless_the_user_has_chosen_a_level(tmp_path, chosen, is_silent):
    told = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", _ALARMING],
        env=told | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)} | chosen,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "a warning of JAX" in done.stderr
    assert ("Constant folding" not in done.stderr) == is_silent


_FIT = ("fit", "--data", "sklearn:wine", "--method", "adaboost", "--rounds", "5", "--device", "cpu")


@pytest.mark.slow
def test_broken_entries_of_the_cache_change_no_result(tmp_path):
    def run(name):
        told = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("JAX_COMPILATION_CACHE")
        }
        command = [str(Path(sys.executable).with_name("jboost")), *_FIT, "--output", name]
        environment = told | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        report = json.loads((tmp_path / name / "report.json").read_text())
        return report["boosting"], report["losses"], report["programs"]

    first = run("first")
    again = run("again")
    assert again[2]["compiled"] == 0
    for entry in (tmp_path / "cache").glob("*-cache"):
        entry.write_bytes(entry.read_bytes()[:100])
    broken = run("broken")
    assert first[:2] == again[:2] == broken[:2]
    assert broken[2]["compiled"] > 0
