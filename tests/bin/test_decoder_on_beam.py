"""ut-decoder on Apache Beam: the same bytes as one process, resumed, mistakes in one line."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.bin.tiny_runs import digits_run
from ut_tf.bin import decoder
from ut_tf.data import apache_beam_runner
from ut_tf.errors import UserError
from ut_tf.inference import apache_beam_answers

RUNNER = "runner=DirectRunner"
needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None, reason="Apache Beam is not installed"
)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("digits") / "run").output_dir


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes 20 lines two shards."""
    monkeypatch.setattr(apache_beam_answers, "_WINDOWS_OF_A_SHARD", 1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    # Of unlike lengths, so that batches depend on what is read together.
    path.write_text("".join(f"{7**number % 10 ** (number % 9 + 1)}\n" for number in range(20)))
    return path


@pytest.fixture
def beamless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers the shards one after the other, the last one first, without Beam."""

    def run(work: Callable[[Any], Any], items: Sequence[Any], options: str) -> None:
        assert options == RUNNER
        for item in reversed(items):
            work(item)

    class Shared:
        def acquire(self, make: Callable[[], Any]) -> Any:
            self.made = getattr(self, "made", None) or make()
            return self.made

    monkeypatch.setattr(decoder, "require_beam", lambda: None)
    monkeypatch.setattr(apache_beam_runner, "run_on_beam", run)
    monkeypatch.setattr(apache_beam_answers, "once_for_each_process", Shared)


def outputs(run_dir: Path, folder: Path, *flags: str) -> tuple[bytes, bytes]:
    """What one process writes, and what Beam's workers do."""
    contents = []
    for name, more in (("alone", ()), ("beam", (f"--beam_pipeline_options={RUNNER}",))):
        target = folder / name
        call = [f"--output_dir={run_dir}", f"--decode_to_file={target}", *flags, *more]
        assert decoder.main(call) == 0
        contents.append(target.read_bytes())
    assert not list(folder.glob("*.shards-*"))
    return contents[0], contents[1]


DECODE = "--decode_hparams=beam_size=2,n_best=2,write_beam_scores=true,batch_size=1,max_length=3"


@needs_beam
def test_beam_writes_the_bytes_that_one_process_writes(run_dir, file, tmp_path):
    alone, together = outputs(run_dir, tmp_path, f"--decode_from_file={file}", DECODE)
    assert alone.count(b"\n") == 20
    assert together == alone


@pytest.mark.slow
@pytest.mark.usefixtures("beamless")
@pytest.mark.parametrize("task", ["decode", "score"])
def test_shards_give_the_bytes_of_one_process(run_dir, file, tmp_path, task):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{line}\t{line}\n" for line in file.read_text().split()))
    flags = {
        "decode": [f"--decode_from_file={file}", DECODE],
        "score": [f"--score_file={pairs}", "--decode_hparams=batch_size=1"],
    }
    alone, together = outputs(run_dir, tmp_path, *flags[task])
    assert alone.count(b"\n") == 20
    assert together == alone


@pytest.mark.slow
def test_a_job_keeps_its_checkpoint_and_its_paths(
    run_dir, file, tmp_path, monkeypatch, beamless, capsys
):
    del beamless
    run = tmp_path / "run"
    shutil.copytree(run_dir, run)
    (tmp_path / "usercode").mkdir()
    (tmp_path / "usercode" / "__init__.py").write_text("")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    call = [f"--output_dir={run}", "--usr_dir=usercode", f"--decode_from_file={file}", DECODE]
    on_beam = [*call, "--decode_to_file=together", f"--beam_pipeline_options={RUNNER}"]
    assert decoder.main([*call, "--decode_to_file=alone"]) == 0

    def run_and_stop(work, items, options):
        # Training goes on and removes the checkpoint; workers run in folders of their own.
        del options
        shutil.rmtree(run / "checkpoints")
        monkeypatch.chdir(tmp_path / "elsewhere")
        work(items[0])
        monkeypatch.chdir(tmp_path)
        raise UserError("stopped.")

    with monkeypatch.context() as stopped:
        stopped.setattr(apache_beam_runner, "run_on_beam", run_and_stop)
        assert decoder.main(on_beam) == 1
    assert len(list(tmp_path.glob("together.shards-*/output-*"))) == 1
    assert decoder.main(on_beam) == 0
    assert "with the checkpoint that is kept there" in capsys.readouterr().err
    assert (tmp_path / "together").read_bytes() == (tmp_path / "alone").read_bytes()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--decode_from_file=FILE"], "--beam_pipeline_options needs files"),
        (
            ["--decode_from_file=FILE", "--decode_to_file=FILE.out", "--decode_shards=2"],
            "leave --decode_shards out",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(run_dir, file, capsys, flags, message):
    call = [flag.replace("FILE", str(file)) for flag in flags]
    status = decoder.main([f"--output_dir={run_dir}", f"--beam_pipeline_options={RUNNER}", *call])
    (error,) = capsys.readouterr().err.splitlines()
    assert (status, message in error) == (2, True), error


@needs_beam
def test_a_runner_that_does_not_exist_is_told_in_one_line(run_dir, file, capsys):
    flags = [f"--decode_from_file={file}", f"--decode_to_file={file}.out"]
    status = decoder.main(
        [f"--output_dir={run_dir}", *flags, "--beam_pipeline_options=runner=Nobody"]
    )
    error = capsys.readouterr().err.splitlines()[-1]
    assert (status, "Unexpected pipeline runner: Nobody" in error) == (1, True), error
