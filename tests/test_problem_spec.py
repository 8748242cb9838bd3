"""What a model must know of a problem: that a spec that cannot be is refused when it is made."""

from __future__ import annotations

import pytest

import ut_tf
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec


def test_every_mistake_of_a_spec_is_listed() -> None:
    with pytest.raises(UserError) as caught:
        ProblemSpec("text", "clas", -1, 2.5)  # type: ignore[arg-type]
    for expected in (
        "inputs='text': expected one of tokens, facts, none",
        "targets='clas': expected one of tokens, aligned, class, word; did you mean class?",
        "input_vocab_size=-1: expected a whole number from 0",
        "target_vocab_size=2.5: expected a whole number from 0",
    ):
        assert expected in str(caught.value)


def test_a_spec_is_read_as_it_was_written() -> None:
    spec = ProblemSpec("facts", "class", 12, 5, max_words=3)
    assert ProblemSpec.from_dict(spec.to_dict()) == spec


def test_the_former_configuration_names_the_new_ones() -> None:
    with pytest.raises(AttributeError, match="NetworkConfig is now UniversalTransformerConfig"):
        _ = ut_tf.NetworkConfig
