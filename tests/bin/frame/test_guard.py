"""Errors that nobody foresaw: one line, and a file with the whole report."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from ut_tf.bin.frame import command, guard
from ut_tf.bin.frame.declarations import shared
from ut_tf.bin.frame.flags import Flag

FLAGS = (*shared("hparams_set", "decode_hparams"), Flag("lengths", "Some.", "What"))


@pytest.fixture
def end_with(monkeypatch, tmp_path, capsys):
    """Ends a command with an error; gives its status and its line on standard error."""
    monkeypatch.delenv("UT_TF_TRACEBACK")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()

    def call(error, *argv):
        def body(_):
            raise error

        status = command.execute("ut-x", FLAGS, body, argv)
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1, printed.err
        return status, printed.err

    return call


def test_the_report_lies_beside_the_run(end_with, tmp_path):
    status, line = end_with(ZeroDivisionError("by zero\nmore"), f"--output_dir={tmp_path}/run")
    (report,) = tmp_path.glob("run.ut-x-*.error.txt")
    assert status == 1
    assert line == (
        "ut-x: error: an error that was not foreseen, ZeroDivisionError (by zero); the full report"
        f" is in {report}.\n"
    )
    text = report.read_text()
    assert "raise error\nZeroDivisionError: by zero" in text
    for part in (f"ut-x --output_dir={tmp_path}/run", "tensorflow 2", "processor: ", " cores"):
        assert part in text


@pytest.mark.parametrize("argv", [["--output_dir", "/nonexistent/a/run"], []])
def test_the_report_lies_in_the_temporary_folder(end_with, tmp_path, argv):
    _, line = end_with(KeyError("a"), *argv)
    (report,) = (tmp_path / "tmp").iterdir()
    assert str(report) in line


def test_without_a_place_for_the_report_the_line_says_how_to_see_it(end_with, tmp_path):
    (tmp_path / "tmp").rmdir()
    assert "no report could be written; UT_TF_TRACEBACK=1 shows" in end_with(KeyError("a"))[1]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 9 TiB"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"),
        tf.errors.InternalError(None, None, "failed to allocate memory"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_out_of_memory_says_what_to_lower(end_with, error):
    status, line = end_with(error)
    assert status == 1
    assert line.startswith("ut-x: error: out of memory (")
    for name in ("batch_size", "hidden_size", "beam_size in", "--lengths"):
        assert name.split()[0] in line


def test_what_the_system_refuses_needs_no_report(end_with, tmp_path):
    error = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/root/words.txt")
    status, line = end_with(error)
    assert (status, line) == (
        1,
        "ut-x: error: /root/words.txt cannot be used (Permission denied): check the name, the"
        " permissions and the room there.\n",
    )
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    ("number", "filename", "line"),
    [
        (errno.EMFILE, None, "the machine refused (Too many open files): raise the limit"),
        (errno.EIO, "/data/a", "/data/a: the machine refused (Input/output error): the disk"),
    ],
)
def test_faults_of_the_machine_are_not_blamed_on_a_name(end_with, number, filename, line):
    status, told = end_with(OSError(number, os.strerror(number), filename))
    assert (status, told.startswith(f"ut-x: error: {line}")) == (1, True)


def test_a_disk_that_fails_is_told_though_nobody_reads_the_output():
    script = (
        "import errno, sys\n"
        "from ut_tf.bin.frame import command\n"
        "def body(_): raise OSError(errno.EIO, 'Input/output error', '/data/a')\n"
        "sys.exit(command.execute('ut-x', (), body, []))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "UT_TF_TRACEBACK": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "/data/a: the machine refused (Input/output error)" in done.stderr


def test_a_report_is_not_written_through_a_link(end_with, tmp_path, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda *_: "now")
    (tmp_path / "words.txt").write_text("mine")
    link = tmp_path / "tmp" / f"ut-x-now-{os.getpid()}.error.txt"
    link.symlink_to(tmp_path / "words.txt")
    assert "no report could be written" in end_with(KeyError("a"))[1]
    assert (tmp_path / "words.txt").read_text() == "mine"


def test_developers_see_the_trace(monkeypatch):
    monkeypatch.setenv("UT_TF_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        command.execute("ut-x", (), lambda _: 1 // 0)


SCRIPT = """
import sys
from ut_tf.bin import query
from ut_tf.bin.frame import command

def body(_):
    for line in command.standard_input():
        print("answer " * 9999)

sys.exit(command.execute("ut-x", (), body, []))
"""


@pytest.mark.parametrize(
    ("redirection", "status", "line"),
    [
        (">/dev/full", 1, "the output cannot be written (No space left on device)"),
        (">&-", 1, "standard output is closed"),
        ("<&-", 1, "standard input is closed"),
        ("| head -c 9 >/dev/null", 141, ""),
    ],
)
def test_output_and_input_that_cannot_be_used(redirection, status, line):
    script = f'{sys.executable} -c "$SCRIPT" {redirection}'
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],
        env={**os.environ, "SCRIPT": SCRIPT, "UT_TF_TRACEBACK": ""},
        input="a\nb\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert line in done.stderr
    assert done.stderr.count("\n") == bool(line)
    assert Path("/dev/full").exists()


def test_a_terminal_that_is_closed_is_a_reader_that_has_gone():
    terminal, stream = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "UT_TF_TRACEBACK": ""},
        stdin=subprocess.PIPE,
        stdout=stream,
        stderr=stream,
    )
    os.close(stream)
    os.close(terminal)
    process.communicate(b"a\nb\n", timeout=60)
    assert process.returncode == 141


def test_an_error_in_the_user_s_own_code_names_its_file_and_line(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    own = tmp_path / "mine" / "cell.py"
    own.parent.mkdir()
    source = (
        "def call(inner):\n"
        "    raise ValueError('Exception encountered when calling Linear.call().\\n\\n'\n"
        "        '\\x1b[1mno attribute kernel\\x1b[0m\\n\\nArguments: ...') from inner\n"
    )
    own.write_text(source)
    names = {}
    exec(compile(source, str(own), "exec"), names)
    with pytest.raises(ValueError, match="kernel") as raised:
        names["call"](KeyError("kernel"))
    for argv in ([f"--usr_dir={own.parent}"], ["--usr_dir", str(own.parent), "--json"]):
        line = guard.sentence_of(raised.value, "ut-x", (), argv)
        assert f"ValueError (in {own}:2: no attribute kernel); " in line
