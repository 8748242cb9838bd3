"""The summary of a model says what its recurrent step is made of, and shapes."""

from __future__ import annotations

import pytest

import ut_tf
from ut_tf.problem_spec import ProblemSpec

CONFIG = ut_tf.UniversalTransformerConfig(hidden_size=8, num_heads=2, filter_size=12)


def rows(model: ut_tf.UniversalTransformer) -> dict[str, tuple[str, str]]:
    """The shape and the number of parameters of each row, by its indented name."""
    lines: list[str] = []
    model.summary(line_length=80, positions=[0.6, 0.85, 1.0], print_fn=lines.append)
    cells = [
        [cell.rstrip() for cell in line.split("│")[1:4]]
        for text in lines
        for line in text.splitlines()
        if line.startswith("│")
    ]
    return {cell[0].split(" (")[0][1:]: (cell[1].strip(), cell[2].strip()) for cell in cells}


@pytest.mark.parametrize(
    ("targets", "head"), [("class", "(None, 3)"), ("aligned", "(None, None, 3)")]
)
def test_the_block_s_parts_are_rows(targets: str, head: str) -> None:
    model = ut_tf.UniversalTransformer(CONFIG, ProblemSpec("tokens", targets, 10, 3))
    told = rows(model)
    states = "(None, None, 8)"
    # Four matrices of 8 x 8; 8 x 12 and 12 x 8 with biases; scale and shift.
    assert told["      └ self_attention"] == (states, "256")
    assert told["      └ transition"] == (states, "212")
    assert told["      └ self_attention_norm"] == told["      └ transition_norm"] == (states, "16")
    assert told["   └ block"] == told["encoder"] == (states, "500")
    assert told["classifier"] == (head, "27")
    assert not any(shape == "?" for shape, _ in told.values())


def test_the_layers_alone() -> None:
    lines: list[str] = []
    model = ut_tf.UniversalTransformer(CONFIG, ProblemSpec("tokens", "class", 10, 3))
    model.summary(expand_nested=False, print_fn=lines.append)
    assert "encoder" in "".join(lines) and "self_attention" not in "".join(lines)
