"""Which hyperparameters cannot be, by themselves or together.

How it works: bounds of single fields come first; only where all are kept is it asked whether fields fit together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ut_tf.needless_fields import needless_fields
from ut_tf.network import NetworkConfig

if TYPE_CHECKING:
    from ut_tf.config import TrainingConfig

# Bounds of single fields: "at least", "above", and "below" what they say.
_AT_LEAST = {
    **dict.fromkeys(("hidden_size", "filter_size", "num_heads", "num_steps", "num_layers", "eval_num_steps", "recurrence_layers"), 1),
    **dict.fromkeys(("mix_layers_before", "mix_layers_after"), 0),
    "memory_size": 1,
    "eval_memory_size": 0,
    **dict.fromkeys(("act_max_steps", "eval_act_max_steps"), 1),
    **dict.fromkeys(("batch_size", "max_length", "min_length_bucket", "accumulate_steps", "train_steps", "eval_frequency"), 1),
    **dict.fromkeys(("keep_checkpoint_max", "decay_steps"), 1),
    **dict.fromkeys(("warmup_steps", "early_stopping_patience", "weight_decay", "clip_norm", "act_loss_weight", "steps_per_position"), 0),
    **dict.fromkeys(("relative_bias", "max_position_offset", "word_mask_stddev", "embedding_stddev", "vocab_size"), 0),
    "attention_scale_length": 2,
    "conv_kernel": 1,
    "max_dilation": 1,
    "source_stretch": 1,
    "learned_positions": 1,
}
_ABOVE = {"learning_rate": 0, "norm_epsilon": 0, "adam_epsilon": 0, "length_bucket_step": 1}
_SHARES = ("dropout", "attention_dropout", "relu_dropout", "word_dropout", "label_smoothing", "adam_beta1", "adam_beta2", "average_decay")

CONDITIONAL = "conditional_universal_transformer"
_WITHOUT_RECURRENCE = ("transformer", "mem_transformer", "mem_bottleneck_transformer")


def mistakes_in(model: str, network: NetworkConfig, training: TrainingConfig) -> list[str]:
    """Returns a text for each field, or group of fields, of resolved hyperparameters that cannot be.

    Args:
      model: registered name of the model.
      network, training: its fields, every one with a value.
    """
    values = {**vars(network), **vars(training)}
    mistakes = [f"{name}={values[name]}: expected at least {bound}" for name, bound in _AT_LEAST.items() if values[name] < bound]
    mistakes += [f"{name}={values[name]}: expected above {bound}" for name, bound in _ABOVE.items() if values[name] <= bound]
    mistakes += [f"{name}={values[name]}: expected at least 0 and below 1" for name in _SHARES if not 0 <= values[name] < 1]
    if not 0 < values["act_epsilon"] < 1:
        mistakes.append(f"act_epsilon={values['act_epsilon']}: expected between 0 and 1")
    if mistakes:
        return mistakes
    mistakes = needless_fields(model, network) + _impossible_sizes(network) + _impossible_depths(model, network)
    return mistakes + impossible_hops(model, network) + _impossible_pairs(model, network, training)


def impossible_hops(model: str, network: NetworkConfig) -> list[str]:
    """Returns what a memory network (memn2n) has no weights for at evaluation; of other models nothing."""
    if model != "memn2n":
        return []
    mistakes = []
    if network.eval_memory_size > network.memory_size:
        mistakes.append(
            f"eval_memory_size={network.eval_memory_size} is more than memory_size={network.memory_size}, and memn2n has learned no "
            "temporal encoding for older facts: lower it"
        )
    if network.hop_tying == "adjacent" and (network.eval_num_steps or 0) > network.num_steps:
        mistakes.append(
            f"eval_num_steps={network.eval_num_steps} is more than num_steps={network.num_steps}, and with hop_tying=adjacent each hop of "
            "memn2n has an embedding of its own: use layerwise"
        )
    return mistakes


def _impossible_pairs(model: str, network: NetworkConfig, training: TrainingConfig) -> list[str]:
    mistakes = []
    asks_for_recurrence = network.halting != "none" or network.recurrence != "basic" or network.steps_per_position
    if model in _WITHOUT_RECURRENCE and asks_for_recurrence:
        mistakes.append(f"the model {model} has no recurrence: halting, recurrence and steps_per_position need a universal_transformer")
    if network.steps_per_position and training.jit_compile:
        mistakes.append("steps_per_position loops without a bound, which jit_compile cannot train: choose one of them")
    positions = 2 * training.max_length + 3
    if network.position_offset == "mixed" and network.max_position_offset < positions:
        mistakes.append(
            f"position_offset=mixed spreads up to 2 * max_length + 3 = {positions} positions over max_position_offset="
            f"{network.max_position_offset}: raise max_position_offset or lower max_length"
        )
    return mistakes


def _impossible_sizes(network: NetworkConfig) -> list[str]:
    mistakes = []
    if network.hidden_size % network.num_heads:
        mistakes.append(f"hidden_size={network.hidden_size} is not a multiple of num_heads={network.num_heads}")
    elif network.position == "rotary" and network.hidden_size // network.num_heads % 2:
        mistakes.append(f"position=rotary needs an even size per head, not {network.hidden_size // network.num_heads}")
    if network.conv_kernel % 2 == 0:
        mistakes.append(f"conv_kernel={network.conv_kernel}: expected an odd number (as many positions on either side)")
    if network.max_dilation & (network.max_dilation - 1):
        mistakes.append(f"max_dilation={network.max_dilation}: expected a power of two")
    if network.hidden_size % 2:
        mistakes.append(f"hidden_size={network.hidden_size}: expected an even number (sines and cosines)")
    if network.position_offset != "none" and network.max_position_offset == 0:
        mistakes.append(f"position_offset={network.position_offset} needs max_position_offset above 0")
    if network.position_from == "both" and network.position != "rotary":
        mistakes.append(f"position_from=both needs position=rotary, not {network.position}")
    return mistakes


def _impossible_depths(model: str, network: NetworkConfig) -> list[str]:
    mistakes = []
    halts = network.halting != "none"
    if halts and network.recurrence not in ("basic", "highway", "skip"):
        mistakes.append(f"halting={network.halting} needs recurrence=basic, highway or skip, not {network.recurrence}")
    if halts and network.steps_per_position:
        mistakes.append("steps_per_position sets a fixed depth: it goes with halting=none")
    name = "act_max_steps" if halts else "num_steps"
    trained, used = getattr(network, name), getattr(network, f"eval_{name}")
    if model == CONDITIONAL and network.recurrence in ("gru", "lstm"):
        mistakes.append(f"recurrence={network.recurrence} takes the transition's place, and the model {model} is made of transitions")
    for learned, instead in _learned_per_step(model, network):
        if used > trained:
            mistakes.append(f"eval_{name}={used} is more than {name}={trained}, which {learned} cannot do: use {instead}")
        if network.steps_per_position:
            mistakes.append(f"steps_per_position makes depth depend on length, which {learned} cannot do: use {instead}")
    return mistakes


def _learned_per_step(model: str, network: NetworkConfig) -> list[tuple[str, str]]:
    """Returns what has weights for each step of training, and what to use instead."""
    found = []
    if network.step_encoding == "learned":
        found.append(("a learned step_encoding", "sinusoid or none"))
    if network.recurrence == "dwa":
        found.append(("recurrence=dwa with its depth embeddings", "another recurrence"))
    if model == CONDITIONAL:
        found.append((f"the model {model} with a transition for each step", "a universal_transformer"))
    return found
