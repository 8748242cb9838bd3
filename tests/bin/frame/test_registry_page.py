"""The page of names: short for a first look, whole for a group or a part of a name."""

from __future__ import annotations

import pytest

from ut_tf import registry
from ut_tf.bin.frame.flag_values import made_for_others
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.registry_page import registry_page
from ut_tf.hparams.first_sets import first_sets
from ut_tf.problems.catalogue import PROBLEMS


def test_models_come_first_and_babi_is_one_row() -> None:
    lines = registry_page().splitlines()
    assert lines[0] == "Models:"
    assert [line for line in lines if line.startswith("  babi (")]
    assert not [line for line in lines if "babi_qa_task7_10k" in line]
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert names.index("ut_babi") < names.index("transformer_big")


def test_a_group_is_listed_whole_in_the_order_of_numbers() -> None:
    lines = registry_page("babi_qa_task").splitlines()
    tasks = [line.split()[0] for line in lines if "_10k" in line.partition("  bAbI")[0]]
    assert tasks == [f"babi_qa_task{task}_10k" for task in range(1, 21)]
    babi = next(group for group in registry.problems.groups() if group.name == "babi")
    page = registry_page("babi")
    assert all(name in page for name in babi.names)


def test_problems_are_listed_with_the_sets_to_begin_with() -> None:
    _, sets = registry_page("babi_sim").split("\nSets to begin with:\n")
    rows = dict(row.split(maxsplit=1) for row in _rows(sets) if row)
    assert rows["ut_demo"] == registry.hparams_sets.describe("ut_demo")
    assert "Sets to begin with" not in registry_page("ut_demo")


def test_every_problem_has_sets_to_begin_with_that_are_there() -> None:
    for problem in PROBLEMS:
        sets = first_sets(problem)
        assert sets, problem
        for name in sets:
            registry.hparams_sets.check(name)


@pytest.mark.parametrize(
    ("problem", "first"),
    [
        ("babi_qa_task5_1k", "ut_babi_1k"),
        ("babi_qa_task5_10k", "ut_babi"),
        ("babi_qa_task16_1k", "ut_babi_induction"),
        ("babi_qa_1k", "ut_babi_joint_1k"),
    ],
)
def test_the_set_to_begin_with_fits_the_number_of_questions(problem: str, first: str) -> None:
    assert first_sets(problem)[0] == first


@pytest.mark.parametrize(
    ("problem", "hparams_set", "told"),
    [
        ("babi_qa", "ut_algorithmic", "for babi_qa there is --hparams_set=ut_babi_joint"),
        ("translate_ende_multi30k", "ut_babi", "there is --hparams_set=ut_translate_small"),
        ("babi_qa", "ut_tiny", ""),
        ("algorithmic_copy_decimal40", "ut_length_generalization", ""),
        ("problem_of_the_user", "ut_babi", ""),
    ],
)
def test_a_recipe_for_other_problems_is_told(problem: str, hparams_set: str, told: str) -> None:
    line = made_for_others(problem, hparams_set)
    assert line.endswith(told) and bool(line) == bool(told)
    assert not line or line.startswith(f"goes on with {hparams_set}, whose values were chosen for")


def test_a_set_s_page_has_its_hyperparameters() -> None:
    rows = dict(row.split() for row in _rows(registry_page("ut_multi30k")) if len(row.split()) == 2)
    assert rows["learning_rate"] == "0.0035"
    assert "halting" not in rows  # It is the default.


def test_a_hyperparameter_is_found_by_its_name_or_words_of_it() -> None:
    momentum = " ".join(registry_page("muon_momentum").split())
    assert momentum.endswith("number; default: 0.95; only with optimizer=muon")
    lines = registry_page("relative_bias").splitlines()
    assert [line for line in lines if line.startswith("  relative_bias  Reach of a learned bias")]
    assert not [line for line in lines if line.startswith("  relative_self_bias")]
    assert "  relative_self_bias  " in registry_page("relative_")
    # The name in full is followed by those that have it as a word.
    own, others = registry_page("dropout").split("\nOther hyperparameters ")
    assert "\n  dropout  " in own and "\n  attention_dropout  " in others
    # A group is not a part of hyperparameters' names, such as filter_size.
    assert "filter_size" not in registry_page("lte")
    with pytest.raises(FlagError, match="did you mean optimizer"):
        registry_page("optimiser")


PARTS = {
    "recurrence": registry.cells,
    "transition": registry.transitions,
    "halting": registry.halting_forms,
    "exit": registry.exit_rules,
    "position": registry.positions,
    "strategy": registry.strategies,
    "method": registry.evaluation_methods,
}


@pytest.mark.parametrize("option", PARTS)
def test_parts_are_listed_with_those_of_user_code(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def part() -> None:
        """Made by hand."""

    monkeypatch.setattr(PARTS[option], "_registered", {})
    PARTS[option].register("own_part", part)
    (row,) = [row for row in _rows(registry_page()) if row.startswith(f"{option} ")]
    described = registry_page(option)
    for name in PARTS[option].names():
        assert f" {name}" in row
        assert f"  {name}  " in described
    assert "Made by hand." in described
    assert registry_page("own_part").count("own_part") == 1


def _rows(page: str) -> list[str]:
    """The rows of a page, each with the lines that it goes on in."""
    return page.replace("\n    ", " ").replace("\n  ", "\n").splitlines()
