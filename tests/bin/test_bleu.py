"""ut-bleu and the choice by BLEU: figures, averages, and every mistake in one line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.bin.tiny_runs import translation_run
from ut_tf.bin import avg_checkpoints, bleu
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.methods.translate import Translate
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.training.averaging import averaged_steps
from ut_tf.training.trainer import train

pytestmark = pytest.mark.usefixtures("eager")


@pytest.fixture
def call(capsys):
    """Calls a command; returns status, lines on standard output and on standard error."""

    def call(command, *flags):
        capsys.readouterr()
        status = command.main([str(flag) for flag in flags])
        captured = capsys.readouterr()
        return status, captured.out.splitlines(), captured.err.splitlines()

    return call


@pytest.fixture
def texts(tmp_path) -> tuple[Path, Path]:
    translation, reference = tmp_path / "t.txt", tmp_path / "r.txt"
    translation.write_text("the cat sat on the mat\n")
    reference.write_text("The cat sat on the mat today\n")
    return translation, reference


def test_both_variants_with_their_signatures(call, texts):
    translation, reference = texts
    status, lines, errors = call(bleu, f"--translation={translation}", f"--reference={reference}")
    assert (status, errors) == (0, [])
    assert lines[0].startswith(
        f"BLEU_uncased = {100 * math.exp(1 - 7 / 6):6.2f}  100.0/100.0/100.0/100.0 (BP = 0.846"
    )
    assert "nrefs:1|case:lc|" in lines[0]
    assert lines[1].startswith("BLEU_cased ")
    assert "nrefs:1|case:mixed|" in lines[1]
    assert lines[2].startswith("chrF2 ")
    lines = call(
        bleu,
        f"--translation={translation}",
        f"--reference={reference},{translation}",
        "--bleu_variant=cased",
        "--ter",
    )[1]
    assert [line.split()[0] for line in lines] == ["BLEU_cased", "chrF2", "TER"]
    assert [line.split()[2] for line in lines] == ["100.00", "100.00", "0.00"]


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        ([], 2, "--translation and --reference are needed"),
        (["--translation=T", "--reference=nothing"], 1, "nothing cannot be read"),
        (["--translation=T", "--reference=LONG"], 1, "T has 1 line, LONG 2"),
    ],
)
def test_mistakes_are_told_in_one_line(call, texts, flags, status, message):
    long = texts[0].with_name("long.txt")
    long.write_text("a\nb\n")
    words = {"LONG": long, "T": texts[0]}

    def filled(text):
        for name, path in words.items():
            text = text.replace(f"={name}", f"={path}").replace(f"{name} ", f"{path} ")
        return text

    found, lines, errors = call(bleu, *map(filled, flags))
    assert (found, lines, len(errors)) == (status, [], 1)
    assert filled(message) in errors[0]


@pytest.mark.slow
def test_training_is_judged_by_bleu_and_the_best_are_averaged_by_it(call, tmp_path):
    run = translation_run(
        tmp_path, steps=(), hparams="eval_frequency=1,batch_size=64,accumulate_steps=1"
    )
    # What the model writes is made known, so that the second of three evaluations is the best.
    scores = iter([10.0, 30.0, 20.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Translate, "measure", lambda *_: Measurement({"bleu": next(scores), "chrf": 0.0})
        )
        result = train(run, 3, num_gpus=0)
    assert set(result.metrics) >= {"loss", "accuracy", "bleu", "chrf"}
    assert CheckpointStore(run.output_dir).best_step() == 2
    assert call(avg_checkpoints, f"--output_dir={run.output_dir}", "--best=2")[0] == 0
    assert averaged_steps(tmp_path / "run-avgbest2") == [2, 3]
