"""Which fields of NetworkConfig a model has no use for, and whether they ask for something all the
same.

How it is used, by the checks of hyperparameters and by the models themselves::

    # ["the model lstm has no use for halting=basic: leave it out"]
    needless_fields("lstm", network)
    refuse_needless("lstm", network)                      # the same as a UserError
    # ["num_steps=4 has no effect on the model lstm, whose depth is num_layers"]
    without_effect("lstm", values, ["num_steps"])

How it works: a field that a model does not read may keep any value that asks for nothing, its
default among them; any other is a mistake, so that nobody believes to have trained what was not
there. Sizes and rates that a model does not read ask for nothing, as sets bring them along for
every model; ``without_effect`` finds those that a user has set by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ut_tf.config.network import NetworkConfig
from ut_tf.errors import UserError

# The values that ask for nothing. Recurrent steps, halting among them:
_STEPS: dict[str, tuple[Any, ...]] = {
    "halting": ("none",),
    "recurrence": ("basic",),
    "steps_per_position": (0.0,),
}
# What a recurrence is made of, and what stands around it:
_AROUND_STEPS: dict[str, tuple[Any, ...]] = {
    "recurrence_layers": (1,),
    "mix_layers_before": (0,),
    "mix_layers_after": (0,),
    "recurrent_layer": ("none",),
}
# Multi-head attention and the transition around it:
_BLOCK: dict[str, tuple[Any, ...]] = {
    "norm": ("post",),
    "transition": ("fc",),
    "attention_bias": (False,),
    "attention_scale": ("constant",),
    "query_key_init": ("independent",),
    "relative_bias": (0,),
}
# Positions as numbers that are added or turned by:
_COORDINATES: dict[str, tuple[Any, ...]] = {
    "position": ("paper", "none"),
    "position_from": ("start",),
    "end_position": (1,),
    "position_separator": (0,),
    "position_offset": ("none",),
    "eval_position_stride": (1,),
    "target_position": ("start",),
    "input_start_symbol": (False,),
    "target_space_embedding": (False,),
}
# Regularisation by left-out words, and what a classifier reads:
_WORDS: dict[str, tuple[Any, ...]] = {"word_dropout": (0.0,), "summary": ("last",)}
_STACKS = ("transformer", "mem_transformer", "mem_bottleneck_transformer")
_OTHERS = ("universal_transformer", "conditional_universal_transformer")
_IMAGES = ("neural_gpu", "extended_neural_gpu")
_MEMORIES = ("mem_transformer", "mem_bottleneck_transformer", "memn2n")
_NEEDLESS = {
    "memn2n": _STEPS | _AROUND_STEPS | _BLOCK | _COORDINATES | _WORDS,
    **dict.fromkeys(_STACKS, _STEPS | _AROUND_STEPS),
    **dict.fromkeys(
        ("lstm", "convs2s", "bytenet", *_IMAGES), _STEPS | _AROUND_STEPS | _BLOCK | _COORDINATES
    ),
}
# Fields that only these models read, with the value that asks for nothing.
_OWN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "lstm_attention": ("none", ("lstm",)),
    "lstm_direction": ("forward", ("lstm",)),
    "conv_kernel": (3, ("convs2s", "bytenet", *_IMAGES)),
    "learned_positions": (512, ("convs2s",)),
    "max_dilation": (16, ("bytenet",)),
    "source_stretch": (1.2, ("bytenet", *_IMAGES)),
    "image_width": (4, _IMAGES),
    "gate_cutoff": (1.2, _IMAGES),
    "relaxed_sets": (1, _IMAGES),
    "memory_size": (10, _MEMORIES),
    "eval_memory_size": (0, _MEMORIES),
    "hop_tying": ("adjacent", ("memn2n",)),
}
# Sizes, rates and values that only these models read: others pass over them without harm, but a
# user who sets one is told.
_BLOCKS = (*_OTHERS, *_STACKS)
_READERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("num_heads", "filter_size", "attention_dropout", "relu_dropout"), _BLOCKS),
    "num_layers": (*_STACKS, "lstm", "convs2s", "bytenet", *_IMAGES),
    "num_steps": (*_OTHERS, "memn2n"),
    **dict.fromkeys(("step_encoding", "act_max_steps"), _OTHERS),
    "dropout": (*_BLOCKS, "lstm", "convs2s", "bytenet", *_IMAGES),
    "eval_position_offset": _BLOCKS,
    "target_start": (*_BLOCKS, "bytenet"),
}
# Fields that are read only where another one has one of these values.
_SUMS = ("basic", "accumulated", "global", "random")
_WITH: dict[str, tuple[str, tuple[Any, ...]]] = {
    **dict.fromkeys(
        ("ponder_prior", "ponder_kl_weight", "ponder_threshold"), ("halting", ("pondernet",))
    ),
    **dict.fromkeys(("act_loss_weight", "halted_states"), ("halting", _SUMS)),
    **dict.fromkeys(
        ("act_max_steps", "act_epsilon", "padding_ponders"), ("halting", (*_SUMS, "pondernet"))
    ),
    "act_halting_bias_init": ("halting", ("basic", "accumulated", "global", "pondernet")),
    "global_mean": ("halting", ("global",)),
    "max_position_offset": ("position_offset", ("random", "mixed", "randomised")),
    "attention_scale_length": ("attention_scale", ("log_length",)),
    "transform_bias_init": ("recurrence", ("highway", "skip")),
    "lstm_forget_bias": ("recurrence", ("lstm",)),
    **dict.fromkeys(
        (
            "curriculum_start",
            "curriculum_threshold",
            "curriculum_examples",
            "curriculum_share",
            "tying_pull",
            "tying_pull_factor",
        ),
        ("curriculum", ("length",)),
    ),
}


def without_effect(model: str, values: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Returns a text for each of the fields in `names` that this model, with these values, never
    reads.

    Args:
      model: registered name; of one that is not listed here only what goes with other fields is
        known.
      values: of every field of network and training, by name.
      names: of the fields that the user set.
    """
    found = []
    for name in names:
        if model in (*_NEEDLESS, *_OTHERS) and model not in _READERS.get(name, (model,)):
            depth = (
                ", whose depth is num_layers"
                if name == "num_steps" and model in _READERS["num_layers"]
                else ""
            )
            depth = ", whose depth is num_steps" if name == "num_layers" else depth
            found.append(f"{name}={values[name]} has no effect on the model {model}{depth}")
        elif name in _WITH and values[_WITH[name][0]] not in _WITH[name][1]:
            other, needed = _WITH[name]
            found.append(
                f"{name}={values[name]} has no effect with {other}={values[other]}, only with"
                f" {' or '.join(needed)}"
            )
    return found


