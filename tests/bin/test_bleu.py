"""ut-bleu and ut-translate-all: figures, curves that are measured once, averages, and every mistake
in one line.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from tests.bin.tiny_runs import stories_run, translation_run
from ut_tf.bin import avg_checkpoints, bleu, decoder, translate_all
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.methods.translate import Translate
from ut_tf.metrics.bleu import corpus_scores
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.training.averaging import averaged_steps
from ut_tf.training.trainer import train

pytestmark = pytest.mark.usefixtures("eager")
FAST = "--decode_hparams=beam_size=1,max_length=4"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with test.en, test.de and a run of two checkpoints."""
    return translation_run(tmp_path_factory.mktemp("translation")).output_dir.parent


@pytest.fixture
def folder(made, tmp_path) -> Path:
    shutil.copytree(made / "run", tmp_path / "run")
    return tmp_path


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
        ([], 2, "--translation and --reference are needed, or --checkpoints and --output_dir"),
        (["--translation=T", "--reference=nothing"], 1, "nothing cannot be read"),
        (["--translation=T", "--reference=LONG"], 1, "T has 1 line, LONG 2"),
        (["--checkpoints"], 2, "--checkpoints needs --output_dir"),
        (["--checkpoints", "--output_dir=RUN", "--steps=1,x"], 2, "--steps=1,x"),
        (["--checkpoints", "--output_dir=RUN", "--steps=100,7"], 1, "has no checkpoint of step 7"),
        (["--checkpoints", "--output_dir=RUN", "--source=T"], 2, "--source and --reference belong"),
        (["--checkpoints", "--output_dir=RUN", "--split=tset"], 1, "--split=tset"),
    ],
)
def test_mistakes_are_told_in_one_line(call, texts, made, flags, status, message):
    long = texts[0].with_name("long.txt")
    long.write_text("a\nb\n")
    words = {"RUN": made / "run", "LONG": long, "T": texts[0]}

    def filled(text):
        for name, path in words.items():
            text = text.replace(f"={name}", f"={path}").replace(f"{name} ", f"{path} ")
        return text

    found, lines, errors = call(bleu, *map(filled, flags))
    assert (found, lines, len(errors)) == (status, [], 1)
    assert filled(message) in errors[0]


def tags(folder: Path) -> dict[tuple[str, int], float]:
    """Every scalar in the event files of a run."""
    found = {}
    for file in (folder / "tensorboard").glob("events*"):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                found[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
    return found


@pytest.mark.slow
def test_a_run_s_checkpoints_make_a_curve_that_is_measured_once(call, folder, made):
    flags = ("--checkpoints", f"--output_dir={folder}/run", FAST)
    status, lines, _ = call(bleu, *flags, "--steps=200")
    assert status == 0
    assert [line.split()[0] for line in lines] == ["step", "200"]
    lines = call(bleu, *flags)[1]
    assert [line.split()[0] for line in lines] == ["step", "100", "200"]
    assert [line.endswith("(known)") for line in lines[1:]] == [False, True]
    rows = [json.loads(line) for line in (folder / "run" / "bleu.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [200, 100]
    shown = tags(folder / "run")
    assert {tag for tag, _ in shown} == {"bleu/test_cased", "bleu/test_uncased", "bleu/test_chrf"}
    assert all(shown["bleu/test_chrf", row["step"]] == pytest.approx(row["chrf"]) for row in rows)

    # It is what ut-decoder and the scorer give; another text or other options are measured anew.
    call(
        decoder,
        f"--output_dir={folder}/run",
        "--checkpoint=200",
        f"--decode_from_file={made}/test.en",
        f"--decode_to_file={folder}/out",
        FAST,
    )
    expected = corpus_scores(
        (folder / "out").read_text().splitlines(), [(made / "test.de").read_text().splitlines()]
    )
    assert rows[0]["chrf"] == pytest.approx(expected["chrf"].value)
    files = (f"--source={made}/dev.en", f"--reference={made}/dev.de,{made}/dev.en")
    assert call(bleu, *flags, *files)[1][1].endswith("(known)") is False
    assert {tag for tag, _ in tags(folder / "run")} > {"bleu/dev.en_cased"}


@pytest.mark.slow
def test_average_translate_and_score_in_one_step(call, folder, made):
    status, lines, errors = call(
        translate_all, f"--output_dir={folder}/run", FAST, "--bleu_variant=cased"
    )
    assert status == 0, errors
    mean = folder / "run-avg2"
    assert [line.split()[0] for line in lines] == ["BLEU_cased", "chrF2", "translation:"]
    assert lines[-1] == f"translation: {mean}/translations/test"
    assert any(
        line.endswith(f"the mean of the checkpoints of steps 100, 200 is in {mean}")
        for line in errors
    )
    written = (mean / "translations" / "test").read_text().splitlines()
    call(
        decoder,
        f"--output_dir={mean}",
        f"--decode_from_file={made}/test.en",
        f"--decode_to_file={folder}/out",
        FAST,
    )
    assert (folder / "out").read_text().splitlines() == written
    # The mean that is there is used again, for another text too; without references nothing is
    # scored.
    flags = (
        f"--source={made}/dev.en",
        f"--translation={folder}/dev.out",
        "--checkpoints=100,200",
        f"--avg_dir={mean}",
    )
    status, lines, errors = call(translate_all, f"--output_dir={folder}/run", FAST, *flags)
    assert (status, lines) == (0, [f"translation: {folder}/dev.out"]), errors
    assert len((folder / "dev.out").read_text().splitlines()) == 4


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


def test_a_run_of_stories_is_refused_before_anything_is_written(call, tmp_path):
    run = stories_run(tmp_path / "run")
    (tmp_path / "a.txt").write_text("a\n")
    text = f"--source={tmp_path}/a.txt"
    for command, flags in (
        (translate_all, [text]),
        (bleu, ["--checkpoints", text, f"--reference={tmp_path}/a.txt"]),
    ):
        status, lines, errors = call(command, f"--output_dir={run.output_dir}", *flags)
        assert (status, lines, len(errors)) == (1, [], 1)
        assert "reads story, question for each example" in errors[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "data", "run"]


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--output_dir=RUN", "--n=3"], 1, "has 2 intact checkpoints"),
        (["--output_dir=RUN", "--best=2"], 1, "metrics.jsonl has no bleu of any checkpoint of"),
        (["--output_dir=RUN", "--reference=x"], 2, "needs the --source"),
        (["--output_dir=RUN", "--avg_dir=RUN"], 1, "holds no mean of checkpoints"),
        (["--output_dir=RUN", "--translation=MADE/dev.en/x"], 1, "dev.en cannot be written"),
        (
            [
                *("--output_dir=RUN", "--source=MADE/dev.en"),
                *("--reference=MADE/test.de,MADE/dev.de", "--translation=MADE/dev.de"),
            ],
            2,
            "dev.de is the file that is read",
        ),
    ],
)
def test_mistakes_of_translate_all_are_told_in_one_line(call, made, flags, status, message):
    words = {"RUN": f"{made}/run", "MADENAME": made.name, "MADE": str(made)}
    for word, text in words.items():
        flags = [flag.replace(word, text) for flag in flags]
    before = {path: path.read_bytes() for path in made.glob("*.??")}
    found, lines, errors = call(translate_all, *flags)
    assert (found, lines, len(errors)) == (status, [], 1)
    assert message in errors[0]
    assert {path: path.read_bytes() for path in made.glob("*.??")} == before
    assert not (made / "run-avg2").exists()
