"""Checkpoints of Huginn (arXiv 2502.05171), a language model of recurrent depth, as models.

::

    huginn = load_huginn("model.safetensors", "config.json")
    for step in huginn.states_and_logits(ids, start_state, 32):
        step.state, step.logits
    huginn.model                                              # a UniversalTransformer

Ids are those of the checkpoint's own vocabulary. Here 0 is padding and 1 ends a sequence, so that
the model counts its symbols in another way (``Huginn.symbols``).
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.errors import UserError, file_errors
from ut_tf.interop.named_weights import NamedWeights
from ut_tf.interop.source import Source
from ut_tf.interop.weights_file import weights_file
from ut_tf.layers.recurrence_details import GivenDepth, RecurrenceDetails
from ut_tf.loading import read_yaml
from ut_tf.models.interfaces import CallOptions
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.paths import expanded
from ut_tf.problem_spec import ProblemSpec

Array = npt.NDArray[Any]

_PREFIXES = ("_orig_mod.", "model.")
_OPTIONS: Mapping[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
_REQUIRED: Sequence[str] = _OPTIONS["required"]
_KNOWN = frozenset({*_REQUIRED, *_OPTIONS["optional"], *_OPTIONS["unread"]})


class HuginnStep(NamedTuple):
    """The result of a recurrent step.

    Fields:
      state: float32 [batch, length, hidden_size], after the norm that ends the recurrence.
      logits: float32 [batch, length, vocab_size], in the order of the checkpoint's ids.
    """

    state: Any
    logits: Any


class Huginn:
    """A checkpoint of Huginn.

    Args:
      model: ``UniversalTransformer``, a language model.
      end_id: the checkpoint's id that ends a sequence.
    """

    def __init__(self, model: UniversalTransformer, end_id: int) -> None:
        self.model = model
        self.end_id = end_id

    def symbols(self, ids: Any) -> Array:
        """Returns the model's symbols of the checkpoint's ids: one more, with end_id and 0
        exchanged.
        """
        ids = np.asarray(ids)
        exchanged = np.where(ids == 0, self.end_id, np.where(ids == self.end_id, 0, ids))
        return (exchanged + 1).astype(np.int32)

    def states_and_logits(self, ids: Any, start_state: Any, steps: int) -> Iterator[HuginnStep]:
        """Yields what the model would answer after each of `steps` recurrent steps, in evaluation.

        Args:
          ids: int [batch, length], of the checkpoint.
          start_state: float [batch, length, hidden_size].
          steps: number of steps.
        """
        progress = None
        for number in range(1, steps + 1):
            depth = GivenDepth(tf.constant(number), progress)
            logits, details = self.logits(ids, start_state, CallOptions(to_depth=depth))
            progress = details.progress
            state = self.model.decoder.after.final_norm(progress.carry.state)
            yield HuginnStep(state, logits)

    def logits(
        self, ids: Any, start_state: Any, options: CallOptions | None = None
    ) -> tuple[Any, RecurrenceDetails]:
        """Returns (logits as of ``HuginnStep``, the decoder's details); arguments are those of
        ``states_and_logits``.

        Options say, among others, whether the call is one of training and how many steps it takes.
        """
        model, symbols = self.model, self.symbols(ids)
        options = options or CallOptions()
        recurrence = model.decoder.recurrence
        start = tf.convert_to_tensor(start_state, recurrence.compute_dtype)
        carry = recurrence.recurrent_step.start(start)._replace(state=start)
        states, details = model.decode_embedded(
            model.target_embedding(symbols), symbols, None, options._replace(carry=carry)
        )
        assert details is not None
        vocab_size = model.spec.target_vocab_size - 1
        order = self.symbols(np.arange(vocab_size))
        return tf.gather(model.token_logits(states), order, axis=-1), details


def load_huginn(weights: str | Path, config: str | Path) -> Huginn:
    """Makes the model of a checkpoint.

    Args:
      weights: file of safetensors or of torch.save.
      config: the checkpoint's config.json.

    Raises:
      UserError: the configuration asks for what there is not here, or the weights do not fit it.
    """
    source = read_source(weights, config)
    return Huginn(source.model(), _end_id(_read_options(Path(config))))


def read_source(weights: str | Path, config: str | Path) -> Source:
    """Reads a checkpoint; arguments and errors as of ``load_huginn``."""
    options = _read_options(Path(config))
    network, vocab_size = network_of(options, str(config)), _vocab_size(options)
    arrays = {_plain(name): values for name, values in weights_file(weights).items()}
    # Rotations are computed here.
    arrays.pop("freqs_cis", None)
    # torch.save writes a shared matrix under both of its names.
    table = arrays.get("transformer.wte.weight", np.zeros(0))
    if network.shared_embedding and np.array_equal(arrays.get("lm_head.weight", np.ones(0)), table):
        arrays.pop("lm_head.weight", None)

    def assign(model: Any) -> None:
        named = NamedWeights(arrays, str(weights))
        _assign(Huginn(model, _end_id(options)), named, options.get("bos_token_id"))

    return Source(
        "huginn",
        network,
        ProblemSpec("none", "tokens", 0, vocab_size + 1),
        {},
        None,
        # Rows of padding, and the vector before the first symbol.
        sum(array.size for array in arrays.values()) + 3 * network.hidden_size,
        assign,
    )


def network_of(options: Mapping[str, Any], place: str) -> UniversalTransformerConfig:
    """Returns the configuration of the model that a config.json describes.

    Args:
      options: its content.
      place: its name, for errors.
    """
    _check_options(options, place)
    width, recurrence = int(options["n_embd"]), int(options["mean_recurrence"])
    backprop = int(options["mean_backprop_depth"])
    return UniversalTransformerConfig(
        hidden_size=width,
        num_heads=int(options["n_heads"]),
        filter_size=int(options["intermediate_size"]),
        mix_layers_before=int(options["n_layers_in_prelude"]),
        recurrence_layers=int(options["n_layers_in_recurrent_block"]),
        mix_layers_after=int(options["n_layers_in_coda"]),
        norm_after_recurrence=True,
        transition="swiglu",
        norm="sandwich",
        norm_type="rms",
        norm_epsilon=float(options.get("norm_eps", 1e-6)),
        qk_bias=bool(options.get("qk_bias", True)),
        position="rotary",
        rotary_base=float(options.get("rope_base", 50000)),
        step_encoding="none",
        input_injection="concat",
        initial_state="zeros",
        num_steps=recurrence,
        train_depth="lognormal_poisson",
        backprop_steps=backprop,
        part_options={"train_depth.mean": float(recurrence)},
        shared_embedding=bool(options.get("tie_embeddings", True)),
        dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
    )


def _read_options(path: Path) -> dict[str, Any]:
    with file_errors(
        path, "expected a checkpoint's config.json", "read as JSON", also=(ValueError,)
    ):
        options = json.loads(expanded(path).read_text(encoding="utf-8"))
    if not isinstance(options, dict):
        raise UserError(f"{path} is no JSON object: expected a checkpoint's config.json.")
    return options


def _check_options(options: Mapping[str, Any], place: str) -> None:
    """Refuses what is missing, and what there is not here."""
    for name, value in {"padding_multiple": 1, **dict.fromkeys(_REQUIRED), **options}.items():
        if name not in (*_REQUIRED, "padding_multiple"):
            continue
        least = 0 if name == "n_layers_in_prelude" else 1
        if not isinstance(value, int) or value < least:
            raise UserError(f"{place}: {name}={value}: expected a whole number from {least}.")
    for name in ("norm_eps", "rope_base"):
        value = options.get(name, 1)
        if not isinstance(value, int | float) or not 0 < value < math.inf:
            raise UserError(f"{place}: {name}={value}: expected a number above 0.")
    vocab_size = _vocab_size(options)
    for name in ("bos_token_id", "eos_token_id"):
        value = options.get(name, 0)
        if not isinstance(value, int) or not 0 <= value < vocab_size:
            raise UserError(f"{place}: {name}={value}: expected an id below {vocab_size}.")
    expected: dict[str, Sequence[Any]] = {**_OPTIONS["only"], **_derived(options)}
    values = options.get("init_values")
    scale = math.sqrt(options["n_embd"])
    found = values.get("embed_scale", scale) if isinstance(values, dict) else scale
    if not isinstance(found, int | float) or not math.isclose(found, scale, rel_tol=1e-6):
        raise UserError(f"{place}: embed_scale={found}: expected {scale}.")
    for name, value in options.items():
        if name in expected and value not in expected[name]:
            wanted = " or ".join(map(str, expected[name]))
            raise UserError(f"{place}: {name}={value}: expected {wanted}.")
        if name not in {*expected, *_KNOWN}:
            raise UserError(
                f"{place} has the option {name}, which is none of Huginn's: leave it out if the"
                " network is the same without it."
            )


def _derived(options: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The values of options that follow from the required ones."""
    layers = [options[f"n_layers_in_{part}"] for part in ("prelude", "recurrent_block", "coda")]
    heads, width = options["n_heads"], options["n_embd"]
    unrolled = layers[0] + layers[1] * options["mean_recurrence"] + layers[2]
    return {
        **dict.fromkeys(("num_attention_heads", "num_key_value_heads"), (heads,)),
        "head_dim": (width // heads,),
        "n_layers": (sum(layers),),
        "effective_expected_depth": (unrolled,),
        "padded_vocab_size": (_vocab_size(options),),
    }


def _end_id(options: Mapping[str, Any]) -> int:
    return int(options.get("eos_token_id", 0))


def _vocab_size(options: Mapping[str, Any]) -> int:
    """The rows of the embedding: vocab_size, filled up to a multiple."""
    multiple = int(options.get("padding_multiple", 4096))
    return -(-int(options["vocab_size"]) // multiple) * multiple


def _plain(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _assign(huginn: Huginn, weights: NamedWeights, start_id: int | None) -> None:
    """Gives the model the weights; each must be there, and none be left over."""
    model: Any = huginn.model
    stack = model.decoder
    width, vocab_size = model.network.hidden_size, model.spec.target_vocab_size - 1
    order = huginn.symbols(np.arange(vocab_size)) - 1
    table = weights.take("transformer.wte.weight", vocab_size, width)
    model.target_embedding.table.assign(_with_padding(table[order]))
    if model.output_projection is not None:
        head = weights.take("lm_head.weight", vocab_size, width)
        model.output_projection.kernel.assign(_with_padding(head[order]).T)
    start = np.zeros(width) if start_id is None else table[start_id] * math.sqrt(width)
    model.target_start.vector.assign(start)
    adapter = weights.take("transformer.adapter.weight", width, 2 * width)
    stack.recurrence.injection.kernel.assign(adapter.T)
    stack.after.final_norm.scale.assign(weights.take("transformer.ln_f.weight", width))
    core = stack.recurrence.block
    parts = {
        "prelude": [] if stack.before is None else stack.before.blocks,
        "core_block": getattr(core, "blocks", [core]),
        "coda": stack.after.blocks,
    }
    for name, blocks in parts.items():
        for number, block in enumerate(blocks):
            _assign_block(weights, block, f"transformer.{name}.{number}.", model.network)
    weights.finish()


def _assign_block(weights: NamedWeights, block: Any, prefix: str, network: Any) -> None:
    width, inner, heads = network.hidden_size, network.filter_size, network.num_heads
    attention, transition = block.self_attention, block.transition
    joined = weights.take(f"{prefix}attn.Wqkv.weight", 3 * width, width)
    queries, keys, values = np.split(joined, 3)
    attention.query_kernel.assign(_halves(queries, heads).T)
    attention.key_kernel.assign(_halves(keys, heads).T)
    attention.value_kernel.assign(values.T)
    if network.qk_bias:
        biases = weights.take(f"{prefix}attn.qk_bias", 2, 1, heads, width // heads)
        attention.query_bias.assign(_halves(biases[0].reshape(width), heads))
        attention.key_bias.assign(_halves(biases[1].reshape(width), heads))
    attention.output_transform.kernel.assign(
        weights.take(f"{prefix}attn.proj.weight", width, width).T
    )
    transition.inner.kernel.assign(weights.take(f"{prefix}mlp.fc.weight", 2 * inner, width).T)
    transition.outer.kernel.assign(weights.take(f"{prefix}mlp.proj.weight", width, inner).T)
    norms = ("self_attention_norm", "self_attention_norm_after")
    for number, name in enumerate((*norms, "transition_norm", "transition_norm_after"), 1):
        scale = weights.take(f"{prefix}norm_{number}.weight", width)
        getattr(block, name).scale.assign(scale)


def _halves(rows: Array, heads: int) -> Array:
    """Rows of heads whose pairs of channels stand side by side, as rows of heads whose pairs stand
    in the two halves, which rotary attention turns here.
    """
    size = len(rows) // heads
    pairs = rows.reshape(heads, size // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _with_padding(rows: Array) -> Array:
    """Rows of ids, with one of zeros in front."""
    return np.pad(rows, [(1, 0), (0, 0)])
