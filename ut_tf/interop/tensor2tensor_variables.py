"""Which variable of tensor2tensor belongs to which variable of a model of ours.

::

    for name, variable in pairs(model, hparams):   # "body/encoder/layer_0/ffn/conv1/kernel", ...
        ...
    arrays = normalized(variables, "transformer")  # arrays by such names

Names are without the model's, "universal_transformer/". Axes of length 1 are dropped, shards of an
embedding are joined, and of the table of target spaces the run's own row is taken.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ut_tf.errors import UserError
from ut_tf.interop.tensor2tensor_files import TARGET_SPACE
from ut_tf.layers.block import Block
from ut_tf.layers.stack import LayerStack
from ut_tf.layers.transition import SeparableConv
from ut_tf.models.universal_transformer.mixed import MixedStack

Pair = tuple[str, Any]

_SHARD = re.compile(r"(symbol_modality_\d+_\d+/\w+)/weights_(\d+)$")
_NORM = {"scale": "layer_norm/layer_norm_scale", "bias": "layer_norm/layer_norm_bias"}
_GATED = ("gru", "lstm")
_GATE_INPUTS = ("state", "output", "input")
_LSTM_GATES = {
    "input": "input",
    "forget": "forget",
    "output": "output",
    "modulation": "input_modulation",
}


def root_of(variables: Mapping[str, Any]) -> str:
    """The name of tensor2tensor's model, under which its checkpoint has the network's variables.

    Raises:
      UserError: there is none.
    """
    for name in variables:
        model, found, _ = name.removeprefix("var/").removeprefix("training/").partition("/body/")
        if found and "/" not in model:
            return model
    raise UserError(
        "the variables are not those of a network of tensor2tensor (none is named MODEL/body/…):"
        " give a checkpoint of tensor2tensor's trainer."
    )


def normalized(variables: Mapping[str, Any], root: str) -> dict[str, Any]:
    """The network's arrays by their names without "var/", ":0" and the `root`, shards joined.
    Arrays by other names are left out.
    """
    arrays: dict[str, Any] = {}
    shards: dict[str, dict[int, Any]] = {}
    for name, value in variables.items():
        plain = name.removeprefix("var/").removesuffix(":0")
        if not plain.startswith(f"{root}/"):
            continue
        plain = plain.removeprefix(f"{root}/")
        shard = _SHARD.match(plain)
        if shard:
            shards.setdefault(shard[1], {})[int(shard[2])] = np.asarray(value)
        else:
            arrays[plain] = np.asarray(value)
    joined = {
        name: np.concatenate([parts[index] for index in sorted(parts)])
        for name, parts in shards.items()
    }
    return {**arrays, **joined}


def as_trained(hparams: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters, with what tensor2tensor changes when it makes a model: embeddings are
    not shared where inputs and targets have different vocabularies.

    Args:
      hparams: the content of the run's hparams.json.
      theirs: from ``normalized``.
    """
    if any(name.endswith("/input_emb") for name in theirs):
        return {**hparams, "shared_embedding_and_softmax_weights": False}
    return dict(hparams)


def matched(
    model: Any, theirs: Mapping[str, Any], hparams: Mapping[str, Any], target_space_id: int
) -> list[tuple[Any, Any]]:
    """(our variable, its value) for all trainable variables of `model`.

    Args:
      model: built for `hparams`.
      theirs: from ``normalized``.
      hparams: the content of the run's hparams.json.
      target_space_id: row of the table of target spaces.

    Raises:
      UserError: lists every variable that is missing, has another shape, or has no place.
    """
    ours = dict(pairs(model, hparams))
    paired = {id(variable) for variable in ours.values()}
    problems = [f"{name} is missing" for name in ours if name not in theirs]
    problems += [f"{name} has no place here" for name in theirs if name not in ours]
    problems += [
        f"nothing sets {variable.path}"
        for variable in model.trainable_variables
        if id(variable) not in paired
    ]
    rows = len(theirs[TARGET_SPACE]) if TARGET_SPACE in ours.keys() & theirs.keys() else None
    if rows is not None and target_space_id >= rows:
        raise UserError(
            f"`target_space_id`={target_space_id}: the checkpoint has {rows} rows of target spaces,"
            " counted from 0."
        )
    values = []
    for name in sorted(ours.keys() & theirs.keys()):
        value = theirs[name][target_space_id] if name == TARGET_SPACE else theirs[name]
        fitting = _reshaped(
            value.T if name.endswith("/softmax") else value, tuple(ours[name].shape)
        )
        if fitting is None:
            problems.append(
                f"{name} has shape {list(value.shape)} instead of {list(ours[name].shape)}"
            )
        values.append((ours[name], fitting))
    if problems:
        raise UserError(
            "the variables are not those of the network in hparams.json:"
            f" {'; '.join(sorted(problems))}; give the hparams.json and the problem of the run that"
            " the checkpoint is from."
        )
    return values


