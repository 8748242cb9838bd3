"""ut-decoder and ut-eval with several runs: of one and the same run its own answers, of two those
of their mean probabilities; what does not belong together is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from tests.bin.tiny_runs import TINY, digits_run, save, stories_run
from ut_tf.bin import decoder, show
from ut_tf.bin import eval as eval_command
from ut_tf.evaluation.records import read_records
from ut_tf.run import Run
from ut_tf.storage.layout import ENSEMBLES_FILE

pytestmark = pytest.mark.usefixtures("eager")


def language_run(folder: Path, name: str, hparams_set: str, sizes: str) -> Run:
    """A language model of random weights."""
    text = folder / "text.txt"
    text.write_text("".join(f"the number {number} is here\n" for number in range(60)))
    run = Run.create(
        "lm_files",
        hparams_set,
        f"{sizes},vocab_size=300,dtype_policy=float32",
        output_dir=folder / name,
        data_dir=folder / "data",
        tmp_dir=folder,
        problem_args={"source_files": [str(text)], "window": 16},
    )
    save(run, (len(name),))
    return run


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """A Universal Transformer that halts, and a Transformer."""
    folder = tmp_path_factory.mktemp("language")
    return [
        language_run(folder, "halting", "ut_act_lm", TINY),
        language_run(folder, "transformer", "transformer_lm", TINY.replace("steps", "layers")),
    ]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls a command on runs; returns its standard output, or the error."""

    def answer(command, runs, *flags, status=0):
        capsys.readouterr()
        given = [f"--output_dir={run.output_dir}" for run in runs]
        assert command.main([*given, *flags]) == status
        captured = capsys.readouterr()
        return captured.err if status else captured.out

    return answer


@pytest.mark.slow
def test_scores_are_those_of_the_mean_probabilities(language, call, tmp_path) -> None:
    first = language[0]
    lines = tmp_path / "lines.txt"
    lines.write_text("the number 7\n\nis here\n")
    scores = [
        np.array(call(decoder, runs, f"--score_file={lines}").split(), float)
        for runs in ([first], [language[1]], language, [first, first])
    ]
    # Of the empty line the end alone is scored: its probability is the mean.
    assert np.exp(scores[2][1]) == pytest.approx(np.exp([scores[0][1], scores[1][1]]).mean(), 1e-4)
    np.testing.assert_allclose(scores[3], scores[0], atol=1e-5)


@pytest.mark.slow
def test_classes_have_their_mean_probability(tmp_path, call) -> None:
    runs = [stories_run(tmp_path / "a" / "run"), stories_run(tmp_path / "b" / "run")]
    save(runs[1], (200,))
    (runs[1].output_dir / "checkpoints" / "best.json").unlink(missing_ok=True)
    story = tmp_path / "story.txt"
    story.write_text("Mary moved to the kitchen. Where is Mary?\n")
    flags = (
        f"--decode_from_file={story}",
        "--decode_hparams=n_best=3,beam_size=3,write_beam_scores=true",
        "--checkpoint=last",
    )
    tables = []
    for given in ([runs[0]], [runs[1]], runs):
        fields = call(decoder, given, *flags).strip().split("\t")
        tables.append(dict(zip(fields[::2], np.exp(np.array(fields[1::2], float)), strict=True)))
    first, second, mean = tables
    assert first != second
    assert mean == pytest.approx(
        {name: (first[name] + second[name]) / 2 for name in mean}, abs=1e-4
    )


def test_runs_that_do_not_belong_together_are_refused(tmp_path, language, call) -> None:
    digits = [
        digits_run(tmp_path / name, problem=problem)
        for name, problem in (
            ("a", "algorithmic_copy_decimal40"),
            ("b", "algorithmic_reverse_decimal40"),
        )
    ]
    error = call(decoder, digits, status=1)
    assert "differ in their problem" in error and error.count("\n") == 1
    other = stories_run(tmp_path / "stories" / "run")
    more = stories_run(tmp_path / "more" / "run", answers=("hall", "kitchen", "cellar"))
    assert "differ in their vocabulary" in call(eval_command, [other, more], status=1)
    for flag in ("--exit_sweep", "--figures=f", "--test_problem=babi_sim_task1"):
        assert "is for one run" in call(eval_command, language, flag, status=2)
    beam = ("--beam_pipeline_options=runner=DirectRunner", "--decode_to_file=x", "--score_file=y")
    assert "answers with one run" in call(decoder, language, *beam, status=2)
    assert "given 2 times: ut-show takes one run" in call(show, digits, status=2)
    twice = ("--decode_hparams=beam_size=2", "--decode_hparams=alpha=1")
    assert "--decode_hparams is given 2 times, of which" in call(decoder, digits, *twice, status=2)


@pytest.mark.slow
def test_perplexity_is_that_of_the_mean_probabilities(language, call) -> None:
    first, second = language
    problem = first.make_problem()
    table = problem.examples("validation", first.data_dir)
    features = table.batch(tf.range(len(table.lengths)))
    targets = np.asarray(features["targets"])
    models = [ut_tf.load_model(run) for run in language]
    softmax = np.mean([tf.nn.softmax(model(features, training=False)) for model in models], 0)
    chosen = np.take_along_axis(softmax, targets[:, :, None], 2)[targets > 0]
    metrics = json.loads(call(eval_command, language))
    assert metrics["loss"] == pytest.approx(-np.log(chosen).mean(), rel=1e-4)
    assert metrics["perplexity"] == pytest.approx(np.exp(metrics["loss"]), rel=1e-4)
    # A record of its own: those of the run alone stay as they are.
    assert read_records(first.output_dir) == read_records(second.output_dir) == []
    (record,) = read_records(first.output_dir, ENSEMBLES_FILE)
    assert record.ensemble == (f"{first.output_dir} at step 7", f"{second.output_dir} at step 11")
    assert record.parameters == sum(model.count_params() for model in models)
    same = ut_tf.evaluate([first, first])
    assert same == pytest.approx({name: ut_tf.evaluate(first)[name] for name in same}, rel=1e-5)
