"""tensor2tensor's named sets of its Universal Transformer, with its semantics, for its users and
for its checkpoints.

How it is used::

    ut-trainer --problem=babi_qa --hparams_set=universal_transformer_base

How it works: ``variant`` changes a size's fields; ``SETS`` says for each name which size and what
else. What the paper does otherwise stands in ``_SEMANTICS``: pre-norm, its timing signal from
position 0, a learned step embedding, halted states that go on being transformed, padding that
ponders, and a halting bias of 1. ``UNAVAILABLE`` holds the names whose type is not built yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError


@dataclass(frozen=True)
class NamedSet:
    """A size with what else the set changes, and one line that says so."""

    size: str
    description: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UnavailableSet:
    """A set whose type is not built yet, and the set nearest to it that is."""

    missing: str
    nearest: str


_SEMANTICS = {
    "norm": "pre",
    "position": "tensor2tensor",
    "position_every_step": True,
    "step_encoding": "learned",
    "halted_states": "transform",
    "padding_ponders": True,
    "act_halting_bias_init": 1.0,
    "kernel_init": "unit_scaling",
}
_LARGE_DROPOUT = {"dropout": 0.3, "attention_dropout": 0.1, "relu_dropout": 0.1}
# act_max_steps is twice tensor2tensor's number of hidden layers (6, tiny: 2), whatever its
# num_rec_steps.
_SIZES: dict[str, dict[str, Any]] = {
    "base": {
        "hidden_size": 1024,
        "filter_size": 4096,
        "num_heads": 16,
        "num_steps": 6,
        "act_max_steps": 12,
        **_LARGE_DROPOUT,
    },
    "small": {
        "hidden_size": 512,
        "filter_size": 2048,
        "num_heads": 8,
        "num_steps": 6,
        "act_max_steps": 12,
    },
    "big": {
        "hidden_size": 2048,
        "filter_size": 8192,
        "num_heads": 16,
        "num_steps": 6,
        "act_max_steps": 12,
        **_LARGE_DROPOUT,
    },
    "tall": {
        "hidden_size": 512,
        "filter_size": 2048,
        "num_heads": 8,
        "num_steps": 16,
        "act_max_steps": 12,
    },
    "tiny": {
        "hidden_size": 128,
        "filter_size": 512,
        "num_heads": 4,
        "num_steps": 8,
        "act_max_steps": 4,
    },
    "teeny": {
        "hidden_size": 128,
        "filter_size": 128,
        "num_heads": 2,
        "num_steps": 10,
        "act_max_steps": 12,
    },
}
_ACT = {"halting": "basic"}
_GATED = {"step_encoding": "none"}
_TALL_ACT = {**_ACT, "act_max_steps": 24, "batch_size": 1024}
# tensor2tensor shifts by less than the batch's length, which max_length bounds in training.
_RANDOM_START = {"position_offset": "random", "max_position_offset": 256}


def variant(size: str, **changes: Any) -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=universal_transformer_base``

    Args:
      size: a key of the sizes (base, small, big, tall, tiny, teeny).
      changes: fields to set besides.

    Returns:
      tensor2tensor's Universal Transformer of that size: 4096 tokens per replica, Adam 0.9 / 0.997
      / 1e-9, label smoothing 0.1, inverse square root schedule with 8000 updates of warm-up.
    """
    return HParams().change(**{**_SEMANTICS, **_SIZES[size], **changes})


def unavailable(name: str, missing: str, nearest: str) -> NoReturn:
    """Raises the UserError that says what `name` needs that is not built yet, and which set to use
    instead.
    """
    raise UserError(
        f"hyperparameter set {name!r} needs {missing}, which is not available yet: the nearest set"
        f" is {nearest}."
    )


def _dropouts(rate: float) -> dict[str, Any]:
    return {**_ACT, "dropout": rate, "attention_dropout": rate, "relu_dropout": rate}


