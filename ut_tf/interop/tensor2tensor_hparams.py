"""tensor2tensor's hyperparameters, as in the hparams.json of its runs, in terms of ours.

What decides a network's result must be importable, else it is an error, even where ut-trainer can
build the network; what decides only how it is trained is carried over where there is the same here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ut_tf.config.fields import fields_of, without_effect
from ut_tf.config.hparams import HParams
from ut_tf.config.tensor2tensor import RENAMED
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig

# Fields of which only these values can be imported, because others change the network. A field that
# is absent has tensor2tensor's default, which is the first value.
_REQUIRED: dict[str, tuple[Any, ...]] = {
    "layer_preprocess_sequence": ("n",),
    "layer_postprocess_sequence": ("da",),
    "norm_type": ("layer",),
    "pos": (None, "none"),
    "position_start_index": (None,),
    "add_or_concat_timing_signal": ("add",),
    "add_position_timing_signal": (True,),
    "num_inrecurrence_layers": (1,),
    "mix_with_transformer": (None, "none", ""),
    "add_ffn_unit_to_the_transition_function": (False,),
    "add_sru": (False,),
    "self_attention_type": ("dot_product",),
    "attention_key_channels": (0,),
    "attention_value_channels": (0,),
    "attention_variables_3d": (False,),
    "hard_attention_k": (0,),
    "compress_steps": (0,),
    "num_area_layers": (0,),
    "prepend_mode": ("none",),
    "proximity_bias": (False,),
    "unidirectional_encoder": (False,),
    "causal_decoder_self_attention": (True,),
    "factored_logits": (False,),
    "vocab_divisor": (1,),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "recurrence_type": ("basic", "act", "gru", "lstm"),
    "act_type": ("basic", "accumulated", "global", "random"),
    "step_timing_signal_type": ("learned", "sinusoid"),
    "transformer_ffn_type": ("fc", "sepconv"),
}
_NEEDED = ("hidden_size", "filter_size", "num_heads")
_SAME_IN_NETWORK = (*_NEEDED, "act_epsilon", "act_loss_weight", "lstm_forget_bias", "norm_epsilon")
_SAME_IN_TRAINING = (
    "batch_size",
    "max_length",
    "min_length_bucket",
    "length_bucket_step",
    "label_smoothing",
)
_DROPOUTS = {
    "layer_prepostprocess_dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "relu_dropout": "relu_dropout",
}
_NOAM_PARTS = {"constant", "linear_warmup", "rsqrt_decay", "rsqrt_hidden_size"}


@contextlib.contextmanager
def _values_of_their_types() -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise UserError(
            f"tensor2tensor's hyperparameters hold a value of a wrong type ({error}): copy"
            " hparams.json again from where the run was trained."
        ) from error


@_values_of_their_types()
def network_from_hparams(hparams: Mapping[str, Any]) -> UniversalTransformerConfig:
    """The network that tensor2tensor's hyperparameters of a universal_transformer describe.

    Args:
      hparams: the content of a hparams.json; fields that are absent have tensor2tensor's defaults,
        except for the sizes.

    Raises:
      UserError: lists every field that is missing or whose value cannot be imported, with
        ut-trainer's options for the same network.
    """
    mistakes = _unsupported(hparams)
    if mistakes:
        raise UserError(
            "tensor2tensor's hyperparameters have values that cannot be imported:"
            f" {'; '.join(mistakes)}; import a run with values that can be, or train the network"
            " again with ut-trainer where the options are named above."
        )
    recurrence = hparams.get("recurrence_type", "basic")
    halts = recurrence == "act"
    layers = int(hparams.get("num_hidden_layers", 2))
    dropouts: dict[str, Any] = {
        ours: float(hparams[theirs]) for theirs, ours in _DROPOUTS.items() if theirs in hparams
    }
    return UniversalTransformerConfig(
        **{name: hparams[name] for name in _SAME_IN_NETWORK if name in hparams},
        num_steps=int(hparams.get("num_rec_steps", layers)),
        recurrence="basic" if halts else recurrence,
        # tensor2tensor leaves it out of account where there is no LSTM.
        use_memory_as_final_state=recurrence == "lstm"
        and bool(hparams.get("use_memory_as_final_state", False)),
        halting=hparams.get("act_type", "basic") if halts else "none",
        act_max_steps=int(hparams.get("act_max_steps", 2 * layers)),
        act_halting_bias_init=float(hparams.get("act_halting_bias_init", 1.0)),
        global_mean="sequence",
        halted_states="transform",
        padding_ponders=True,
        norm="pre",
        transition=hparams.get("transformer_ffn_type", "fc"),
        attention_bias=False,
        position="tensor2tensor",
        position_every_step=True,
        target_start="zeros",
        step_encoding=_step_encoding(hparams),
        embedding_scale=(
            "sqrt"
            if hparams.get("multiply_embedding_mode", "sqrt_depth") == "sqrt_depth"
            else "none"
        ),
        shared_embedding=bool(hparams.get("shared_embedding_and_softmax_weights", True)),
        target_space_embedding=bool(hparams.get("use_target_space_embedding", True)),
        kernel_init=(
            "unit_scaling"
            if hparams.get("initializer", "uniform_unit_scaling") == "uniform_unit_scaling"
            else "glorot"
        ),
        **dropouts,
    )


@_values_of_their_types()
def hparams_from_hparams(hparams: Mapping[str, Any]) -> HParams:
    """Our hyperparameters, resolved, for those of tensor2tensor's universal_transformer.

    A learning rate schedule that is not here becomes "noam", as an optimizer that is not Adam
    becomes Adam: neither decides what the imported network computes.

    Raises:
      UserError: as ``network_from_hparams``.
    """
    values = {name: hparams[name] for name in _SAME_IN_TRAINING if name in hparams}
    values |= {
        ours: hparams[theirs]
        for theirs, ours in RENAMED.items()
        if ours in fields_of(TrainingConfig) and hparams.get(theirs) is not None
    }
    values["batch_unit"] = "examples" if hparams.get("use_fixed_batch_size", False) else "tokens"
    parts = set(
        str(
            hparams.get(
                "learning_rate_schedule", "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"
            )
        ).split("*")
    )
    if parts != _NOAM_PARTS and parts <= {"constant", "linear_warmup"}:
        values["schedule"] = "constant"
    return (
        HParams(network=network_from_hparams(hparams), training=TrainingConfig())
        .change(**values)
        .resolve()
    )


def assignments(hparams: HParams, base: HParams) -> str:
    """The overrides "name=value,name=value" that make `base` equal to `hparams`, as
    ``HParams.override`` reads them; without fields that have no effect.
    """
    changed = []
    for section in ("network", "training"):
        values, before = hparams.to_dict()[section], base.to_dict()[section]
        changed += [
            f"{name}={value}"
            for name, value in values.items()
            if value != before[name] and without_effect(getattr(hparams, section), name) is None
        ]
    return ",".join(changed)


def _unsupported(hparams: Mapping[str, Any]) -> list[str]:
    mistakes = [f"{name} is missing" for name in _NEEDED if name not in hparams]
    for name, allowed in _REQUIRED.items():
        value = hparams.get(name, allowed[0])
        if value not in allowed:
            mistakes.append(_not_imported(name, value, allowed[:1], hparams))
    for name, options in _CHOICES.items():
        value = hparams.get(name, options[0])
        if value not in options:
            mistakes.append(_not_imported(name, value, options, hparams))
    return mistakes


def _not_imported(
    name: str, value: Any, options: tuple[Any, ...], hparams: Mapping[str, Any]
) -> str:
    overrides = _trainable(name, value, hparams)
    yet = f" yet (ut-trainer trains it with `hparams`={overrides})" if overrides else ""
    known = ", ".join(map(str, options))
    return f"{name}={value} cannot be imported{yet}, only {known}"


def _trainable(name: str, value: Any, hparams: Mapping[str, Any]) -> str:
    """The overrides with which ut-trainer builds such a network; empty: it has none."""
    if name == "recurrence_type" and value in ("highway", "skip", "dwa"):
        return f"recurrence={value}"
    if name == "num_inrecurrence_layers":
        return f"recurrence_layers={value}"
    if name == "position_start_index" and value == "random":
        # tensor2tensor shifts by less than the batch's length, which max_length bounds.
        return f"position_offset=random,max_position_offset={hparams.get('max_length') or 256}"
    if name == "mix_with_transformer":
        layers = hparams.get("num_mixedin_layers", 2)
        sides = [side for side in ("before", "after") if f"{side}_ut" in str(value)]
        return ",".join(f"mix_layers_{side}={layers}" for side in sides)
    return ""


def _step_encoding(hparams: Mapping[str, Any]) -> Literal["sinusoid", "learned", "none"]:
    # gru and lstm count the steps themselves: tensor2tensor refuses a step signal there.
    if not hparams.get("add_step_timing_signal", True) or hparams.get("recurrence_type") in (
        "gru",
        "lstm",
    ):
        return "none"
    return "sinusoid" if hparams.get("step_timing_signal_type") == "sinusoid" else "learned"
