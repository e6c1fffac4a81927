"""What is installed, what `import jboost` drags in, and the two commands of a fresh clone (with
stand-ins for Python: nothing is installed here).
"""

import json
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from subprocess import PIPE

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCRIPTS = ("scripts/run", "scripts/test", "scripts/docs", ".ci/run")
# Not filelock, which JAX imports where it finds it.
EXTRA_PACKAGES = (
    "click",
    "highspy",
    "matplotlib",
    "narwhals",
    "onnx",
    "onnxscript",
    "orbax",
    "platformdirs",
    "polars",
    "pytest",
    "rich",
    "skops",
    "sklearn",
    "threadpoolctl",
)


def name_of(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9_.-]+", requirement)[0]


# --- the package ----------------------------------------------------------------------------------


def test_runtime_dependencies_are_the_five():
    assert sorted(map(name_of, PROJECT["dependencies"])) == [
        "chex",
        "jax",
        "jaxlib",
        "numpy",
        "optax",
    ]


def test_extras_have_their_packages():
    extras = {
        extra: set(map(name_of, requirements))
        for extra, requirements in PROJECT["optional-dependencies"].items()
    }
    assert set(extras) == {
        "bench",
        "checkpoints",
        "cli",
        "cuda12",
        "cuda13",
        "docs",
        "export",
        "frames",
        "plots",
        "sklearn",
        "test",
    }
    assert {"click", "filelock", "platformdirs", "polars", "rich", "skops", "jboost"} <= extras[
        "cli"
    ]
    # scripts/environment.sh counts on it
    assert "jboost[cli]" in PROJECT["optional-dependencies"]["test"]
    assert not any(
        "cuda" in requirement
        for extra in ("cli", "test", "bench")
        for requirement in PROJECT["optional-dependencies"][extra]
    )


def test_types_ship():
    assert (ROOT / "jboost" / "py.typed").is_file()


