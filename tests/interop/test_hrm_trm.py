"""Checkpoints of TRM and HRM against what their own code computed (tests/golden/recursive).

The networks have random weights and are chaotic: an outer step multiplies a difference of one part
in a million by hundreds. What is compared is therefore held to a multiple of the answer to such a
difference, besides the first outer step, where the multiple is small.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ut_tf.errors import UserError
from ut_tf.interop.hrm_trm import load_recursive, network_of, outer_steps

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "recursive"
# Of the first outer step, in parts of the array's largest absolute value.
FIRST = {"trm_attention": 2e-4, "trm_mlp": 1e-3, "hrm_two_levels": 6e-3}
FIELDS = ("logits", "q_halt", "q_continue", "z_H")


def loaded(name: str) -> Any:
    return load_recursive(GOLDEN / f"{name}.pth", GOLDEN / f"{name}.yaml")


@pytest.mark.parametrize("name", FIRST)
def test_an_outer_step_of_the_original_code(name: str) -> None:
    golden = np.load(GOLDEN / f"{name}.npz")
    model = loaded(name)
    inputs, puzzles = golden["inputs"], golden["puzzle_identifiers"]
    first, second = outer_steps(model, inputs, puzzles, 2)
    low = model.encoder.stack.levels.initial_low_state.vector
    low.assign(low * (1 + 1e-6))
    moved = outer_steps(model, inputs, puzzles, 2)
    for field in FIELDS:
        expected = golden[f"{field}_1"]
        difference = np.abs(getattr(first, field) - expected).max()
        assert difference <= FIRST[name] * np.abs(expected).max(), field
        # About the error of a float32 sum, as the network magnifies it.
        sensitivity = np.abs(getattr(moved[1], field) - getattr(second, field)).max()
        if name != "hrm_two_levels":
            assert np.abs(getattr(second, field) - golden[f"{field}_2"]).max() <= 2 * sensitivity
    # Another puzzle has another memory, and so has another order of positions.
    other = outer_steps(model, inputs, (puzzles + 1) % 3, 1)[0]
    assert np.abs(other.logits - first.logits).max() > 100 * FIRST[name]


def test_positions_in_front_are_the_puzzles() -> None:
    model = loaded("trm_attention")
    golden = np.load(GOLDEN / "trm_attention.npz")
    assert golden["z_H_1"].shape == (5, 20, 32)
    step = outer_steps(model, golden["inputs"], golden["puzzle_identifiers"], 1)[0]
    assert step.z_H.shape == (5, 20, 32) and step.logits.shape == (5, 16, 7)
    assert model.network.eval_num_steps == 4


def test_what_a_configuration_cannot_ask_for() -> None:
    arch = {"name": "trm", "hidden_size": 8, "L_layers": 2, "H_layers": 2, "seq_len": 4}
    arch |= {"num_heads": 2, "expansion": 4, "H_cycles": 1, "L_cycles": 1}
    with pytest.raises(UserError, match="pos_encodings=learned"):
        network_of({**arch, "pos_encodings": "learned"})
    with pytest.raises(UserError, match="H_layers=3 and L_layers=2"):
        network_of({**arch, "name": "hrm", "H_layers": 3, "pos_encodings": "rope"})


def test_weights_of_another_configuration_are_refused(tmp_path: Path) -> None:
    text = (GOLDEN / "trm_attention.yaml").read_text()
    for before, after, what in (
        ("hidden_size: 32", "hidden_size: 16", r"embedding_weight becomes \[9, 32\]"),
        ("L_layers: 2", "L_layers: 3", r"has no weight L_level\.layers\.2"),
        ("L_layers: 2", "L_layers: 1", r"has L_level\.layers\.1"),
        ("arch:", "bow:", "no mapping"),
        ("arch:", "arch: [", r"config\.yaml cannot be read \("),
        ("seq_len:", "length:", r"lacks seq_len: write them into it"),
        ("puzzle_emb_ndim: ", "puzzle_emb_ndim: x", "puzzle_emb_ndim='x"),
        ("hidden_size: 32", "hidden_size: wide", "hidden_size='wide', expected a whole number"),
        ("expansion: ", "expansion: x", "expected a number"),
    ):
        assert before in text
        path = tmp_path / "config.yaml"
        path.write_text(text.replace(before, after))
        with pytest.raises(UserError, match=what):
            load_recursive(GOLDEN / "trm_attention.pth", path)


def test_sizes_of_the_data_come_from_the_weights(tmp_path: Path) -> None:
    lines = (GOLDEN / "trm_attention.yaml").read_text().splitlines(keepends=True)
    sizes = ("vocab_size:", "num_puzzle_identifiers:")
    path = tmp_path / "all_config.yaml"
    path.write_text("".join(line for line in lines if not line.strip().startswith(sizes)))
    assert len(path.read_text().splitlines()) == len(lines) - 2
    model = load_recursive(GOLDEN / "trm_attention.pth", path)
    assert model.network == loaded("trm_attention").network
