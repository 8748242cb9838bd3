"""Checkpoints of the recursive reasoners HRM and TRM (arXiv 2506.21734, 2510.04871), as models.

::

    model = load_recursive("step_65104.pth", "all_config.yaml")
    for step in outer_steps(model, inputs, puzzle_identifiers, 16):
        step.logits, step.q_halt, step.z_H

They become a ``UniversalTransformer`` of two levels. Ids are those of the checkpoint's own data,
plus 2, since 0 and 1 are padding and the end here: ``outer_steps`` takes and gives theirs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import yaml

from ut_tf.errors import UserError
from ut_tf.interop.source import Source
from ut_tf.interop.weights_file import weights_file
from ut_tf.layers.recurrence_details import GivenDepth, StepView
from ut_tf.models.memory_transformer.memory import MemoryStack
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.paths import expanded
from ut_tf.problem_spec import ProblemSpec
from ut_tf.storage.files import read_bounded
from ut_tf.storage.yaml_text import unique_yaml
from ut_tf.symbols import FIRST_SYMBOL_ID

Arrays = dict[str, npt.NDArray[Any]]
_PREFIXES = ("_orig_mod.", "model.", "inner.")
_INNER_MULTIPLE = 256
_PUZZLES = "puzzle_emb.weights"
_COUNTS = (
    *("vocab_size", "seq_len", "hidden_size", "num_heads", "L_layers", "H_cycles", "L_cycles"),
    "halt_max_steps",
)
# Fields of their training, and ours.
_TRAINING: dict[str, tuple[str, type]] = {
    "lr": ("learning_rate", float),
    "lr_warmup_steps": ("warmup_steps", int),
    "beta1": ("adam_beta1", float),
    "beta2": ("adam_beta2", float),
    "weight_decay": ("weight_decay", float),
    "ema_rate": ("average_decay", float),
    "global_batch_size": ("batch_size", int),
    "halt_exploration_prob": ("halt_exploration", float),
}
_PUZZLE_TRAINING: dict[str, tuple[str, type]] = {
    "puzzle_emb_lr": ("puzzle_learning_rate", float),
    "puzzle_emb_weight_decay": ("puzzle_weight_decay", float),
}
_NEEDED = (*_COUNTS, "name", "expansion", "pos_encodings")


class OuterStep(NamedTuple):
    """The result of an outer step.

    Fields:
      logits: float32 [batch, length, vocab_size].
      q_halt, q_continue: float32 [batch], Q values of halting and of going on.
      z_H: float32 [batch, positions in front + length, hidden_size].
    """

    logits: Any
    q_halt: Any
    q_continue: Any
    z_H: Any


def load_recursive(checkpoint: str | Path, config: str | Path) -> UniversalTransformer:
    """Makes the model of a checkpoint of TRM or HRM.

    Args:
      checkpoint: file that torch.save wrote (.pth, .pt, .bin), or a safetensors file.
      config: YAML file of the training, with "arch".

    Raises:
      UserError: the configuration asks for what there is not here, or the weights do not fit it.
    """
    return read_source(checkpoint, config).model()


def read_source(checkpoint: str | Path, config: str | Path) -> Source:
    """Reads a checkpoint; arguments and errors as of ``load_recursive``."""
    given = _read_yaml(Path(config))
    weights = {_plain(name): values for name, values in weights_file(checkpoint).items()}
    arch = _checked({**_sizes_of(weights), **given}, str(config))
    network = network_of(arch)
    vocab_size = arch["vocab_size"] + FIRST_SYMBOL_ID
    added = FIRST_SYMBOL_ID * (2 * arch["hidden_size"] + 1) + vocab_size
    return Source(
        "hrm" if network.two_nets else "trm",
        network,
        ProblemSpec("tokens", "aligned", vocab_size, vocab_size, shared_vocab=True),
        _training_of(arch, str(config)),
        arch["seq_len"],
        added + sum(array.size for array in weights.values()),
        lambda model: _assign(model, weights, str(checkpoint)),
    )


def network_of(arch: Mapping[str, Any]) -> UniversalTransformerConfig:
    """Returns the configuration of the model that an "arch" describes."""
    width, layers = arch["hidden_size"], arch["L_layers"]
    mixes, memory = bool(arch.get("mlp_t")), _memory_size(arch)
    length = arch["seq_len"] + memory
    two_nets = "hrm" in str(arch["name"])
    if two_nets and arch["H_layers"] != layers:
        raise UserError(
            f"H_layers={arch['H_layers']} and L_layers={layers}: expected as many of both levels."
        )
    rotary = arch["pos_encodings"] == "rope"
    if not rotary and arch["pos_encodings"] not in ("none", None):
        raise UserError(f"pos_encodings={arch['pos_encodings']}: expected rope or none.")
    return UniversalTransformerConfig(
        hidden_size=width,
        num_heads=arch["num_heads"],
        filter_size=_inner_size(float(arch["expansion"]), width),
        recurrence_layers=layers,
        transition="swiglu",
        norm="post",
        norm_type="rms_plain",
        norm_epsilon=1e-5,
        position="rotary" if rotary else "none",
        step_encoding="none",
        H_cycles=arch["H_cycles"],
        L_cycles=arch["L_cycles"],
        two_nets=two_nets,
        cycle_backprop="last_call" if two_nets else "last_cycle",
        initial_state="fixed",
        memory_tokens=memory,
        memory_positions=rotary,
        num_puzzles=int(arch["num_puzzle_identifiers"]) if memory else 0,
        puzzle_size=int(arch["puzzle_emb_ndim"]) if memory else 0,
        mix_positions=length if mixes else 0,
        mix_filter_size=_inner_size(float(arch["expansion"]), length),
        q_head=True,
        num_steps=1,
        eval_num_steps=arch["halt_max_steps"],
        shared_embedding=False,
        dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
    )


def outer_steps(
    model: UniversalTransformer, inputs: Any, puzzle_identifiers: Any, steps: int
) -> list[OuterStep]:
    """Computes outer steps in evaluation.

    Args:
      model: from ``load_recursive``.
      inputs: [batch, length], ids of the checkpoint's data.
      puzzle_identifiers: [batch].
      steps: number of outer steps.
    """
    views: list[StepView] = []
    features = {
        "inputs": np.asarray(inputs) + FIRST_SYMBOL_ID,
        "puzzles": np.asarray(puzzle_identifiers),
        "to_depth": GivenDepth(tf.constant(steps)),
    }
    call: Any = model
    call(features, observer=views.append)
    results = []
    for view in views:
        front = [] if view.memory_states is None else [view.memory_states]
        states = tf.concat([*front, view.state], 1)
        logits = model.position_logits(view.output)[..., FIRST_SYMBOL_ID:]
        results.append(OuterStep(logits, view.q_values[:, 0], view.q_values[:, 1], states))
    return results


def _sizes_of(weights: Arrays) -> dict[str, int]:
    """The sizes that a training takes from its data, and that its file of options thus lacks."""
    of = {"vocab_size": "embed_tokens.embedding_weight", "num_puzzle_identifiers": _PUZZLES}
    return {size: len(weights[name]) for size, name in of.items() if name in weights}


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = unique_yaml(read_bounded(expanded(path)))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path} cannot be read ({reason}): expected a YAML file.") from error
    if not isinstance(content, dict) or not isinstance(content.get("arch"), dict):
        raise UserError(f'{path} has no mapping "arch": expected the configuration of a training.')
    return {**content, **content["arch"]}


def _checked(arch: dict[str, Any], path: str) -> dict[str, Any]:
    """Returns the options.

    Raises:
      UserError: one is missing, or has another type.
    """
    counts, needed = list(_COUNTS), list(_NEEDED)
    if "hrm" in str(arch.get("name")):
        counts.append("H_layers")
    sizes = [name for name in ("puzzle_emb_ndim", "puzzle_emb_len") if arch.get(name)]
    if sizes:
        counts += [*sizes, "num_puzzle_identifiers", "puzzle_emb_ndim"]
    if missing := [name for name in dict.fromkeys([*needed, *counts]) if name not in arch]:
        raise UserError(
            f"{path} lacks {', '.join(missing)}: write them into it (seq_len is that of the data's"
            " dataset.json)."
        )
    for name in counts:
        value = arch[name]
        if type(value) is not int or value < 1:
            raise UserError(f"{path}: {name}={value!r}, expected a whole number of at least 1.")
    if type(arch["expansion"]) not in (int, float):
        raise UserError(f"{path}: expansion={arch['expansion']!r}, expected a number.")
    return arch


def _training_of(arch: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The fields of a training that a configuration names."""
    loss = arch.get("loss")
    loss_type = loss.get("loss_type") if isinstance(loss, dict) else None
    fields: dict[str, Any] = {
        "supervision": "deep",
        "batch_unit": "examples",
        "max_length": arch["seq_len"],
        "supervision_steps": arch["halt_max_steps"],
        "loss": "softmax" if loss_type == "softmax_cross_entropy" else "stablemax",
    }
    of_puzzles = bool(arch.get("puzzle_emb_lr") and _memory_size(arch))
    if of_puzzles:
        fields["puzzle_optimizer"] = "signsgd"
    for theirs, (ours, kind) in (_TRAINING | (_PUZZLE_TRAINING if of_puzzles else {})).items():
        value = arch.get(theirs)
        if value is None:
            continue
        if type(value) not in (kind, int):
            raise UserError(f"{place}: {theirs}={value!r}, expected a number.")
        fields[ours] = kind(value)
    if arch.get("lr_min_ratio") == 1.0:
        fields["schedule"] = "constant"
    if arch.get("ema") is False:
        fields["average_decay"] = 0.0
    return fields


