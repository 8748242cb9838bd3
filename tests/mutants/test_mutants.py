"""The list of mutants fits the code: each changes one place."""

from __future__ import annotations

from tests.mutants.run import ROOT, read_mutants


def test_every_mutant_changes_one_place() -> None:
    mutants = read_mutants()
    assert len({mutant["id"] for mutant in mutants}) == len(mutants) >= 80
    for mutant in mutants:
        text = (ROOT / mutant["file"]).read_text(encoding="utf-8")
        assert text.count(mutant["before"]) == 1, mutant["id"]
        assert mutant["before"] != mutant["after"], mutant["id"]
        assert all((ROOT / tests).exists() for tests in mutant["tests"]), mutant["id"]
