"""ut-eval of a run that translates: the search that its texts are written with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.bin.tiny_runs import translation_run
from ut_tf.bin import eval as eval_command
from ut_tf.evaluation.records import read_records


@pytest.mark.usefixtures("eagerly")
def test_the_search_can_be_changed_and_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = translation_run(tmp_path, steps=(100,))
    flags = [f"--output_dir={run.output_dir}", "--json=record"]
    assert eval_command.main(flags) == 0
    plain = json.loads(capsys.readouterr().out)
    options = "--decode_hparams=alpha=0.6,beam_size=1,max_length=1"
    assert eval_command.main([*flags, options]) == 0
    told = capsys.readouterr()
    assert "used with alpha=0.6,beam_size=1,max_length=1" in told.err
    record = json.loads(told.out)
    # A length penalty of 0.6 is what it would have been.
    assert record["decode"] == "beam_size=1,max_length=1"
    assert record["metrics"]["chrf"] != plain["metrics"]["chrf"]
    kept = [record.used_with for record in read_records(run.output_dir)]
    assert kept == ["", "beam_size=1,max_length=1"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--decode_hparams=alpa=1"], "--decode_hparams: .*did you mean alpha"),
        (
            ["--decode_hparams=alpha=1", "--test_problem=translate_ende_multi30k"],
            "--decode_hparams and --test_problem do not go together",
        ),
        (["--decode_hparams=alpha=1", "--exit_sweep"], "--decode_hparams and --exit_sweep do not"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    run = translation_run(tmp_path, steps=(100,))
    assert eval_command.main([f"--output_dir={run.output_dir}", *flags]) == 2
    errors = capsys.readouterr().err.replace("\n", " ")
    assert re.search(message, errors)