def _sets() -> dict[str, NamedSet]:
    fixed = "universal_transformer_"
    adaptive = "adaptive_universal_transformer_"
    sets = {
        fixed + size: NamedSet(size, f"tensor2tensor's {size} size, fixed depth") for size in _SIZES
    }
    for size in ("tiny", "base", "big"):
        sets[f"{fixed}sepconv_{size}"] = NamedSet(
            size, f"{size} with separable convolutions", {"transition": "sepconv"}
        )
    for size in ("base", "small", "tiny"):
        sets[adaptive + size] = NamedSet(size, f"{size} with dynamic halting", _ACT)
    return sets | {
        f"{fixed}highway_base": NamedSet(
            "base", "base with gates between state and block", {"recurrence": "highway"}
        ),
        f"{fixed}skip_base": NamedSet(
            "base", "base with gates between input and block", {"recurrence": "skip"}
        ),
        f"{fixed}dwa_base": NamedSet(
            "base", "base with attention over the states of earlier steps", {"recurrence": "dwa"}
        ),
        f"{fixed}mix_before_ut_base": NamedSet(
            "base", "base behind 2 untied layers", {"mix_layers_before": 2}
        ),
        f"{fixed}mix_after_ut_base": NamedSet(
            "base", "base before 2 untied layers", {"mix_layers_after": 2}
        ),
        f"{adaptive}mix_before_ut_base": NamedSet(
            "base", "base with halting, behind 2 untied layers", {**_ACT, "mix_layers_before": 2}
        ),
        f"{adaptive}mix_after_ut_base": NamedSet(
            "base", "base with halting, before 2 untied layers", {**_ACT, "mix_layers_after": 2}
        ),
        f"{fixed}gru_base": NamedSet(
            "base", "base, states combined by a GRU", {"recurrence": "gru", **_GATED}
        ),
        f"{fixed}lstm_base": NamedSet(
            "base", "base, states combined by an LSTM", {"recurrence": "lstm", **_GATED}
        ),
        f"{fixed}lstm_tall": NamedSet(
            "tall", "tall, states combined by an LSTM", {"recurrence": "lstm", **_GATED}
        ),
        f"{fixed}position_random_timing_tiny": NamedSet(
            "tiny", "tiny, positions from a random offset in training", _RANDOM_START
        ),
        f"{fixed}position_step_timing_tiny": NamedSet(
            "tiny", "tiny, positions that grow with the steps", {"position_shift": "step"}
        ),
        f"{fixed}step_sinusoid_timing_tiny": NamedSet(
            "tiny", "tiny with a sinusoid of the step", {"step_encoding": "sinusoid"}
        ),
        f"{adaptive}position_random_timing_tiny": NamedSet(
            "tiny", "halting, positions from a random offset", {**_ACT, **_RANDOM_START}
        ),
        f"{adaptive}concat_tiny": NamedSet(
            "tiny",
            "tiny with halting, timing signals concatenated",
            {**_ACT, "coordinate_form": "concat"},
        ),
        f"{adaptive}sepconv_tiny": NamedSet(
            "tiny",
            "tiny with halting and separable convolutions",
            {**_ACT, "transition": "sepconv"},
        ),
        f"{adaptive}global_base": NamedSet(
            "base", "base, one halting decision per sequence", {"halting": "global"}
        ),
        f"{adaptive}base_dropout03": NamedSet(
            "base", "base with halting, every dropout 0.3", _dropouts(0.3)
        ),
        f"{adaptive}base_dropout05": NamedSet(
            "base", "base with halting, every dropout 0.5", _dropouts(0.5)
        ),
        f"{adaptive}tall": NamedSet(
            "small", "small with halting after at most 24 steps", _TALL_ACT
        ),
        f"{adaptive}tall_actlossw0": NamedSet(
            "small", "tall without ponder cost", {**_TALL_ACT, "act_loss_weight": 0.0}
        ),
        f"{adaptive}tall_actlossw001": NamedSet(
            "small", "tall with ponder cost 0.001", {**_TALL_ACT, "act_loss_weight": 0.001}
        ),
    }


SETS: Mapping[str, NamedSet] = _sets()

UNAVAILABLE: Mapping[str, UnavailableSet] = {
    "universal_transformer_small_dropconnect": UnavailableSet(
        "gates with DropConnect", "universal_transformer_small"
    ),
    "universal_transformer_base_tpu": UnavailableSet(
        "tensor2tensor's TPU recipe", "universal_transformer_base"
    ),
    "adaptive_universal_transformer_base_tpu": UnavailableSet(
        "tensor2tensor's TPU recipe", "adaptive_universal_transformer_base"
    ),
    "adaptive_universal_transformer_global_base_tpu": UnavailableSet(
        "tensor2tensor's TPU recipe", "adaptive_universal_transformer_global_base"
    ),
    "adaptive_universal_transformer_with_sru_base": UnavailableSet(
        "a simple recurrent unit (SRU)", "adaptive_universal_transformer_base"
    ),
    "adaptive_universal_transformer_multilayer_tpu": UnavailableSet(
        "tensor2tensor's TPU recipe", "adaptive_universal_transformer_base"
    ),
}