def pairs(model: Any, hparams: Mapping[str, Any]) -> Iterator[Pair]:
    """Yields (tensor2tensor's name, our variable), for every variable of `model`."""
    yield from _end_pairs(model)
    if model.has_encoder:
        if model.target_space is not None:
            yield TARGET_SPACE, model.target_space
        yield from _stack_pairs("body/encoder/", model.encoder, hparams)
    if model.has_decoder:
        yield from _stack_pairs("body/decoder/", model.decoder, hparams)


def _end_pairs(model: Any) -> Iterator[Pair]:
    """Embeddings and head."""
    spec, size = model.spec, model.network.hidden_size
    inputs, targets = (
        f"symbol_modality_{count}_{size}/"
        for count in (spec.input_vocab_size, spec.target_vocab_size)
    )
    shared = model.network.shared_embedding
    if model.has_encoder:
        yield inputs + ("shared" if shared else "input_emb"), model.input_embedding.table
    if not model.has_decoder:
        modality = f"class_label_modality_{spec.target_vocab_size}_{size}/"
        yield from _linear_pairs(f"{modality}{modality}dense/", model.classifier)
        return
    if not model.has_encoder or model.target_embedding is not model.input_embedding:
        yield targets + ("shared" if shared else "target_emb"), model.target_embedding.table
    if not shared:
        yield targets + "softmax", model.output_projection.kernel


def _stack_pairs(prefix: str, stack: Any, hparams: Mapping[str, Any]) -> Iterator[Pair]:
    """An encoder or decoder."""
    if isinstance(stack, LayerStack):
        yield from _layer_pairs(f"{prefix}layer_", stack)
        final_norm = stack.final_norm
    elif isinstance(stack, MixedStack):
        inner = f"{prefix}universal_transformer_{_recurrence_type(hparams)}/"
        if stack.before is not None:
            yield from _layer_pairs(f"{inner}before_ut_layer_", stack.before)
        yield from _recurrence_pairs(inner, stack.recurrence, hparams)
        if stack.after is not None:
            yield from _layer_pairs(f"{inner}after_ut_layer_", stack.after)
        final_norm = stack.attending[-1].final_norm
    else:
        inner = f"{prefix}universal_transformer_{_recurrence_type(hparams)}/"
        yield from _recurrence_pairs(inner, stack, hparams)
        final_norm = stack.final_norm
    if final_norm is not None:
        yield from _norm_pairs(f"{prefix}layer_prepostprocess/", final_norm)


def _recurrence_type(hparams: Mapping[str, Any]) -> str:
    return str(hparams.get("recurrence_type", "basic"))


def _layer_pairs(prefix: str, stack: LayerStack) -> Iterator[Pair]:
    for number, block in enumerate(stack.blocks):
        yield from _block_pairs(f"{prefix}{number}/", block)


