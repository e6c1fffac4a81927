"""What a user names as output: regular files are the old ones or the new ones, and nothing else is
damaged.
"""

import contextlib
import os
import socket
import stat
import threading

import pytest

from jboost import outputs


def test_a_file_is_the_old_one_or_the_new_one(tmp_path):
    path = tmp_path / "model.npz"
    path.write_text("old", encoding="utf-8")
    with contextlib.suppress(KeyboardInterrupt), outputs.file(path) as temporary:
        temporary.write_text("ne", encoding="utf-8")
        raise KeyboardInterrupt
    assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]
    assert path.read_text(encoding="utf-8") == "old"
    with outputs.file(path) as temporary:
        temporary.write_text("new", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == "new"


def test_a_folder_is_the_old_one_or_the_new_one(tmp_path):
    folder = tmp_path / "deep" / "out"
    with outputs.folder(folder) as work:
        (work / "a").write_text("1", encoding="utf-8")
    with contextlib.suppress(KeyboardInterrupt), outputs.folder(folder) as work:
        (work / "b").write_text("2", encoding="utf-8")
        raise KeyboardInterrupt
    assert [file.name for file in folder.iterdir()] == ["a"]
    with outputs.folder(folder) as work:
        (work / "c").write_text("3", encoding="utf-8")
    assert [file.name for file in folder.iterdir()] == ["c"]
    assert [file.name for file in folder.parent.iterdir()] == ["out"]


def test_links_are_followed_and_permissions_kept(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "real.csv", tmp_path / "link.csv"
    target.write_text("old", encoding="utf-8")
    target.chmod(0o640)
    link.symlink_to(target)
    with outputs.file(link) as temporary:
        temporary.write_text("new", encoding="utf-8")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    linked = tmp_path / "folder"
    linked.symlink_to(tmp_path / "there", target_is_directory=True)
    with outputs.folder(linked) as work:
        (work / "only").write_text("", encoding="utf-8")
    assert linked.is_symlink()
    assert [file.name for file in (tmp_path / "there").iterdir()] == ["only"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(
        target=lambda: got.append(pipe.read_text(encoding="utf-8")), daemon=True
    )
    reader.start()
    with outputs.file(pipe, endings=[".csv"]) as temporary:
        temporary.write_text("1,2\n", encoding="utf-8")
    reader.join(timeout=60)
    assert got == ["1,2\n"]
    assert pipe.is_fifo()
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


def test_nothing_reaches_a_pipe_of_what_was_interrupted(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # would wait for a reader if it opened the pipe
    with contextlib.suppress(KeyboardInterrupt), outputs.file(pipe) as temporary:
        temporary.write_text("1", encoding="utf-8")
        raise KeyboardInterrupt
    assert pipe.is_fifo()


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="this system has no device that is always full"
)
def test_a_device_that_is_full_is_an_error_and_stays_a_device():
    with (
        pytest.raises(OSError, match="No space left.*/dev/full"),
        outputs.file("/dev/full") as temporary,
    ):
        temporary.write_text("1", encoding="utf-8")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    with outputs.file(os.devnull) as temporary:
        temporary.write_text("1", encoding="utf-8")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_the_standard_output_is_written_to_where_it_stands(name, capfd):
    """Not opened anew: what was written before to a file that it leads to stays."""
    os.write(1, b"first ")
    with outputs.file(name) as temporary:
        temporary.write_text("second", encoding="utf-8")
    assert capfd.readouterr().out == "first second"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: "", "the name of the output file is empty"),
        (lambda folder: folder, "is a folder: name a file in it"),
        (lambda folder: folder / "a" / "b", "there is no folder .*a: make it first"),
        (
            lambda folder: _existing(folder / "model.npz"),
            r"exists and is no .csv or .tsv file by its name, so it is not replaced",
        ),
        (
            lambda folder: _existing(folder / "Makefile"),
            r"not replaced: choose another name, such as Makefile.csv, or remove it first",
        ),
    ],
)
def test_what_is_no_place_for_a_file_is_named(make, message, tmp_path):
    path = make(tmp_path)
    with pytest.raises(ValueError, match=message), outputs.file(path, endings=(".csv", ".tsv")):
        raise AssertionError("nothing is to be computed for it")


def test_a_socket_is_left_alone(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        with pytest.raises(ValueError, match="is a socket: name a file"):
            outputs.check_file(path)
    assert path.is_socket()


def _existing(path):
    path.write_text("a model", encoding="utf-8")
    return path
