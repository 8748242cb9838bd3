"""The page of names: short for a first look, whole for a group or a part of a name."""

from __future__ import annotations

import pytest

from ut_tf import registry
from ut_tf.bin.flags import FlagError
from ut_tf.bin.registry_page import registry_page


def test_models_come_first_and_babi_is_one_row() -> None:
    lines = registry_page().splitlines()
    assert lines[0] == "Models:"
    assert [line for line in lines if line.startswith("  babi (")]
    assert not [line for line in lines if "babi_qa_task7_10k" in line]
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert names.index("ut_babi") < names.index("transformer_big")


def test_a_group_is_listed_whole_in_the_order_of_numbers() -> None:
    lines = registry_page("babi_qa_task").splitlines()
    tasks = [line.split()[0] for line in lines if "_10k" in line.split()[0]]
    assert tasks == [f"babi_qa_task{task}_10k" for task in range(1, 21)]
    babi = next(group for group in registry.problems.groups() if group.name == "babi")
    assert all(name in registry_page("babi") for name in babi.names)


def test_every_name_is_on_some_page() -> None:
    for kind in (registry.models, registry.hparams_sets, registry.problems):
        for name in kind.names():
            assert name in registry_page(name)


def test_a_pattern_that_matches_nothing_is_told() -> None:
    with pytest.raises(FlagError, match="did you mean babi"):
        registry_page("bbi")
