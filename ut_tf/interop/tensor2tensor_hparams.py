"""tensor2tensor's hyperparameters, as in the hparams.json of its runs, in terms of ours.

What decides a network's result must be importable, else it is an error, even where ut-trainer can
build the network; what decides only how it is trained is carried over where there is the same here.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ut_tf.config.fields import fields_of, without_effect
from ut_tf.config.hparams import HParams
from ut_tf.config.tensor2tensor import RENAMED
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.loading import read_yaml
from ut_tf.models.transformer.config import TransformerConfig
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig

_TABLES = read_yaml(Path(__file__).with_suffix(".yaml"))
MODELS: Mapping[str, str] = _TABLES["models"]
"""tensor2tensor's models that can be imported, and the model each of them is here."""
_SAME: Mapping[str, Sequence[str]] = _TABLES["same"]
_NORMS: dict[tuple[str, str], Literal["pre", "post"]] = {
    ("n", "da"): "pre",
    ("none", "dan"): "post",
}
_NEEDED = ("hidden_size", "filter_size", "num_heads")
_GATED = ("gru", "lstm")
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
def network_from_hparams(
    hparams: Mapping[str, Any], model: str = "universal_transformer"
) -> UniversalTransformerConfig | TransformerConfig:
    """The network that tensor2tensor's hyperparameters describe.

    Args:
      hparams: the content of a hparams.json; fields that are absent have tensor2tensor's defaults,
        except for the sizes.
      model: tensor2tensor's name of the model, one of ``MODELS``.

    Raises:
      UserError: the model cannot be imported; or lists every field that is missing or whose value
        cannot be imported, with ut-trainer's options for the same network.
    """
    if model not in MODELS:
        raise UserError(
            f"networks of tensor2tensor's model {model!r} cannot be imported, only those of"
            f" {', '.join(MODELS)}."
        )
    is_universal = MODELS[model] == "universal_transformer"
    mistakes = _unsupported(hparams, is_universal)
    if mistakes:
        raise UserError(
            "tensor2tensor's hyperparameters have values that cannot be imported:"
            f" {'; '.join(mistakes)}; import a run with values that can be, or train the network"
            " again with ut-trainer where the options are named above."
        )
    if is_universal:
        return UniversalTransformerConfig(**_shared_values(hparams, model), **_recurrence(hparams))
    return TransformerConfig(
        **_shared_values(hparams, model),
        num_layers=_layer_counts(hparams)[0],
        norm=_NORMS[_sequences(hparams)],
        position="tensor2tensor" if hparams.get("pos", "timing") == "timing" else "none",
    )


