"""User code (--usr_dir) imports TensorFlow: no command lets TensorFlow's start lines through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ut_tf.run import Run

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
