"""The catalogue: every name makes a problem, and reading it imports no TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ut_tf import registry
from ut_tf.data.problem import Problem
from ut_tf.problems.catalogue import PROBLEMS

ROOT = Path(__file__).parents[2]


def test_every_name_makes_a_problem_that_knows_its_name() -> None:
    for name in PROBLEMS:
        problem = registry.problems.get(name)()
        assert isinstance(problem, Problem)
        assert problem.name == name
        sets = problem.evaluation_sets()
        assert sets and len({(item.name, item.method) for item in sets}) == len(sets)
        assert registry.problems.describe(name)


def test_reading_the_catalogue_imports_no_tensorflow() -> None:
    code = (
        "import sys; from ut_tf import registry; registry.problems.names(); sys.exit('tensorflow'"
        " in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_tensor2tensors_names_are_known() -> None:
    for name in (
        "algorithmic_identity_decimal40",
        "algorithmic_addition_binary40",
        "babi_qa_concat_all_tasks_10k",
        "babi_qa_concat_task7_1k",
        "sva_language_modeling",
        "sva_number_prediction",
        "parsing_english_ptb8k",
    ):
        assert name in PROBLEMS


def test_a_wrong_name_offers_near_ones() -> None:
    with pytest.raises(registry.UserError, match="algorithmic_reverse_decimal40"):
        registry.problems.check("algorithmic_reverse_decimal")
