"""Cards and summaries of runs that others have named: no text becomes markup, no folder is told."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from tests.bin.tiny_runs import translation_run
from tests.training.toy import toy_run
from ut_tf.evaluation.records import Record, append_record
from ut_tf.serving.export import export_run, origin
from ut_tf.sharing.card import Stored, model_card
from ut_tf.sharing.saving import save as save_model

HOSTILE = (
    "<img/src=x onerror=alert(1)>",
    '"><script>alert(2)</script>[x](javascript:alert(3))',
    "a`<b>`| c\n```\n<i>\n# d",
    "\x1b]0;owned\x07",
)


def test_no_text_becomes_markup(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", "toy_class")
    groups = {
        text: {"feature": "class", "value": text, "examples": 5} for text in (*HOSTILE, "plain")
    }
    record = Record(
        time="2026",
        problem=run.problem,
        hparams_set=run.hparams_set,
        seed=0,
        checkpoint="best",
        step=7,
        split=HOSTILE[1],
        lengths=(),
        metrics={"error": 1.0, **{f"error/{text}": 2.0 for text in groups}},
        intervals={},
        examples={"": 10},
        data_note=HOSTILE[1],
        groups=groups,
    )
    append_record(run.output_dir, record)
    named = dataclasses.replace(
        run,
        problem_args={"names": list(HOSTILE), "text": HOSTILE[2]},
        hparams_set="ut_base",
        overrides=f"dropout=0.1,{HOSTILE[2]}",
    )
    versions = {"tensorflow": HOSTILE[0], HOSTILE[1]: "1"}
    stored = Stored("x", 7, 10, "float32", license=HOSTILE[2], versions=versions)
    card = model_card(named, stored)
    assert "alert(1)" in card
    front, text = card.split("\n---\n", 1)
    # JSON's texts, each on its line.
    assert all(json.loads(line.partition(": ")[2]) for line in front.splitlines()[1:])
    blocks = re.split(r"^```", text, flags=re.MULTILINE)
    assert len(blocks) == 7
    prose = "".join(blocks[::2])
    assert "<" not in prose
    assert "](http" in prose  # of ut-tf itself
    assert prose.count("](") == 1
    assert not any(ord(sign) < 32 and sign != "\n" for sign in card)
    assert "\n# d" not in card
    rows = [line for line in prose.splitlines() if line.startswith("| class")]
    assert len(rows) == len(groups)
    assert {line.replace(r"\|", "").count("|") for line in rows} == {4}


def told_folders(folder: Path, of: Path) -> list[str]:
    """The files that name a folder of this machine."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if str(of).encode() in path.read_bytes()]


def test_a_saved_model_and_the_summary_of_an_export_tell_no_folder(tmp_path: Path) -> None:
    run = translation_run(tmp_path, (100,))
    save_model(run, tmp_path / "saved")
    assert told_folders(tmp_path / "saved", tmp_path) == []
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["problem_args"]["source_files"] == ["train.en"]
    checkpoint = str(run.output_dir / "checkpoints" / "step-00000100")
    summary = origin(run, checkpoint, 100)
    assert str(tmp_path) not in json.dumps(summary)
    assert summary["problem_args"]["source_files"] == ["train.en"]
    assert summary["checkpoint"] == {"asked": "step-00000100", "step": 100}


@pytest.mark.slow
def test_an_export_tells_no_folder(tmp_path: Path) -> None:
    run = translation_run(tmp_path, (100,))
    folder = export_run(run, tmp_path / "export", str(run.output_dir / "checkpoints/step-00000100"))
    assert told_folders(folder, tmp_path) == []