def needless_fields(model: str, network: NetworkConfig) -> list[str]:
    """Returns a text that names the fields which ask for what the model does not have, or nothing.

    Args:
      model: registered name; of one that is not listed here nothing is known.
      network: its fields, resolved or not.
    """
    values = vars(network)
    needless = _NEEDLESS.get(model, {})
    asked = [name for name, nothing in needless.items() if values[name] not in nothing]
    if model in _NEEDLESS or model in _OTHERS:
        asked += [
            name
            for name, (nothing, models) in _OWN.items()
            if model not in models and values[name] != nothing
        ]
    if values["position"] == "learned" and "learned_positions" in asked:
        asked.remove("learned_positions")
    mistakes = []
    steps = [name for name in asked if model in _STACKS and name in needless]
    if steps:
        listed = " and ".join(f"{name}={values[name]}" for name in steps)
        mistakes.append(
            f"the model {model} has no recurrence, so {listed} cannot be: take"
            " --model=universal_transformer"
        )
    others = [name for name in asked if name not in steps]
    if others:
        listed = ", ".join(f"{name}={values[name]}" for name in others)
        mistakes.append(
            f"the model {model} has no use for {listed}: leave"
            f" {'it' if len(others) == 1 else 'them'} out"
        )
    return mistakes


def has_steps(model: str) -> bool:
    """Returns whether num_steps is a model's depth; of one that is not listed here: yes."""
    return model not in _NEEDLESS or model in _READERS["num_steps"]


def has_heads(model: str) -> bool:
    """Returns whether the states of a model are divided among attention heads; of one that is not
    listed here: yes.
    """
    return not _BLOCK.keys() <= _NEEDLESS.get(model, {}).keys()


def refuse_needless(model: str, network: NetworkConfig, further: Iterable[str] = ()) -> None:
    """Raises UserError where the network asks for what the model does not have, or where there are
    `further` mistakes.
    """
    mistakes = [*needless_fields(model, network), *further]
    if mistakes:
        raise UserError(f"{'; '.join(mistakes)}.")