def _recurrence_pairs(prefix: str, recurrence: Any, hparams: Mapping[str, Any]) -> Iterator[Pair]:
    recurrence_type = _recurrence_type(hparams)
    if recurrence_type in _GATED:
        yield from _block_pairs(prefix, recurrence.block)
        yield from _gated_cell_pairs(prefix, recurrence_type, recurrence.cell)
    else:
        blocks = (
            [recurrence.block] if isinstance(recurrence.block, Block) else recurrence.block.blocks
        )
        for number, block in enumerate(blocks):
            yield from _block_pairs(f"{prefix}rec_layer_{number}/", block)
    if recurrence_type in ("highway", "skip"):
        yield from _highway_cell_pairs(prefix, recurrence.cell)
    coordinates = recurrence.coordinates
    if coordinates.step_table is not None:
        yield f"{prefix}layer_embedding", coordinates.step_table
    if coordinates.kernel is not None:
        yield f"{prefix}dense/kernel", coordinates.kernel
    if recurrence_type == "act" and hparams.get("act_type") != "random":
        unit = f"{prefix}sigmoid_activation_for_pondering/dense/"
        yield from _linear_pairs(unit, recurrence.halting_unit.linear)


def _block_pairs(prefix: str, block: Any) -> Iterator[Pair]:
    # Norms stand before a sublayer ("n"), or behind its residual sum ("dan").
    place = "layer_prepostprocess/" if block.norm == "pre" else "layer_postprocess/"
    for theirs, ours in (
        ("self_attention", "self_attention"),
        ("encdec_attention", "memory_attention"),
    ):
        attention = getattr(block, ours)
        if attention is None:
            continue
        yield from _norm_pairs(f"{prefix}{theirs}/{place}", getattr(block, f"{ours}_norm"))
        projections = f"{prefix}{theirs}/multihead_attention/"
        yield projections + "q/kernel", attention.query_kernel
        yield projections + "k/kernel", attention.key_kernel
        yield projections + "v/kernel", attention.value_kernel
        yield projections + "output_transform/kernel", attention.output_transform.kernel
    transition = block.transition
    if transition is None:
        return
    yield from _norm_pairs(f"{prefix}ffn/{place}", block.transition_norm)
    for number, layer in (("1", transition.inner), ("2", transition.outer)):
        if isinstance(layer, SeparableConv):
            convolution = f"{prefix}ffn/sepconv_relu_sepconv/conv{number}_single/"
            yield convolution + "depthwise_kernel", layer.depthwise_kernel
            yield convolution + "pointwise_kernel", layer.pointwise.kernel
            yield convolution + "bias", layer.pointwise.bias
        else:
            yield from _linear_pairs(f"{prefix}ffn/conv{number}/", layer)


def _gated_cell_pairs(prefix: str, recurrence_type: str, cell: Any) -> Iterator[Pair]:
    yield from _norm_pairs(prefix + "layer_prepostprocess/", cell.before_norm)
    yield from _norm_pairs(prefix + "layer_prepostprocess_1/", cell.after_norm)
    for name in cell.gates:
        gate = f"{prefix}{recurrence_type}/{_LSTM_GATES.get(name, name)}/"
        yield from _linear_pairs(gate, getattr(cell, f"{name}_gate"))


def _highway_cell_pairs(prefix: str, cell: Any) -> Iterator[Pair]:
    for number, name in enumerate(_GATE_INPUTS):
        place = f"{prefix}layer_prepostprocess{f'_{number}' if number else ''}/"
        yield from _norm_pairs(place, getattr(cell, f"{name}_norm"))
    for name in cell.gates:
        yield from _linear_pairs(f"{prefix}{name}/", getattr(cell, f"{name}_gate"))


def _norm_pairs(prefix: str, norm: Any) -> Iterator[Pair]:
    for ours, theirs in _NORM.items():
        yield prefix + theirs, getattr(norm, ours)


def _linear_pairs(prefix: str, linear: Any) -> Iterator[Pair]:
    yield prefix + "kernel", linear.kernel
    yield prefix + "bias", linear.bias


def _reshaped(value: Any, shape: tuple[int, ...]) -> Any | None:
    """`value` without the axes of length 1 that our shape does not have, or None where it
    does not fit.
    """
    if [size for size in value.shape if size != 1] != [size for size in shape if size != 1]:
        return None
    return value.reshape(shape)