def test_import_needs_no_extra():
    code = (
        f"import json, sys, jboost; print(json.dumps([name for name in {EXTRA_PACKAGES} if name in"
        " sys.modules]))"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == []


def test_versions_agree():
    assert (
        re.search(
            r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE
        )[1]
        == PROJECT["version"]
    )
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# --- the commands ---------------------------------------------------------------------------------

bash = shutil.which("bash")
needs_bash = pytest.mark.skipif(bash is None, reason="needs bash")

FAKE_PYTHON = """#!{bash}
# Makes environments that hold copies of itself, notes what pip is asked for, and leaves
# everything else to a real Python.
case "$*" in
    *"sys.exit(1)"*) echo {version} ;;
    *"-m venv"*) {venv} || exit 1; env=${{!#}}; rm -rf "$env"; mkdir -p "$env/bin"
        cp "$0" "$env/bin/python"; echo venv >>"{log}" ;;
    *"--version"*) ;;
    *"-m pip"*) sleep {pause}; {pip} || exit 1; echo "pip ${{!#}}" >>"{log}"
        printf '#!{bash}\\necho "$PWD: $*"\\n' >"${{0%/*}}/jboost"; chmod +x "${{0%/*}}/jboost" ;;
    *) exec "{real}" "$@" ;;
esac
"""


class Clone:
    """A copy of the scripts in a folder with a space in its name, and a PATH that holds the tools
    they use and fake Pythons.
    """

    def __init__(self, folder: Path):
        self.root, self.bin, self.log, self.cwd = (
            folder / "a clone",
            folder / "bin",
            folder / "log",
            folder / "elsewhere",
        )
        for path in (self.root, self.bin, self.cwd):
            path.mkdir()
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        shutil.copy(ROOT / "pyproject.toml", self.root)
        for tool in (
            "bash",
            "cat",
            "chmod",
            "cp",
            "cut",
            "dirname",
            "flock",
            "mkdir",
            "mv",
            "rm",
            "sleep",
        ):
            if (found := shutil.which(tool)) is not None:
                (self.bin / tool).symlink_to(found)

    def add_python(self, name="python3.11", version="3.11.9", venv="true", pip="true", pause=0):
        path = self.bin / name
        path.write_text(
            FAKE_PYTHON.format(
                bash=bash,
                real=sys.executable,
                log=self.log,
                version=version,
                venv=venv,
                pip=pip,
                pause=pause,
            )
        )
        path.chmod(0o755)

    def command(self, *arguments: str, **variables: str) -> subprocess.Popen:
        env = {"PATH": str(self.bin), "HOME": str(self.cwd), "LANG": "C.UTF-8"} | variables
        script = self.root / "scripts" / arguments[0]
        return subprocess.Popen(
            [bash, script, *arguments[1:]],
            cwd=self.cwd,
            env=env,
            stdout=PIPE,
            stderr=PIPE,
            text=True,
        )

    def run(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        with self.command("run", *arguments, **variables) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def done(self) -> list[str]:
        """What was made and installed since the last call."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path)


@needs_bash
@pytest.mark.parametrize("script", SCRIPTS)
def test_script_is_executable_and_parses(script):
    path = ROOT / script
    assert path.stat().st_mode & stat.S_IXUSR
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    assert subprocess.run([bash, "-n", path], capture_output=True, check=False).stderr == b""


@needs_bash
def test_run_makes_an_environment_once(clone):
    clone.add_python()
    code, out, err = clone.run("explain", "model.zip")
    # the caller's folder, not the repository
    assert (code, out) == (0, f"{clone.cwd}: explain model.zip\n"), err
    assert clone.done() == ["venv", "pip .[cli]"]
    assert clone.run()[:2] == (
        0,
        f"{clone.cwd}: fit --config {clone.root}/configs/quickstart.toml\n",
    )
    assert clone.run("--help")[:2] == (0, f"{clone.cwd}: --help\n")
    assert clone.done() == []


@needs_bash
def test_run_makes_good_what_is_half_made_or_out_of_date(clone):
    clone.add_python()
    clone.run()
    clone.done()
    with (clone.root / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    assert clone.run()[0] == 0
    assert clone.done() == ["pip .[cli]"]
    (clone.root / ".venv" / "jboost-stamp").unlink()
    assert clone.run()[0] == 0
    assert clone.done() == ["venv", "pip .[cli]"]
    (clone.root / ".venv" / "bin" / "python").unlink()
    assert clone.run()[0] == 0
    assert clone.done() == ["venv", "pip .[cli]"]
    moved = clone.root.rename(clone.root.with_name("moved"))
    clone.root = moved
    assert clone.run()[0] == 0
    assert clone.done() == ["venv", "pip .[cli]"]


@needs_bash
def test_run_leaves_the_environment_of_another_checkout_alone(clone):
    clone.add_python()
    clone.run()
    clone.done()
    owner = clone.root
    clone.root = shutil.copytree(owner, owner.with_name("other"), symlinks=True)
    shutil.rmtree(clone.root / ".venv")
    (clone.root / ".venv").symlink_to(owner / ".venv")
    code, _, err = clone.run()
    assert code == 2
    assert f".venv is a link to the environment of {owner}" in err
    assert "remove the link" in err
    assert clone.done() == []
    assert (owner / ".venv" / "jboost-stamp").exists()
    (clone.root / ".venv").unlink()
    assert clone.run()[0] == 0
    assert clone.done() == ["venv", "pip .[cli]"]


@needs_bash
def test_run_keeps_the_extras_that_are_there(clone):
    clone.add_python()
    clone.run()
    assert clone.run(JBOOST_CUDA="12")[0] == 0
    assert clone.run()[0] == 0
    assert clone.done() == ["venv", "pip .[cli]", "pip .[cli,cuda12]"]
    assert clone.run(JBOOST_CUDA="13")[0] == 0  # the two CUDA versions do not live together
    assert clone.done() == ["venv", "pip .[cli,cuda13]"]
    code, _, err = clone.run(JBOOST_CUDA="11")
    assert code == 2
    assert "JBOOST_CUDA is 12, 13 or unset, not '11'" in err
    with clone.command("test", "--help") as process:
        assert "--all" in process.communicate(timeout=60)[0]
    assert clone.done() == []


@needs_bash
def test_run_tries_the_next_python(clone):
    # a shim of a version manager with nothing behind it
    (clone.bin / "python3.11").write_text(f"#!{bash}\nexit 127\n")
    (clone.bin / "python3.11").chmod(0o755)
    clone.add_python("python3.12", "3.12.1", venv="false")
    clone.add_python("python3.13", "3.13.0")
    code, _, err = clone.run()
    assert code == 0
    assert f"{clone.bin}/python3.12 cannot make a virtual environment" in err
    assert f"making .venv with Python 3.13.0 ({clone.bin}/python3.13)" in err


@needs_bash
def test_run_names_the_package_to_install(clone):
    code, _, err = clone.run()
    assert code == 2
    assert "no Python 3.11, 3.12 or 3.13 found" in err
    clone.add_python("python3", "3.12.3", venv="false")
    code, _, err = clone.run()
    assert code == 2
    assert "apt install python3.12-venv" in err
    assert clone.done() == []


@needs_bash
def test_run_starts_afresh_after_pip_failed(clone):
    clone.add_python(pip="false")
    code, _, err = clone.run()
    assert code == 1
    assert "pip could not install jboost[cli]" in err
    assert not (clone.root / ".venv" / "jboost-stamp").exists()
    clone.add_python()
    assert clone.run()[0] == 0
    assert clone.done() == ["venv", "venv", "pip .[cli]"]


@needs_bash
@pytest.mark.parametrize("has_flock", [True, False])
def test_two_runs_at_once_make_one_environment(clone, has_flock):
    if not has_flock:
        (clone.bin / "flock").unlink(missing_ok=True)
    clone.add_python(pause=0.5)
    processes = [clone.command("run", "--help") for _ in range(3)]
    for process in processes:
        with process:
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, f"{clone.cwd}: --help\n"), err
    assert clone.done() == ["venv", "pip .[cli]"]
