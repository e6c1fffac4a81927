"""Several processes on the loopback address: the same answers as one, lost processes, and the
script that starts them.
"""

import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from cluster_programs import PROGRAMS

ROOT = pathlib.Path(__file__).parents[2]
LAUNCH = [sys.executable, str(ROOT / "scripts" / "cluster" / "launch")]
CHEAP_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
EXACT = ("pair.optimal_separator", "pair.leave_one_out", "pair.pareto_front")


def launch(*command, processes=2, devices=1, check=True, timeout=900):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": CHEAP_COMPILATION}
    options = ["--processes", str(processes), "--devices", str(devices)]
    ended = subprocess.run(
        [*LAUNCH, *options, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=timeout,
    )
    assert ended.returncode == 0 or not check, ended.stderr[-4000:]
    return ended


def results_of(folder, names, **options):
    launch(sys.executable, ROOT / "tests" / "cluster_programs.py", folder, *names, **options)
    return json.loads((folder / "results.json").read_text())


def assert_agree(name, over_all, alone):
    if name in EXACT:
        assert over_all == alone
    else:
        assert np.allclose(over_all, alone, atol=2e-3), (over_all, alone)


@pytest.mark.parametrize("name", ["adaboost.fit"])
def test_two_processes_agree_with_one_shortly(name, tmp_path):
    assert_agree(name, *results_of(tmp_path, [name])[name])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("cluster"), PROGRAMS, devices=2, timeout=3000)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_processes_agree_with_one(name, results):
    assert_agree(name, *results[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relaxed_margin.solve", "pair.optimal_separator"])
def test_two_processes_of_four_devices_agree_with_one(name, tmp_path):
    assert_agree(name, *results_of(tmp_path, [name], devices=4, timeout=3000)[name])


def test_launch_names_a_process_that_fails_and_ends_the_others():
    program = (
        "import os, sys, time; os.environ['JBOOST_PROCESS_ID'] == '1' and sys.exit(3);"
        " time.sleep(60)"
    )
    started = time.monotonic()
    ended = launch(sys.executable, "-c", program, check=False)
    assert ended.returncode == 3
    assert "process 1 of 2 ended with status 3; ending the others" in ended.stderr
    assert time.monotonic() - started < 50


def test_processes_with_different_columns_all_say_so():
    program = (
        "import jax, jboost, numpy as np\njboost.sharding.initialize_cluster(timeout=60)\nfeatures"
        " = np.zeros((4, 2 + jax.process_index()), np.float32)\ntry:\n   "
        " jboost.sharding.shard_dataset(jboost.make_dataset(features, np.ones(4)),"
        " jboost.sharding.make_mesh())\nexcept ValueError as error:\n    print('said',"
        " jax.process_index(), error, flush=True)\n"
    )
    said = launch(sys.executable, "-c", program).stdout
    for number in (0, 1):
        assert (
            f"said {number} dataset differs between processes in its columns of features (2 on"
            " process 0, 3 on process 1)" in said
        )


def start_each(folder, command, processes=2):
    """The processes, without the launcher; what they say is in files of `folder`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": CHEAP_COMPILATION,
        "JBOOST_COORDINATOR": f"127.0.0.1:{port}",
        "JBOOST_NUM_PROCESSES": str(processes),
    }
    running = []
    for number in range(processes):
        own = environment | {"JBOOST_PROCESS_ID": str(number)}
        with open(folder / f"said-{number}", "w") as file:
            running.append(subprocess.Popen(command, env=own, stdout=file, stderr=file))
    return running


def wait_for(text, file, process):
    while text not in file.read_text():
        assert process.poll() is None, file.read_text()[-3000:]
        time.sleep(0.1)


def test_sigterm_to_one_process_saves_and_ends_both_with_status_75(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "cluster" / "fit.py"), "--rows", "200"]
    command += ["--rounds", "5000", "--every", "3600", "--checkpoint", str(tmp_path / "states")]
    running = start_each(tmp_path, command)
    try:
        wait_for("round 3:", tmp_path / "said-0", running[0])
        running[1].send_signal(signal.SIGTERM)
        said = (tmp_path / "said-0").read_text
        assert [process.wait(60) for process in running] == [75, 75], said()[-3000:]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert f"the state is saved in {tmp_path / 'states'}" in said()
    assert (tmp_path / "states" / "0").is_dir()


def test_one_process_of_fit_saves_on_sigterm(tmp_path, monkeypatch, capsys):
    specification = importlib.util.spec_from_file_location("fit", ROOT / "scripts/cluster/fit.py")
    program = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(program)
    monkeypatch.setattr(program, "show", lambda state, info: signal.raise_signal(signal.SIGTERM))
    options = ["--rows", "50", "--rounds", "4", "--every", "3600", "--checkpoint", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["fit.py", *options])
    before = signal.getsignal(signal.SIGTERM)
    assert program.main() == 75
    assert signal.getsignal(signal.SIGTERM) is before
    assert "stopped by SIGTERM after 1 rounds" in capsys.readouterr().out
    assert (tmp_path / "0").is_dir()


DISAGREEMENTS = """
import os, pathlib, sys, time
import jax, jboost, numpy as np

jboost.sharding.initialize_cluster(timeout=60)
number, folder = jax.process_index(), pathlib.Path(sys.argv[1])

def say(*words):
    print("said", number, *words, flush=True)

# Each process has a name of its own for the folder of checkpoints, and one loses it.
own = folder / f"name-{number}"
dataset = jboost.make_dataset(np.eye(4, dtype=np.float32), [1, -1, 1, 1])
state = jboost.adaboost.init(dataset, jboost.learners.stumps(), max_rounds=4)
try:
    with jboost.checkpoints.Checkpointer(own, data=dataset, every_seconds=0) as checkpointer:
        checkpointer.save_now(state)
        if number == 1:
            own.unlink()
        checkpointer(state, None)
except OSError as error:
    say("disk:", error)
say("closed")

mesh = jboost.sharding.make_mesh(axis_names=("batch",))
keys = jax.random.split(jax.random.key(0), 4)
for tree in (
    {"a": np.zeros((2 + number, 3))},
    {"a": np.zeros((2, 3 + number))},
    {"a": np.zeros((2, 3), "float32" if number else "int32")},
    [np.zeros(2), np.zeros(2 + number)],
):
    try:
        jboost.sharding.shard_batch(tree, mesh)
        say("no error")
    except ValueError as error:
        say("batch:", error)
spread = jboost.sharding.shard_batch(keys[2 * number : 2 * number + 2], mesh)
say("keys", spread.shape, bool((jboost.sharding.gather(spread) == keys).all()))
"""


def test_errors_of_one_process_are_raised_in_both(tmp_path):
    (tmp_path / "states").mkdir()
    for number in range(2):
        (tmp_path / f"name-{number}").symlink_to(tmp_path / "states")
    started = time.monotonic()
    said = launch(sys.executable, "-c", DISAGREEMENTS, tmp_path, timeout=120).stdout
    assert time.monotonic() - started < 60
    for number in (0, 1):
        assert f"said {number} disk: process 1 of 2: {tmp_path / 'name-1'}: the checkpoint" in said
        assert f"said {number} closed" in said
        for difference in (
            "process 0 has 2 members a device of a float64[3]; process 1 has 3 members",
            "process 0 has 2 members a device of a float64[3]; process 1 has 2 members a device of"
            " a float64[4]",
            "process 0 has 2 members a device of a int32[3]; process 1 has 2 members a device of"
            " a float32[3]",
        ):
            assert f"said {number} batch: tree differs between processes ({difference}" in said
        assert f"said {number} batch: process 1 of 2: tree has leaves of first sizes" in said
        assert f"said {number} keys (4,) True" in said
    assert "no error" not in said
    assert "the folder is gone" in said
    assert (tmp_path / "states" / "0" / "state").is_dir(), "the earlier checkpoint is as it was"


@pytest.mark.slow
def test_an_error_of_python_in_one_process_ends_the_other_within_a_minute(tmp_path):
    program = (
        "import jax, jboost\nfrom jboost.base import processes\n"
        "jboost.sharding.initialize_cluster(timeout=60)\nprocesses.flags(True)\n"
        "print('begun', flush=True)\nassert jax.process_index() == 0\nprocesses.flags(True)\n"
    )
    running = start_each(tmp_path, [sys.executable, "-c", program])
    try:
        wait_for("begun", tmp_path / "said-0", running[0])
        begun = time.monotonic()
        assert all(process.wait(120) != 0 for process in running)
        assert time.monotonic() - begun < 60
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_lost_process_ends_the_others_within_a_minute_and_the_restart_resumes(tmp_path):
    """Without the launcher's help: each process is on its own, as on two machines."""
    command = [
        sys.executable,
        str(ROOT / "scripts" / "cluster" / "fit.py"),
        "--rows",
        "4000",
        "--rounds",
        "300",
    ]
    command += ["--checkpoint", str(tmp_path / "checkpoints"), "--resume", "--every", "1"]
    base = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": CHEAP_COMPILATION,
        "PYTHONPATH": str(ROOT),
        "JBOOST_COORDINATOR": "127.0.0.1:21987",
        "JBOOST_NUM_PROCESSES": "2",
    }
    running = []
    for number in range(2):
        with open(tmp_path / f"said-{number}", "w") as file:
            running.append(
                subprocess.Popen(
                    command, env=base | {"JBOOST_PROCESS_ID": str(number)}, stdout=file, stderr=file
                )
            )
    try:
        while "round 30:" not in (tmp_path / "said-0").read_text():
            assert running[0].poll() is None, (tmp_path / "said-0").read_text()[-3000:]
            time.sleep(0.5)
        running[1].kill()
        lost = time.monotonic()
        assert running[0].wait(120) != 0
        assert time.monotonic() - lost < 60
        said = (tmp_path / "said-0").read_text()
        assert "Task 1" in said, said[-3000:]
    finally:
        for process in running:
            process.kill()
            process.wait()
    said = launch(*command).stdout
    first = next(
        int(line.split()[1].rstrip(":")) for line in said.splitlines() if line.startswith("round ")
    )
    assert first > 5, "the restart began anew"
    assert "300 rounds" in said


def test_scripts_of_clusters_are_sound():
    folder = ROOT / "scripts" / "cluster"
    subprocess.run(["bash", "-n", str(folder / "slurm.sbatch")], check=True)
    assert "initialize_cluster" in (folder / "fit.py").read_text()
    helped = subprocess.run([*LAUNCH, "--help"], capture_output=True, text=True, check=True).stdout
    assert "--processes" in helped
    manifest = (folder / "kubernetes.yaml").read_text()
    for variable in ("JBOOST_COORDINATOR", "JBOOST_NUM_PROCESSES", "JBOOST_PROCESS_ID"):
        assert variable in manifest


def blocks_of(document, language):
    text = (ROOT / "docs" / document).read_text()
    return [part.split("```", 1)[0] for part in text.split(f"```{language}\n")[1:]]


@pytest.mark.slow
def test_python_of_the_users_day_runs_as_written():
    program = "\n".join(blocks_of("from-one-gpu-to-a-cluster.md", "python"))
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
    }
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=ROOT,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


@pytest.mark.slow
def test_commands_of_the_users_day_run_as_written():
    script = "set -euo pipefail\n" + "\n".join(blocks_of("from-one-gpu-to-a-cluster.md", "sh"))
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | {
        "PYTHONPATH": str(ROOT),
        "PATH": path,
    }
    ended = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=ROOT,
        timeout=1800,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.count("adaboost: 3 rounds") == 1
    assert ended.stdout.count("adaboost: 6 rounds") == 2
