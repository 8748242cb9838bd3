"""A long input in shards: answered in any order, resumed, whole or absent, joined in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ut_tf.inference import apache_beam_answers
from ut_tf.inference.apache_beam_answers import BeamJob, LoadedJob
from ut_tf.inference.example_reader import Given
from ut_tf.inference.translator import READ_AHEAD, Hypothesis
from ut_tf.search.config import DecodeConfig

COUNT = 2 * READ_AHEAD + 3
EXAMPLES: list[Given] = [((f"line {number}",), None) for number in range(1, COUNT + 1)]


class Numbering:
    """Answers each example with its number and text."""

    config = DecodeConfig()

    def translate(self, texts: Iterable[Any], first: int, name: None) -> Iterator[list[Hypothesis]]:
        for number, (text,) in enumerate(texts, first):
            yield [Hypothesis(f"{number}: {text}", 0.0)]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BeamJob:
    monkeypatch.setattr(apache_beam_answers, "_WINDOWS_OF_A_SHARD", 1)
    source, config = tmp_path / "in", DecodeConfig(batch_size=1)
    source.write_text("any\n")
    return BeamJob(tmp_path / "run", None, "", "best", config, 0, source, tmp_path / "out")


def test_shards_answered_in_any_order_are_joined_in_the_order_of_the_input(job: BeamJob) -> None:
    loaded: Any = LoadedJob(Numbering(), EXAMPLES)  # type: ignore[arg-type]
    for number in (2, 0):
        job.answer_shard(number, loaded)
    assert [file.is_file() for file in job.files(COUNT)] == [True, False, True]
    job.answer_shard(1, loaded)
    job.join(COUNT)
    lines = [f"{number}: line {number}\n" for number in range(1, COUNT + 1)]
    assert job.destination.read_text() == "".join(lines)
    assert not job.folder.exists()


def test_all_that_decides_the_answers_is_in_the_name_of_their_folder(job: BeamJob) -> None:
    changes = {"seed": 1, "which": "last", "scores": True, "hparams": "eval_num_steps=2"}
    others = [dataclasses.replace(job, **{name: value}) for name, value in changes.items()]
    folders = {one.folder for one in (job, *others)}
    job.source.write_text("other\n")
    assert len({*folders, dataclasses.replace(job).folder}) == len(changes) + 2
    assert dataclasses.replace(job, seed=0).folder.name.startswith("out.shards-")