def _plain(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _memory_size(arch: Mapping[str, Any]) -> int:
    """The positions in front: given, or as many as a puzzle's vector fills."""
    width = int(arch.get("puzzle_emb_ndim") or 0)
    return int(arch.get("puzzle_emb_len") or -(-width // arch["hidden_size"]))


def _inner_size(expansion: float, width: int) -> int:
    inner = round(expansion * width * 2 / 3)
    return -(-inner // _INNER_MULTIPLE) * _INNER_MULTIPLE


def _assign(model: UniversalTransformer, weights: Arrays, place: str) -> None:
    """Gives the model the weights; each must be there, and none be left over."""
    left = dict(weights)

    def take(variable: Any, name: str, change: Callable[[Any], Any] = np.asarray) -> None:
        if name not in left:
            raise UserError(f"{place} has no weight {name}: expected those of its configuration.")
        values = change(left.pop(name))
        if tuple(variable.shape) != values.shape:
            raise UserError(
                f"{place}: {name} becomes {list(values.shape)} where its configuration asks for"
                f" {list(variable.shape)}."
            )
        variable.assign(values)

    stack = model.encoder
    recurrence = getattr(stack, "recurrence", stack)
    levels = recurrence.levels
    # A scaled embedding has the deviation that it is drawn with.
    take(model.input_embedding.table, "embed_tokens.embedding_weight", _with_padding)
    # Padding and the end, which the checkpoint has not, are never answers.
    classifier: Any = model.classifier
    ids = np.arange(model.spec.target_vocab_size)
    classifier.bias.assign(np.where(ids < FIRST_SYMBOL_ID, -1e9, 0.0))
    take(classifier.kernel, "lm_head.weight", lambda rows: _with_padding(rows).T)
    take(recurrence.initial_state.vector, "H_init")
    take(levels.initial_low_state.vector, "L_init")
    take(recurrence.q_head.kernel, "q_head.weight", np.transpose)
    take(recurrence.q_head.bias, "q_head.bias")
    if isinstance(stack, MemoryStack):
        take(stack.memory.vectors, _PUZZLES)
    for blocks, name in ((recurrence.block, "L_level"), (levels.high_block, "H_level")):
        if blocks is None:
            continue
        for number, block in enumerate(getattr(blocks, "blocks", [blocks])):
            _assign_block(take, block, f"{name}.layers.{number}.")
    if left:
        raise UserError(f"{place} has {min(left)}, of which the configuration says nothing.")


def _assign_block(take: Callable[..., None], block: Any, prefix: str) -> None:
    attention = block.self_attention
    if hasattr(attention, "mixer"):
        take(attention.mixer.inner.kernel, f"{prefix}mlp_t.gate_up_proj.weight", np.transpose)
        take(attention.mixer.outer.kernel, f"{prefix}mlp_t.down_proj.weight", np.transpose)
    else:
        joined = _Joined(attention)
        take(joined, f"{prefix}self_attn.qkv_proj.weight", np.transpose)
        take(attention.output_transform.kernel, f"{prefix}self_attn.o_proj.weight", np.transpose)
    take(block.transition.inner.kernel, f"{prefix}mlp.gate_up_proj.weight", np.transpose)
    take(block.transition.outer.kernel, f"{prefix}mlp.down_proj.weight", np.transpose)


class _Joined:
    """The kernels of queries, keys and values side by side, as one variable."""

    def __init__(self, attention: Any) -> None:
        names = ("query", "key", "value")
        self._kernels = [getattr(attention, f"{name}_kernel") for name in names]
        width, inner = self._kernels[0].shape
        self.shape = (width, 3 * inner)

    def assign(self, values: npt.NDArray[Any]) -> None:
        for kernel, part in zip(self._kernels, np.split(values, 3, 1), strict=True):
            kernel.assign(part)


def _with_padding(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows of ids, with those of padding and the end, of zeros, in front."""
    return np.pad(rows, [(FIRST_SYMBOL_ID, 0), (0, 0)])
