"""The records in results/ and the pages that are written from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ut_tf.config.hparams import differences
from ut_tf.factories import make_hparams
from ut_tf.tables.kept_tables import KeptTables, written_anew
from ut_tf.tables.record import read_records

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "results.md",
    *sorted((ROOT / "docs" / "results").glob("*.md")),
]


@pytest.fixture(scope="module")
def kept() -> KeptTables:
    return KeptTables.read(sorted((ROOT / "results").glob("*.jsonl")))


def test_sets_that_stand_for_others_are_the_same(kept: KeptTables) -> None:
    renamed = [
        (record, kept.layouts[record.table].same_sets[record.trained_recipe])
        for record in read_records(sorted((ROOT / "results").glob("*.jsonl")))
        if record.table in kept.layouts
        and record.trained_recipe in kept.layouts[record.table].same_sets
    ]
    assert {todays for _, todays in renamed} == {
        todays for layout in kept.layouts.values() for todays in layout.same_sets.values()
    }
    for record, todays in renamed:
        then = make_hparams(record.hparams_set, record.overrides)
        how_often = frozenset({"eval_frequency", "keep_checkpoint_max"})
        assert not differences(then, make_hparams(todays), ignored=how_often), todays


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_the_records_say(page: Path, kept: KeptTables) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == written_anew(text, page.name, kept), "run make results"


def test_every_table_of_records_is_on_a_page(kept: KeptTables) -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    sources = {kept.layouts[name].source for name in kept.layouts if f": {name} -->" in shown}
    assert {record.table for record in kept.records} <= sources


def test_records_say_what_their_command_does_and_name_what_is_beside_them(kept: KeptTables) -> None:
    for record in kept.records:
        updates = re.search(r"--train_steps=(\d+)", record.command or "")
        assert record.train_steps == (int(updates[1]) if updates else None)
        assert record.curve is None or (ROOT / "results" / record.curve).is_file()
        assert "/tmp" not in record.to_json() and "/home" not in record.to_json()
