"""Which hyperparameters cannot be, by themselves or together.

How it works: bounds of single fields come first; only where all are kept is it asked whether fields
fit together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ut_tf.config.network import NetworkConfig
from ut_tf.config.unused import has_heads, has_steps, needless_fields

if TYPE_CHECKING:
    from ut_tf.config.training import TrainingConfig

# Bounds of single fields: "at least", "above", and "below" what they say.
_AT_LEAST = {
    **dict.fromkeys(
        (
            "hidden_size",
            "filter_size",
            "num_heads",
            "num_steps",
            "num_layers",
            "eval_num_steps",
            "recurrence_layers",
        ),
        1,
    ),
    **dict.fromkeys(("mix_layers_before", "mix_layers_after"), 0),
    "memory_size": 1,
    "eval_memory_size": 0,
    **dict.fromkeys(("act_max_steps", "eval_act_max_steps"), 1),
    **dict.fromkeys(
        (
            "batch_size",
            "max_length",
            "min_length_bucket",
            "accumulate_steps",
            "train_steps",
            "eval_frequency",
        ),
        1,
    ),
    **dict.fromkeys(("keep_checkpoint_max", "decay_steps"), 1),
    **dict.fromkeys(
        (
            "warmup_steps",
            "early_stopping_patience",
            "weight_decay",
            "clip_norm",
            "act_loss_weight",
            "steps_per_position",
        ),
        0,
    ),
    **dict.fromkeys(("ponder_kl_weight", "end_position", "position_separator"), 0),
    **dict.fromkeys(
        (
            "relative_bias",
            "max_position_offset",
            "word_mask_stddev",
            "embedding_stddev",
            "vocab_size",
        ),
        0,
    ),
    "attention_scale_length": 2,
    "conv_kernel": 1,
    "max_dilation": 1,
    "source_stretch": 1,
    **dict.fromkeys(("learned_positions", "eval_position_stride"), 1),
    **dict.fromkeys(
        (
            "image_width",
            "gate_cutoff",
            "relaxed_sets",
            "curriculum_start",
            "curriculum_examples",
            "tying_pull_factor",
        ),
        1,
    ),
    **dict.fromkeys(("gradient_noise", "tying_pull"), 0),
}
_ABOVE = {"learning_rate": 0, "norm_epsilon": 0, "adam_epsilon": 0, "length_bucket_step": 1}
_SHARES = (
    "dropout",
    "attention_dropout",
    "relu_dropout",
    "word_dropout",
    "label_smoothing",
    "adam_beta1",
    "adam_beta2",
    "average_decay",
)
_ABOVE_TO_ONE = ("curriculum_threshold", "curriculum_share")

CONDITIONAL = "conditional_universal_transformer"


def mistakes_in(model: str, network: NetworkConfig, training: TrainingConfig) -> list[str]:
    """Returns a text for each field, or group of fields, of resolved hyperparameters that cannot
    be.

    Args:
      model: registered name of the model.
      network, training: its fields, every one with a value.
    """
    values = {**vars(network), **vars(training)}
    mistakes = [
        f"{name}={values[name]}: expected at least {bound}"
        for name, bound in _AT_LEAST.items()
        if values[name] < bound
    ]
    mistakes += [
        f"{name}={values[name]}: expected above {bound}"
        for name, bound in _ABOVE.items()
        if values[name] <= bound
    ]
    mistakes += [
        f"{name}={values[name]}: expected at least 0 and below 1"
        for name in _SHARES
        if not 0 <= values[name] < 1
    ]
    mistakes += [
        f"{name}={values[name]}: expected above 0 and at most 1"
        for name in _ABOVE_TO_ONE
        if not 0 < values[name] <= 1
    ]
    within = ("act_epsilon", "ponder_prior", "ponder_threshold")
    mistakes += [
        f"{name}={values[name]}: expected between 0 and 1"
        for name in within
        if not 0 < values[name] < 1
    ]
    if mistakes:
        return mistakes
    mistakes = (
        needless_fields(model, network)
        + _impossible_sizes(model, network)
        + _impossible_depths(model, network)
    )
    return mistakes + impossible_hops(model, network) + _impossible_pairs(network, training)


def impossible_hops(model: str, network: NetworkConfig) -> list[str]:
    """Returns what a memory network (memn2n) has no weights for at evaluation; of other models
    nothing.
    """
    if model != "memn2n":
        return []
    mistakes = []
    if network.eval_memory_size > network.memory_size:
        mistakes.append(
            f"eval_memory_size={network.eval_memory_size} is more than"
            f" memory_size={network.memory_size}, and memn2n has learned no temporal encoding for"
            " older facts: lower it"
        )
    if network.hop_tying == "adjacent" and (network.eval_num_steps or 0) > network.num_steps:
        mistakes.append(
            f"eval_num_steps={network.eval_num_steps} is more than num_steps={network.num_steps},"
            " and with hop_tying=adjacent each hop of memn2n has an embedding of its own: use"
            " layerwise"
        )
    return mistakes


def impossible_memories(network: NetworkConfig) -> list[str]:
    """Returns why a recurrence has no memory to return as its final state, where it is
    asked for.
    """
    if network.use_memory_as_final_state and (
        network.recurrence != "lstm" or network.halting != "none"
    ):
        return [
            "use_memory_as_final_state=True needs recurrence=lstm with halting=none, not"
            f" {network.recurrence} with {network.halting}"
        ]
    return []


def _impossible_pairs(network: NetworkConfig, training: TrainingConfig) -> list[str]:
    mistakes = []
    if network.relaxed_sets > 1 and training.curriculum == "none":
        mistakes.append(
            f"relaxed_sets={network.relaxed_sets} become one set when a curriculum has ended: use"
            " curriculum=length, or relaxed_sets=1"
        )
    if network.steps_per_position and training.jit_compile:
        mistakes.append(
            "steps_per_position loops without a bound, which jit_compile cannot train: choose one"
            " of them"
        )
    return mistakes + _impossible_positions(network, training)


def _impossible_positions(network: NetworkConfig, training: TrainingConfig) -> list[str]:
    mistakes = []
    positions, spread = (
        2 * training.max_length + 3,
        network.position_offset in ("mixed", "randomised"),
    )
    if spread and network.max_position_offset < positions:
        mistakes.append(
            f"position_offset={network.position_offset} spreads up to 2 * max_length + 3 ="
            f" {positions} positions over max_position_offset={network.max_position_offset}: raise"
            " max_position_offset or lower max_length"
        )
    if network.eval_position_stride != 1 and not spread:
        mistakes.append(
            f"eval_position_stride={network.eval_position_stride} needs position_offset=mixed or"
            " randomised"
        )
    if network.position_separator and (
        network.position == "none" or network.position_from == "end"
    ):
        mistakes.append(
            f"position_separator={network.position_separator} lets positions begin again that count"
            f" from the start, which position={network.position} with"
            f" position_from={network.position_from} has none of: set it to 0, or position_from to"
            " start or both"
        )
    reached = (
        network.max_position_offset if spread else _largest_position(network, training.max_length)
    )
    if network.position == "learned" and network.learned_positions < reached:
        mistakes.append(
            f"position=learned has learned_positions={network.learned_positions} embeddings, and"
            f" training reaches position {reached}: raise learned_positions or lower max_length or"
            " max_position_offset"
        )
    return mistakes


def _largest_position(network: NetworkConfig, max_length: int) -> int:
    """Returns the largest position of training without spread positions; ``Positions`` says how
    symbols are counted.
    """
    inputs, targets = max_length, max_length
    if network.position_from == "end":
        inputs += network.end_position - (0 if network.input_start_symbol else 1)
    if network.target_position == "continue":
        targets += max_length
    offsets = {"none": network.eval_position_offset, "random": network.max_position_offset}
    return max(inputs, targets) + offsets.get(network.position_offset, 0)


def _impossible_sizes(model: str, network: NetworkConfig) -> list[str]:
    mistakes = []
    if has_heads(model) and network.hidden_size % network.num_heads:
        mistakes.append(
            f"hidden_size={network.hidden_size} is not a multiple of num_heads={network.num_heads}"
        )
    elif network.position == "rotary" and network.hidden_size // network.num_heads % 2:
        mistakes.append(
            "position=rotary needs an even size per head, not"
            f" {network.hidden_size // network.num_heads}"
        )
    if network.conv_kernel % 2 == 0:
        mistakes.append(
            f"conv_kernel={network.conv_kernel}: expected an odd number (as many positions on"
            " either side)"
        )
    if network.max_dilation & (network.max_dilation - 1):
        mistakes.append(f"max_dilation={network.max_dilation}: expected a power of two")
    if network.hidden_size % 2:
        mistakes.append(
            f"hidden_size={network.hidden_size}: expected an even number (positions are sines and"
            " cosines, and some layers halve it)"
        )
    if network.position_offset != "none" and network.max_position_offset == 0:
        mistakes.append(
            f"position_offset={network.position_offset} needs max_position_offset above 0"
        )
    if network.position_from == "both" and network.position != "rotary":
        mistakes.append(f"position_from=both needs position=rotary, not {network.position}")
    return mistakes


def _impossible_depths(model: str, network: NetworkConfig) -> list[str]:
    mistakes = []
    halts = network.halting != "none"
    if halts and network.recurrence not in ("basic", "highway", "skip"):
        mistakes.append(
            f"halting={network.halting} needs recurrence=basic, highway or skip, not"
            f" {network.recurrence}"
        )
    if halts and network.steps_per_position:
        mistakes.append("steps_per_position sets a fixed depth: it goes with halting=none")
    if halts and network.eval_num_steps != network.num_steps:
        mistakes.append(
            f"eval_num_steps={network.eval_num_steps} is a fixed depth, and"
            f" halting={network.halting}: use eval_act_max_steps"
        )
    if not has_steps(model) and network.eval_num_steps != network.num_steps:
        mistakes.append(
            f"the model {model} has no use for eval_num_steps={network.eval_num_steps}: leave"
            " it out"
        )
    if not halts and network.eval_act_max_steps != network.act_max_steps:
        mistakes.append(
            f"eval_act_max_steps={network.eval_act_max_steps} bounds dynamic halting, and"
            " halting=none: leave it out"
        )
    if not network.couple_carry_transform_gates and network.recurrence not in ("highway", "skip"):
        mistakes.append(
            "couple_carry_transform_gates=False needs recurrence=highway or skip, not"
            f" {network.recurrence}"
        )
    mistakes += impossible_memories(network)
    if network.halting == "pondernet" and network.mix_layers_after:
        mistakes.append(
            "halting=pondernet answers from the states of every step, so no layers can follow: it"
            " needs mix_layers_after=0"
        )
    name = "act_max_steps" if halts else "num_steps"
    trained, used = getattr(network, name), getattr(network, f"eval_{name}")
    if model == CONDITIONAL and network.recurrence in ("gru", "lstm"):
        mistakes.append(
            f"recurrence={network.recurrence} takes the transition's place, and the model {model}"
            " is made of transitions"
        )
    for learned, instead in _learned_per_step(model, network):
        if used > trained:
            mistakes.append(
                f"eval_{name}={used} is more than {name}={trained}, which {learned} cannot do: use"
                f" {instead}"
            )
        if network.steps_per_position:
            mistakes.append(
                f"steps_per_position makes depth depend on length, which {learned} cannot do: use"
                f" {instead}"
            )
    return mistakes


def _learned_per_step(model: str, network: NetworkConfig) -> list[tuple[str, str]]:
    """Returns what has weights for each step of training, and what to use instead."""
    found = []
    if network.step_encoding == "learned":
        found.append(("a learned step_encoding", "sinusoid or none"))
    if network.recurrence == "dwa":
        found.append(("recurrence=dwa with its depth embeddings", "another recurrence"))
    if model == CONDITIONAL:
        found.append(
            (f"the model {model} with a transition for each step", "a universal_transformer")
        )
    return found
