"""The first moments of a command: Ctrl-C is one line while Python still imports it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bin.quick_commands import call_commands
from tests.bin.stub_runs import stub_run
from ut_tf.bin import entry
from ut_tf.data.prepared import check_sources, source_record
from ut_tf.errors import UserError
from ut_tf.run import Run

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, signal, sys
from ut_tf.bin import entry

class Finder:
    def find_spec(self, name, *_):
        if name == "absl":
            os.kill(os.getpid(), signal.SIGINT)

early = {name for name in sys.modules if name.startswith("ut_tf.")}
assert early == {"ut_tf.version", "ut_tf.bin", "ut_tf.bin.entry"}, early
signal.signal(signal.SIGINT, signal.HANDLER)
sys.meta_path.insert(0, Finder())
sys.argv = ["ut-bleu", "--nothing"]
sys.exit(entry.bleu())
"""
# Ctrl-C around and in the work of a command whose modules are imported.
LATER = """
import os, signal, sys
from ut_tf.bin import bleu, entry
from ut_tf.bin.frame.command import entry_point

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def main():
    if MOMENT == "before":
        interrupt()
    status = whole_main()
    if MOMENT == "after":
        interrupt()
    return status

def body(_):
    try:
        if MOMENT == "within":
            interrupt()
    finally:
        print("cleaned up", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)
whole_main, bleu.main = entry_point("ut-bleu", ())(body), main
sys.argv = ["ut-bleu"]
sys.exit(entry.bleu())
"""


@pytest.mark.parametrize(
    ("handler", "status", "message"),
    [
        ("default_int_handler", 130, "ut-bleu: interrupted\n"),
        ("SIG_IGN", 2, "ut-bleu: error: unknown flag --nothing"),
    ],
)
def test_ctrl_c_while_a_command_is_imported(handler: str, status: int, message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("HANDLER", handler)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("moment", "answer"), [("before", ""), ("within", "cleaned up\n"), ("after", "cleaned up\n")]
)
def test_ctrl_c_once_a_command_is_imported(moment: str, answer: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATER.replace("MOMENT", repr(moment))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, answer, "ut-bleu: interrupted\n")


def test_ctrl_c_with_standard_error_closed() -> None:
    script = SCRIPT.replace("HANDLER", "default_int_handler")
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, script],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, b"")


def test_every_script_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for script, target in project["scripts"].items():
        module, _, name = target.partition(":")
        assert module == entry.__name__
        assert isinstance(getattr(entry, name), Callable)
        # The word import alone is Python's.
        assert script == f"ut-{name.removesuffix('_run').replace('_', '-')}"


START_LINE = "cudart_stub.cc:31] Could not find cuda drivers on your machine"
# It writes where TensorFlow writes: to the file descriptor, past sys.stderr.
TENSORFLOW = f"import os\nos.write(2, b'{START_LINE}\\n')\n"
USER_CODE = """
import tensorflow
from ut_tf.errors import UserError
raise UserError("stop here")
"""


