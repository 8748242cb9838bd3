"""Typed hyperparameters: what a network is made of, how it is trained, and how both are written, read and overridden.

How it is used::

    hparams = HParams(network=NetworkConfig(hidden_size=128, num_heads=4), training=TrainingConfig(batch_size=2048))
    hparams = hparams.override("hidden_size=256,dropout=0.2")     # every mistake in the text is listed at once
    hparams = hparams.resolve()                                   # values that follow from others are filled in
    text = hparams.to_json(); hparams == HParams.from_json(text)

How it works: frozen dataclasses; variants are made with ``dataclasses.replace`` or ``override``. A field that is None follows
from other fields and is filled in by ``resolve``, the only place where one value is computed from another.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from ut_tf.errors import UserError, near_names
from ut_tf.overrides import coerce, parse_assignments


@dataclass(frozen=True)
class NetworkConfig:
    """What a Universal Transformer is made of. The defaults are the paper's (arXiv 1807.03819), in a small size."""

    # Sizes.
    hidden_size: int = 128
    """d: width of every state."""
    filter_size: int = 512
    """Width of the transition's inner layer."""
    num_heads: int = 4
    """Attention heads; divides hidden_size."""

    # Depth.
    num_steps: int = 4
    """Recurrent steps T where depth is fixed; with dynamic halting only the default of act_max_steps."""
    eval_num_steps: int | None = None
    """Steps at evaluation; None: as in training."""
    steps_per_position: float = 0.0
    """Added steps per input symbol of an example: T = num_steps + ceil(steps_per_position * length) (Appendix B)."""
    num_layers: int = 6
    """Layers on either side of a transformer, each with weights of its own; without meaning where one block is repeated."""
    recurrence: Literal["basic", "gru", "lstm"] = "basic"
    """How the block's output and the state combine."""
    lstm_forget_bias: float = 1.0
    """Added to the forget gate's logits of the lstm recurrence."""
    use_memory_as_final_state: bool = False
    """The lstm recurrence returns its memory instead of its state."""

    # Dynamic halting.
    halting: Literal["none", "basic", "accumulated", "global", "random"] = "none"
    """Form of dynamic halting: none (fixed depth), basic (the paper's), accumulated (Graves), global (per sequence), random."""
    act_max_steps: int | None = None
    """Upper bound of steps under dynamic halting; None: 2 * num_steps."""
    eval_act_max_steps: int | None = None
    """The same at evaluation; None: as in training."""
    act_epsilon: float = 0.01
    """A position halts when its halting sum exceeds 1 - act_epsilon."""
    act_loss_weight: float = 0.01
    """Weight of the ponder cost in the loss."""
    act_halting_bias_init: float = -1.0
    """Initial bias of the halting unit; at +1 every position stops at step 2 and stays there."""
    halted_states: Literal["copy", "transform"] = "copy"
    """Whether a halted position's state is copied (the paper's text) or goes on being transformed (tensor2tensor)."""
    padding_ponders: bool = False
    """Whether padding takes part in halting and in the ponder cost (tensor2tensor)."""

    # The block.
    norm: Literal["post", "pre"] = "post"
    """post: LayerNorm after each residual sum (the paper). pre: before each sublayer, once more after the recurrence (tensor2tensor)."""
    norm_epsilon: float = 1e-6
    """Added to the variance in every layer norm."""
    transition: Literal["fc", "sepconv"] = "fc"
    """Two affine maps with a ReLU between, or separable convolutions (tensor2tensor's kernels 3 and 5; causal in the decoder)."""
    attention_bias: bool = False
    """Whether the attention's projections have a bias."""
    attention_scale: Literal["constant", "log_length"] = "constant"
    """Factor on the attention logits beside 1/sqrt(d): none, or max(1, ln(keys) / ln(attention_scale_length))."""
    attention_scale_length: int = 40
    """The number of keys up to which log_length leaves the logits alone."""
    query_key_init: Literal["independent", "equal"] = "independent"
    """equal: the key kernel starts as a copy of the query kernel, so that attention starts out by likeness of contents and positions."""
    relative_bias: int = 0
    """Reach of a learned bias per head and relative position in self-attention (0: none); farther positions share the last value."""
    relative_self_bias: float = 0.0
    """Initial bias of a position's attention to itself (with relative_bias); -5: it looks elsewhere first."""

    # Coordinates.
    position: Literal["paper", "tensor2tensor", "rotary", "none"] = "paper"
    """paper: interleaved sinusoids from 1; tensor2tensor: [sines | cosines] from 0; rotary: queries and keys turned; none."""
    position_from: Literal["start", "end", "both"] = "start"
    """The encoder's positions count from its first symbol, back from its last one, or (rotary) by start in half of the heads, else end."""
    position_offset: Literal["none", "random", "mixed"] = "none"
    """In training each example's positions start at its own random offset, or (mixed) are also spread out at random in most examples."""
    max_position_offset: int = 0
    """The largest random offset; under mixed, the largest position."""
    eval_position_offset: int = 0
    """The offset at evaluation: the middle of the trained range is better known to the model than its edge."""
    position_every_step: bool = True
    """Whether positions are added at every step (the paper) or only to the embedded input."""
    target_position: Literal["start", "continue", "backward"] = "start"
    """The decoder counts from the start like the inputs, goes on after their last symbol, or counts down from that symbol."""
    input_start_symbol: bool = False
    """Whether a learned symbol stands before the inputs, at position 0 (the sign to stop, for a decoder that counts down)."""
    step_encoding: Literal["sinusoid", "learned", "none"] = "sinusoid"
    """Step embedding: sinusoid (the paper; any depth) or learned (a table, so never deeper than in training)."""

    # Input and output.
    embedding_scale: Literal["sqrt", "none"] = "sqrt"
    """sqrt: token embeddings are multiplied by sqrt(hidden_size)."""
    embedding_stddev: float | None = None
    """Standard deviation of the embedding's initial values; None: hidden_size ** -0.5."""
    shared_embedding: bool = True
    """Whether inputs, targets and the output projection share one matrix (where their vocabularies are shared)."""
    word_mask_mean: float = 1.0
    """Mean of the initial multiplicative word masks of facts."""
    word_mask_stddev: float = 0.0
    """Standard deviation of the initial multiplicative word masks of facts."""
    summary: Literal["last", "mean"] = "last"
    """What a classifier reads: the last symbol's state (bAbI: the question's) or the mean over the positions that are not padding."""
    target_space_embedding: bool = False
    """Whether a learned vector is added to every embedded input (tensor2tensor's embedding of the target space)."""
    kernel_init: Literal["unit_scaling", "glorot"] = "glorot"
    """Initial kernels: uniform unit scaling with gain 1 (tensor2tensor) or Glorot uniform."""

    # Regularisation.
    dropout: float = 0.1
    """On the embedded input and on each sublayer's output."""
    attention_dropout: float = 0.1
    """On the attention weights."""
    relu_dropout: float = 0.1
    """Inside the transition."""
    word_dropout: float = 0.0
    """Share of the words, of inputs and of decoder inputs, that are left out in training."""

    def to_dict(self) -> dict[str, Any]:
        """Returns a plain dictionary, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Returns the configuration written by ``to_dict``."""
        return cls(**values)


