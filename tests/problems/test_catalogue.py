"""The catalogue: every name makes a problem, and reading it imports no TensorFlow."""

from __future__ import annotations

import pytest

from ut_tf import registry
from ut_tf.data.arguments import check_argument_names, signature_of
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.problems.catalogue import PROBLEMS


def test_every_name_makes_a_problem_that_knows_its_name() -> None:
    for name in PROBLEMS:
        problem = registry.problems.get(name)()
        assert isinstance(problem, Problem)
        assert problem.name == name
        sets = problem.evaluation_sets()
        assert sets and len({(item.name, item.method) for item in sets}) == len(sets)
        assert registry.problems.describe(name)


def test_the_catalogue_knows_which_arguments_are_files() -> None:
    for name, entry in PROBLEMS.items():
        declared = registry.problems.get(name).func.file_arguments  # type: ignore[attr-defined]
        assert entry.file_arguments == declared, name
    assert registry.problems.file_arguments("translate_files")["dev_target_files"] == "files"


def test_every_problem_is_in_one_group_that_says_what_it_is() -> None:
    groups = registry.problems.groups()
    built_in = [group for group in groups if group.name]
    assert sorted(name for group in built_in for name in group.names) == sorted(PROBLEMS)
    assert all(group.names and group.description for group in built_in)
    (babi,) = (group for group in groups if group.name == "babi")
    assert {"babi_qa", "babi_qa_1k", "babi_qa_task20_10k"} <= {*babi.names}
    assert len(babi.names) == 84


def test_the_names_of_arguments_are_those_of_the_classes() -> None:
    for name, entry in PROBLEMS.items():
        factory = registry.problems.get(name)
        names = signature_of(factory).parameters.keys() - {"name"}
        assert set(entry.argument_names or ()) == names, entry.target
        assert registry.problems.argument_names(name) == entry.argument_names


def test_a_misspelt_argument_is_refused_before_the_problem_is_imported() -> None:
    with pytest.raises(UserError, match="no argument 'story_lenght'; did you mean story_length"):
        check_argument_names("babi_sim", {"story_lenght": 8})