def _shared_values(hparams: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The fields of either model."""
    values = {name: hparams[name] for name in _SAME["block"] if name in hparams}
    values |= {
        ours: float(hparams.get(theirs, 0.1)) for theirs, ours in _TABLES["dropouts"].items()
    }
    if model.endswith("_encoder"):
        values["summary"] = "mean"
    channels, _ = _attention_channels(hparams)
    if channels != hparams["hidden_size"]:
        values["head_size"] = channels // int(hparams["num_heads"])
    depth_scale = hparams.get("multiply_embedding_mode", "sqrt_depth") == "sqrt_depth"
    unit_scaling = hparams.get("initializer", "uniform_unit_scaling") == "uniform_unit_scaling"
    return values | {
        "attention_bias": False,
        "target_start": "zeros",
        "embedding_scale": "sqrt" if depth_scale else "none",
        "shared_embedding": bool(hparams.get("shared_embedding_and_softmax_weights", True)),
        "target_space_embedding": bool(hparams.get("use_target_space_embedding", True)),
        "kernel_init": "unit_scaling" if unit_scaling else "glorot",
    }


def _recurrence(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a Universal Transformer has besides."""
    recurrence = hparams.get("recurrence_type", "basic")
    halts = recurrence == "act"
    layers = int(hparams.get("num_hidden_layers", 2))
    values = {name: hparams[name] for name in _SAME["universal"] if name in hparams}
    if _start(hparams) == "random":
        # tensor2tensor shifts by less than the batch's length, which max_length bounds.
        values["position_offset"] = "random"
        values["max_position_offset"] = int(hparams.get("max_length") or 256)
    return values | {
        "num_steps": int(hparams.get("num_rec_steps", layers)),
        "recurrence": "basic" if halts else recurrence,
        # tensor2tensor has one layer in the steps of a GRU or LSTM, whatever it says here.
        "recurrence_layers": (
            1 if recurrence in _GATED else int(hparams.get("num_inrecurrence_layers", 1))
        ),
        **_mixed_layers(hparams),
        # tensor2tensor leaves it out of account where there is no LSTM.
        "use_memory_as_final_state": recurrence == "lstm"
        and bool(hparams.get("use_memory_as_final_state", False)),
        "halting": hparams.get("act_type", "basic") if halts else "none",
        "act_max_steps": int(hparams.get("act_max_steps", 2 * layers)),
        "act_halting_bias_init": float(hparams.get("act_halting_bias_init", 1.0)),
        "global_mean": "sequence",
        "halted_states": "transform",
        "padding_ponders": True,
        "norm": "pre",
        "transition": hparams.get("transformer_ffn_type", "fc"),
        "position": "tensor2tensor",
        "position_every_step": True,
        "position_shift": "step" if _start(hparams) == "step" else "none",
        "coordinate_form": hparams.get("add_or_concat_timing_signal", "add"),
        "step_encoding": _step_encoding(hparams),
    }


def _mixed_layers(hparams: Mapping[str, Any]) -> dict[str, int]:
    """The untied layers before and behind the recurrence."""
    mixed, count = (
        str(hparams.get("mix_with_transformer") or ""),
        int(hparams.get("num_mixedin_layers", 2)),
    )
    return {
        f"mix_layers_{side}": count if f"{side}_ut" in mixed else 0 for side in ("before", "after")
    }


@_values_of_their_types()
def hparams_from_hparams(
    hparams: Mapping[str, Any], model: str = "universal_transformer"
) -> HParams:
    """Our hyperparameters, resolved, for those of tensor2tensor's model of this name.

    A learning rate schedule that is not here becomes "noam", as an optimizer that is not Adam
    becomes Adam: neither decides what the imported network computes.

    Raises:
      UserError: as ``network_from_hparams``.
    """
    values = {name: hparams[name] for name in _SAME["training"] if name in hparams}
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
        HParams(MODELS.get(model, model), network_from_hparams(hparams, model), TrainingConfig())
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


def _unsupported(hparams: Mapping[str, Any], is_universal: bool) -> list[str]:
    mistakes = [f"{name} is missing" for name in _NEEDED if name not in hparams]
    of_model = "required_of_universal" if is_universal else "required_of_transformer"
    required: dict[str, Sequence[Any]] = {**_TABLES["required"], **_TABLES[of_model]}
    if is_universal:
        recurrence = str(hparams.get("recurrence_type"))
        required |= _TABLES["required_of_recurrence"].get(recurrence, {})
    else:
        mistakes += _unsupported_layers(hparams)
    for name, allowed in required.items():
        value = hparams.get(name, allowed[0])
        if not _is_among(name, value, allowed):
            mistakes.append(_not_imported(name, value, allowed))
    keys, values = _attention_channels(hparams)
    heads = max(int(hparams.get("num_heads", 1)), 1)
    # A hidden_size that is no multiple of num_heads is refused with the network.
    if keys != values or (keys != hparams.get("hidden_size") and keys % heads):
        mistakes.append(
            f"attention_key_channels={keys} and attention_value_channels={values} cannot be"
            " imported: ut-tf's keys and values are both num_heads * head_size wide"
        )
    if hparams.get("shared_embedding") and not hparams.get(
        "shared_embedding_and_softmax_weights", True
    ):
        mistakes.append(
            "shared_embedding=True without shared_embedding_and_softmax_weights cannot be imported:"
            " ut-tf shares the output's matrix with the embeddings, or none of them"
        )
    return mistakes


def _attention_channels(hparams: Mapping[str, Any]) -> tuple[int, int]:
    """The channels of keys and values over all heads; 0 and absent ones are hidden_size."""
    hidden_size = int(hparams.get("hidden_size", 0))
    keys, values = (
        int(hparams.get(f"attention_{name}_channels") or 0) or hidden_size
        for name in ("key", "value")
    )
    return keys, values


def _unsupported_layers(hparams: Mapping[str, Any]) -> list[str]:
    """What of a Transformer's layers cannot be imported."""
    mistakes = []
    if _sequences(hparams) not in _NORMS:
        before, after = _sequences(hparams)
        mistakes.append(
            f"layer_preprocess_sequence={before} with layer_postprocess_sequence={after} cannot be"
            " imported, only n with da, or none with dan"
        )
    counts = _layer_counts(hparams)
    if 0 in counts:
        mistakes.append("num_hidden_layers is missing")
    elif len(set(counts)) > 1:
        mistakes.append(
            f"num_encoder_layers={counts[0]} and num_decoder_layers={counts[1]} differ, and ut-tf's"
            " Transformer has as many layers on either side"
        )
    return mistakes


def _layer_counts(hparams: Mapping[str, Any]) -> tuple[int, int]:
    """A Transformer's layers in the encoder and in the decoder."""
    encoder, decoder = (
        int(hparams.get(f"num_{side}_layers") or hparams.get("num_hidden_layers") or 0)
        for side in ("encoder", "decoder")
    )
    return encoder, decoder


def _sequences(hparams: Mapping[str, Any]) -> tuple[str, str]:
    """What happens before a sublayer and behind it."""
    return (
        str(hparams.get("layer_preprocess_sequence", "n")),
        str(hparams.get("layer_postprocess_sequence", "da")),
    )


def _start(hparams: Mapping[str, Any]) -> str:
    """Where positions start: "", "random" or "step"."""
    return str(hparams.get("position_start_index") or "")


def _is_among(name: str, value: Any, allowed: Sequence[Any]) -> bool:
    if name == "gates_inputs":  # A set of letters.
        return sorted(str(value)) == sorted(allowed[0])
    return value in allowed


def _not_imported(name: str, value: Any, allowed: Sequence[Any]) -> str:
    reason = _TABLES["reasons"].get(name, {}).get(value)
    if reason is not None:
        return f"{name}={value} cannot be imported ({reason})"
    known = ", ".join(str(option) for option in allowed if option != "")
    return f"{name}={value} cannot be imported, only {known}"


def _step_encoding(hparams: Mapping[str, Any]) -> Literal["sinusoid", "learned", "none"]:
    # gru and lstm count the steps themselves: tensor2tensor refuses a step signal there.
    if not hparams.get("add_step_timing_signal", True) or hparams.get("recurrence_type") in _GATED:
        return "none"
    return "sinusoid" if hparams.get("step_timing_signal_type") == "sinusoid" else "learned"