@dataclass(frozen=True)
class TrainingConfig:
    """How a network is trained. The defaults are tensor2tensor's transformer_base recipe."""

    # Batches.
    batch_size: int = 4096
    """Per replica, in batch_unit."""
    batch_unit: Literal["tokens", "examples"] = "tokens"
    """tokens: an example costs as many tokens as the longer of its inputs and targets."""
    max_length: int = 256
    """Longer examples are left out of training."""
    min_length_bucket: int = 8
    """Upper bound of the shortest length bucket."""
    length_bucket_step: float = 1.1
    """Growth of the bucket bounds."""
    accumulate_steps: int = 1
    """Batches whose gradients are summed before each update."""

    # Optimisation.
    train_steps: int = 250_000
    """Updates to train for, unless --train_steps says otherwise."""
    learning_rate: float = 2.0
    """Factor of the schedule: for noam, lr = learning_rate * hidden_size^-0.5 * min(1, step/warmup) * max(step, warmup)^-0.5."""
    schedule: Literal["noam", "constant", "cosine"] = "noam"
    """noam: inverse square root; constant; cosine: to zero at decay_steps. All with a linear warm-up."""
    warmup_steps: int = 8000
    """Updates of linear warm-up."""
    decay_steps: int | None = None
    """Update at which the cosine schedule ends; None: train_steps of this set."""
    adam_beta1: float = 0.9
    """Decay of the first moment."""
    adam_beta2: float = 0.997
    """Decay of the second moment."""
    adam_epsilon: float = 1e-9
    """Added to the root of the second moment."""
    weight_decay: float = 0.0
    """Decoupled weight decay of the kernels (AdamW); embeddings, biases and norms do not decay."""
    clip_norm: float = 0.0
    """Upper bound of the gradient's global norm; 0: no clipping."""
    label_smoothing: float = 0.1
    """Probability mass moved from the right symbol to all others."""
    loss_scale: Literal["none", "dynamic"] | None = None
    """Scaling of the loss; None: dynamic under mixed_float16, none otherwise."""
    average_decay: float = 0.0
    """Decay of an exponential moving average of the weights, used at evaluation; 0: none."""

    # Arithmetic.
    dtype_policy: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras dtype policy of the network; positions, halting, softmax, norms and losses stay in float32."""
    jit_compile: bool = False
    """Whether the training step is compiled by XLA."""

    # Evaluation and checkpoints during training.
    eval_frequency: int = 1000
    """Updates between evaluations on the validation data; each one saves a checkpoint."""
    keep_checkpoint_max: int = 5
    """Latest checkpoints kept; the best by validation is kept besides."""
    early_stopping_patience: int = 0
    """Evaluations without a better validation metric after which training stops; 0: never."""

    # Data.
    vocab_size: int = 0
    """Subwords of a problem that trains its vocabulary, padding, end and bytes included; 0: the problem's own number."""
    subword_model: Literal["bpe", "unigram"] = "bpe"
    """How such a vocabulary is trained: byte pair encoding or a unigram language model."""