@pytest.fixture
def call(tmp_path: Path):
    """Calls a command on a run with user code, where TensorFlow is a module that only writes a
    line.
    """
    for folder, source in (("path/tensorflow", TENSORFLOW), ("mine", USER_CODE)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").write_text(source)
    Run.plan("algorithmic_copy_decimal40", "ut_algorithmic", output_dir=tmp_path / "run")._write()

    def run(
        module: str, *argv: str, stderr: int = subprocess.PIPE, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        script = f"import sys\nfrom ut_tf.bin.{module} import main\nsys.exit(main({[*argv]!r}))"
        path = os.pathsep.join([str(tmp_path / "path"), *filter(None, sys.path)])
        kept = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
        settings = {**kept, "PYTHONPATH": path, **variables}
        command = [sys.executable, "-c", script]
        return subprocess.run(
            command,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("module", "argv"),
    [
        ("trainer", ["--problem=mine", "--hparams_set=ut_base"]),
        ("eval", ["--output_dir={run}"]),
        ("decoder", ["--output_dir={run}"]),
        ("exporter", ["--output_dir={run}"]),
    ],
)
def test_the_start_lines_of_tensorflow_are_held_back(
    call, tmp_path: Path, module: str, argv: list[str]
) -> None:
    given = [one.format(run=tmp_path / "run") for one in argv]
    done = call(module, *given, f"--usr_dir={tmp_path / 'mine'}")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith("error: stop here")


def test_they_are_shown_to_who_asks_for_them(call, tmp_path: Path) -> None:
    done = call(
        "eval",
        f"--output_dir={tmp_path / 'run'}",
        f"--usr_dir={tmp_path / 'mine'}",
        TF_CPP_MIN_LOG_LEVEL="0",
    )
    assert START_LINE in done.stderr


def test_a_terminal_is_told_what_is_waited_for_and_a_pipe_is_not(call, tmp_path: Path) -> None:
    argv = ["eval", f"--output_dir={tmp_path / 'run'}", f"--usr_dir={tmp_path / 'mine'}"]
    terminal, its_end = os.openpty()
    assert call(*argv, stderr=its_end).stdout == ""
    lines = os.read(terminal, 4096).decode().splitlines()
    assert lines == ["loading TensorFlow ...", "ut-eval: error: stop here"]
    assert "loading" not in call(*argv).stderr
    # A mistake in a flag is told at once.
    call(*argv, "--split_=test", stderr=its_end)
    assert "loading" not in os.read(terminal, 4096).decode()


STORED = Path(__file__).parents[1] / "stored_runs"
RUN, EXPORT = STORED / "transformer_subwords" / "run", STORED / "ut_halting_reverse" / "export"
TRANSLATE = ("--problem=translate_files", "--hparams_set=ut_translate_small")
BABI = ("--problem=babi_sim", "--hparams_set=ut_demo")


def test_refusals_without_tensorflow(tmp_path: Path) -> None:
    file, new = tmp_path / "file", tmp_path / "new"
    untrained = stub_run(tmp_path / "untrained", "babi_sim", trained=False)
    file.write_text("text\n")
    missing, of_run = "--source_files=/nonexistent/a", f"--output_dir={RUN}"
    cases = (
        ("trainer", [*TRANSLATE, missing, f"--output_dir={new}"], "/nonexistent/a cannot be read"),
        ("trainer", [*BABI, f"--output_dir={file}/run"], "cannot be written: Not a directory"),
        (
            "trainer",
            [*BABI, f"--output_dir={new}", f"--warm_start_from={untrained}"],
            "there is no checkpoint in",
        ),
        ("trainer", ["--schedule=evaluate", f"--output_dir={untrained}"], "there is no checkpoint"),
        ("avg_checkpoints", [f"--output_dir={untrained}"], "there is no checkpoint in"),
        ("eval", [of_run, "--split=dev"], "has the splits train, validation, test"),
        ("eval", [of_run, "--test_problem=lm_files"], "--test_problem_args=source_files=FILE"),
        (
            "exporter",
            [of_run, "--format=model", f"--export_dir={tmp_path}"],
            "exists: name another",
        ),
        ("decoder", [of_run, f"--decode_to_file={tmp_path}"], "is a folder: name a file"),
        ("decoder", [of_run, f"--decode_to_file={file}/out"], "file/out cannot be written (Not a"),
        ("serve", [f"--export_dir={EXPORT}", "--output_dir=/nonexistent"], "holds no run"),
    )
    before = sorted(tmp_path.iterdir())
    answers = call_commands([(module, argv) for module, argv, _ in cases])
    for (module, argv, expected), answer in zip(cases, answers, strict=True):
        assert answer.imported == [], (module, argv)
        assert expected in answer.errors, (module, argv)
        assert answer.status and answer.errors.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_port_in_use_is_found_before_tensorflow_is_imported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = f"--port={taken.getsockname()[1]}"
        answers = call_commands(
            [
                ("serve", [f"--export_dir={EXPORT}", port]),
                ("insights", [f"--output_dir={RUN}", "--serve", port]),
            ]
        )
    for answer in answers:
        assert "cannot be listened at" in answer.errors
        assert "tensorflow" not in answer.imported


def test_a_file_that_has_gone_is_not_missed_once_it_was_prepared(tmp_path: Path) -> None:
    file, summary = tmp_path / "text.en", tmp_path / "data" / "translation" / "files-1"
    file.write_text("one\n")
    record = source_record(file)
    file.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        check_sources([file], tmp_path / "data")
    summary.mkdir(parents=True)
    (summary / "summary.json").write_text(json.dumps({"files": [record]}))
    check_sources([file], tmp_path / "data")