@dataclass(frozen=True)
class HParams:
    """A named model with its network's and its training's hyperparameters."""

    model: str = "universal_transformer"
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def override(self, text: str) -> Self:
        """Returns a copy with the fields named in `text`, "name=value,name=value", set by their types.

        Raises:
          UserError: lists every unknown name and every value that its field cannot hold.
        """
        values, mistakes = parse_assignments(text)
        return self._with(values, mistakes, parse=True)

    def change(self, **values: Any) -> Self:
        """Returns a copy with the given fields set, wherever among network and training they stand."""
        return self._with(values, [], parse=False)

    def resolve(self) -> Self:
        """Returns a copy whose every field has a value, after checking those that depend on each other.

        Raises:
          UserError: lists every field or pair of fields that cannot be.
        """
        network, training = self.network, self.training
        max_steps = network.act_max_steps if network.act_max_steps is not None else 2 * network.num_steps
        network = dataclasses.replace(
            network,
            eval_num_steps=network.num_steps if network.eval_num_steps is None else network.eval_num_steps,
            act_max_steps=max_steps,
            eval_act_max_steps=max_steps if network.eval_act_max_steps is None else network.eval_act_max_steps,
            embedding_stddev=max(network.hidden_size, 1) ** -0.5 if network.embedding_stddev is None else network.embedding_stddev,
        )
        default_scale: Literal["none", "dynamic"] = "dynamic" if training.dtype_policy == "mixed_float16" else "none"
        training = dataclasses.replace(
            training,
            decay_steps=training.train_steps if training.decay_steps is None else training.decay_steps,
            loss_scale=default_scale if training.loss_scale is None else training.loss_scale,
        )
        resolved = dataclasses.replace(self, network=network, training=training)
        _raise_all(_impossible(resolved))
        return resolved

    def to_dict(self) -> dict[str, Any]:
        """Returns nested plain dictionaries, ready for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Returns indented JSON that ``from_json`` reads."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Returns the hyperparameters in nested dictionaries.

        Raises:
          UserError: lists every unknown name and every value that its field cannot hold.
        """
        flat = {**values.get("network", {}), **values.get("training", {})}
        return dataclasses.replace(cls()._with(flat, [], parse=False), model=str(values.get("model", cls.model)))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the hyperparameters written by ``to_json``."""
        return cls.from_dict(json.loads(text))

    def _with(self, values: dict[str, Any], mistakes: list[str], parse: bool) -> Self:
        known = _fields()
        changes: dict[str, dict[str, Any]] = {"network": {}, "training": {}}
        for name, value in values.items():
            if name not in known:
                mistakes.append(f"unknown hyperparameter {name!r}{_hint(name, known)}")
                continue
            section, annotation = known[name]
            try:
                changes[section][name] = coerce(value, annotation, parse)
            except ValueError as error:
                mistakes.append(f"{name}={value}: expected {error}")
        _raise_all(mistakes)
        return dataclasses.replace(
            self,
            network=dataclasses.replace(self.network, **changes["network"]),
            training=dataclasses.replace(self.training, **changes["training"]),
        )


@functools.cache
def _fields() -> Mapping[str, tuple[str, Any]]:
    """Returns the section and the type of every field, by its name."""
    sections = {"network": NetworkConfig, "training": TrainingConfig}
    return {name: (section, kind) for section, config in sections.items() for name, kind in typing.get_type_hints(config).items()}


def differences(old: HParams, new: HParams, ignored: frozenset[str] = frozenset({"train_steps"})) -> list[str]:
    """Returns one text "name: old -> new" for each field in which two sets differ, but for the ignored ones."""
    found = [] if old.model == new.model else [f"model: {old.model} -> {new.model}"]
    for before, after in ((old.network, new.network), (old.training, new.training)):
        for item in dataclasses.fields(before):
            was, is_now = getattr(before, item.name), getattr(after, item.name)
            if was != is_now and item.name not in ignored:
                found.append(f"{item.name}: {was} -> {is_now}")
    return found


# What tensor2tensor calls some of the fields: its users type these first.
_TENSOR2TENSOR_NAMES = {
    "num_rec_steps": "num_steps",
    "num_hidden_layers": "num_steps",
    "recurrence_type": "recurrence (or halting, for act)",
    "act_type": "halting",
    "transformer_ffn_type": "transition",
    "step_timing_signal_type": "step_encoding",
    "position_start_index": "position_offset",
    "layer_prepostprocess_dropout": "dropout",
    "learning_rate_constant": "learning_rate",
    "learning_rate_schedule": "schedule",
    "learning_rate_warmup_steps": "warmup_steps",
    "optimizer_adam_beta1": "adam_beta1",
    "optimizer_adam_beta2": "adam_beta2",
    "optimizer_adam_epsilon": "adam_epsilon",
    "clip_grad_norm": "clip_norm",
    "shared_embedding_and_softmax_weights": "shared_embedding",
}


def _hint(name: str, known: Iterable[str]) -> str:
    if name in _TENSOR2TENSOR_NAMES:
        return f" (here it is {_TENSOR2TENSOR_NAMES[name]})"
    near = near_names(name, known)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


# Bounds of single fields: "at least", "above", and "below" what they say.
_AT_LEAST = {
    **dict.fromkeys(("hidden_size", "filter_size", "num_heads", "num_steps", "num_layers", "eval_num_steps"), 1),
    **dict.fromkeys(("act_max_steps", "eval_act_max_steps"), 1),
    **dict.fromkeys(("batch_size", "max_length", "min_length_bucket", "accumulate_steps", "train_steps", "eval_frequency"), 1),
    **dict.fromkeys(("keep_checkpoint_max", "decay_steps"), 1),
    **dict.fromkeys(("warmup_steps", "early_stopping_patience", "weight_decay", "clip_norm", "act_loss_weight", "steps_per_position"), 0),
    **dict.fromkeys(("relative_bias", "max_position_offset", "word_mask_stddev", "embedding_stddev", "vocab_size"), 0),
    "attention_scale_length": 2,
}
_ABOVE = {"learning_rate": 0, "norm_epsilon": 0, "adam_epsilon": 0, "length_bucket_step": 1}
_SHARES = ("dropout", "attention_dropout", "relu_dropout", "word_dropout", "label_smoothing", "adam_beta1", "adam_beta2", "average_decay")


def _impossible(hparams: HParams) -> list[str]:
    values = {**vars(hparams.network), **vars(hparams.training)}
    mistakes = [f"{name}={values[name]}: expected at least {bound}" for name, bound in _AT_LEAST.items() if values[name] < bound]
    mistakes += [f"{name}={values[name]}: expected above {bound}" for name, bound in _ABOVE.items() if values[name] <= bound]
    mistakes += [f"{name}={values[name]}: expected at least 0 and below 1" for name in _SHARES if not 0 <= values[name] < 1]
    if not 0 < values["act_epsilon"] < 1:
        mistakes.append(f"act_epsilon={values['act_epsilon']}: expected between 0 and 1")
    if mistakes:
        return mistakes
    return _impossible_sizes(hparams.network) + _impossible_depths(hparams.network) + _impossible_pairs(hparams)


def _impossible_pairs(hparams: HParams) -> list[str]:
    network, training = hparams.network, hparams.training
    mistakes = []
    if hparams.model == "transformer" and (network.halting != "none" or network.recurrence != "basic" or network.steps_per_position):
        mistakes.append("the model transformer has no recurrence: halting, recurrence and steps_per_position need a universal_transformer")
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
    if network.hidden_size % 2:
        mistakes.append(f"hidden_size={network.hidden_size}: expected an even number (sines and cosines)")
    if network.position_offset != "none" and network.max_position_offset == 0:
        mistakes.append(f"position_offset={network.position_offset} needs max_position_offset above 0")
    if network.position_from == "both" and network.position != "rotary":
        mistakes.append(f"position_from=both needs position=rotary, not {network.position}")
    return mistakes


def _impossible_depths(network: NetworkConfig) -> list[str]:
    mistakes = []
    halts = network.halting != "none"
    if halts and network.recurrence != "basic":
        mistakes.append(f"halting={network.halting} needs recurrence=basic, not {network.recurrence}")
    if halts and network.steps_per_position:
        mistakes.append("steps_per_position sets a fixed depth: it goes with halting=none")
    if network.step_encoding != "learned":
        return mistakes
    name = "act_max_steps" if halts else "num_steps"
    trained, used = getattr(network, name), getattr(network, f"eval_{name}")
    if used > trained:
        mistakes.append(f"eval_{name}={used} is more than {name}={trained}, which a learned step_encoding cannot do: use sinusoid or none")
    if network.steps_per_position:
        mistakes.append("steps_per_position makes depth depend on length, which a learned step_encoding cannot do: use sinusoid or none")
    return mistakes


def _raise_all(mistakes: list[str]) -> None:
    if mistakes:
        raise UserError("hyperparameters: " + "; ".join(mistakes) + ".")
