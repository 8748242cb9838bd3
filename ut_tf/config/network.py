"""What a network is made of: the hyperparameters that a model, not its training, follows from.

How it is used::

    network = NetworkConfig(hidden_size=128, num_heads=4, halting="basic")
    model = UniversalTransformer(network, spec)

How it works: a frozen dataclass; ``HParams`` (config.py) holds one beside the training's fields,
fills in what is None, and checks that fields fit together (config_checks.py).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, Self


@dataclass(frozen=True)
class NetworkConfig:
    """What a network is made of. The defaults are the paper's Universal Transformer (arXiv
    1807.03819), in a small size.
    """

    # Sizes.
    hidden_size: int = 128
    """d: width of every state."""
    filter_size: int = 512
    """Width of the transition's inner layer."""
    num_heads: int = 4
    """Attention heads; divides hidden_size."""

    # Depth.
    num_steps: int = 4
    """Recurrent steps T where depth is fixed (memn2n: hops); with dynamic halting only the default
    of act_max_steps.
    """
    eval_num_steps: int | None = None
    """Steps at evaluation; None: as in training."""
    steps_per_position: float = 0.0
    """Added steps per input symbol of an example: T = num_steps + ceil(steps_per_position * length)
    (Appendix B).
    """
    num_layers: int = 6
    """Layers on either side, each with weights of its own (Neural GPUs: in each step); without
    meaning in a Universal Transformer.
    """
    recurrence: Literal["basic", "highway", "skip", "dwa", "gru", "lstm"] = "basic"
    """How the block's output and the state combine (dwa: depth-wise attention over the states of
    all steps so far).
    """
    recurrence_layers: int = 1
    """Blocks that one recurrent step applies in turn, each with weights of its own."""
    mix_layers_before: int = 0
    """Layers with weights of their own before the recurrence, on either side."""
    mix_layers_after: int = 0
    """The same behind the recurrence."""
    recurrent_layer: Literal["none", "gru", "lstm"] = "none"
    """A recurrent layer over the positions before all others: bidirectional in the encoder, forward
    in the decoder.
    """
    transform_bias_init: float = -1.0
    """Initial bias of the transform gate of the highway and skip recurrences; at -1 they start out
    by carrying 73 %.
    """
    couple_carry_transform_gates: bool = True
    """Whether highway and skip carry 1 - transform gate; otherwise the carry gate has weights of
    its own and the opposite bias.
    """
    lstm_forget_bias: float = 1.0
    """Added to the forget gate's logits of the lstm recurrence."""
    use_memory_as_final_state: bool = False
    """The lstm recurrence returns its memory instead of its state."""

    # Dynamic halting.
    halting: Literal["none", "basic", "accumulated", "global", "random", "pondernet"] = "none"
    """Form of dynamic halting: none (fixed depth), basic (the paper's), accumulated (Graves),
    global (per sequence), random, pondernet.
    """
    global_mean: Literal["past", "sequence"] = "past"
    """Of global, in decoders: the mean over the positions so far, or over all (until 0.4,
    tensor2tensor), which sees later targets.
    """
    act_max_steps: int | None = None
    """Upper bound of steps under dynamic halting; None: 2 * num_steps."""
    eval_act_max_steps: int | None = None
    """The same at evaluation; None: as in training."""
    act_epsilon: float = 0.01
    """A position halts when its halting sum exceeds 1 - act_epsilon."""
    act_loss_weight: float = 0.01
    """Weight of the ponder cost in the loss (pondernet has ponder_kl_weight instead)."""
    act_halting_bias_init: float = -1.0
    """Initial bias of the halting unit; at +1 every position stops at step 2 and stays there."""
    halted_states: Literal["copy", "transform"] = "copy"
    """Whether a halted position's state is copied (the paper's text) or goes on being transformed
    (tensor2tensor; pondernet always).
    """
    padding_ponders: bool = False
    """Whether padding takes part in halting and in the ponder cost (tensor2tensor)."""
    ponder_prior: float = 0.2
    """Of pondernet: the prior's probability of stopping after a step that has been reached; without
    a bound it expects 1/ponder_prior.
    """
    ponder_kl_weight: float = 0.01
    """Of pondernet: weight in the loss of the divergence from the prior."""
    ponder_threshold: float = 0.5
    """Of pondernet, in use: an output stops at the first step by which it halts with at least this
    probability.
    """

    # Memory.
    memory_size: int = 10
    """Learned vectors in front of the sequence (mem_transformer, mem_bottleneck_transformer); of
    memn2n the latest facts that it reads.
    """
    eval_memory_size: int = 0
    """The same at evaluation; 0: as in training. Vectors beyond the trained ones repeat them in
    order (not of memn2n).
    """
    hop_tying: Literal["adjacent", "layerwise"] = "adjacent"
    """Of memn2n: a hop's output embedding is the next hop's input embedding, or all hops share both
    and a linear map joins them.
    """

    # The block.
    norm: Literal["post", "pre"] = "post"
    """post: LayerNorm after each residual sum (the paper). pre: before each sublayer, once more
    after the recurrence (tensor2tensor).
    """
    norm_epsilon: float = 1e-6
    """Added to the variance in every layer norm."""
    transition: Literal["fc", "sepconv"] = "fc"
    """Two affine maps with a ReLU between, or separable convolutions (tensor2tensor's kernels 3 and
    5; causal in the decoder).
    """
    attention_bias: bool = False
    """Whether the attention's projections have a bias."""
    attention_scale: Literal["constant", "log_length"] = "constant"
    """Factor on the attention logits beside 1/sqrt(d): none, or max(1, ln(keys) /
    ln(attention_scale_length)).
    """
    attention_scale_length: int = 40
    """The number of keys up to which log_length leaves the logits alone."""
    query_key_init: Literal["independent", "equal"] = "independent"
    """equal: the key kernel starts as a copy of the query kernel, so that attention starts out by
    likeness of contents and positions.
    """
    relative_bias: int = 0
    """Reach of a learned bias per head and relative position in self-attention (0: none); farther
    positions share the last value.
    """
    relative_self_bias: float = 0.0
    """Initial bias of a position's attention to itself (with relative_bias); -5: it looks elsewhere
    first.
    """

    # Coordinates.
    position: Literal["paper", "tensor2tensor", "learned", "rotary", "none"] = "paper"
    """paper: interleaved sinusoids from 1; tensor2tensor: [sines | cosines] from 0; learned (a
    table); rotary: queries and keys turned.
    """
    learned_positions: int = 512
    """Positions that position=learned has (longer sequences are refused) and convs2s (unless
    position=none; others share the last).
    """
    position_from: Literal["start", "end", "both"] = "start"
    """The encoder's positions count from its first symbol, back from its last one, or (rotary) by
    start in half of the heads, else end.
    """
    end_position: int = 1
    """Position of the last symbol where they count from the end; 0: it is an end symbol, and the
    one before it has position 1.
    """
    position_separator: int = 0
    """Id of a symbol of the inputs behind which their positions begin again (0: none), such as the
    sign between two summands.
    """
    position_offset: Literal["none", "random", "mixed", "randomised"] = "none"
    """In training: each example's own random offset; mixed: also spread out at random in most
    examples; randomised: a random subset.
    """
    max_position_offset: int = 0
    """The largest random offset; under mixed and randomised, the largest position."""
    eval_position_offset: int = 0
    """The offset at evaluation: the middle of the trained range is better known to the model than
    its edge.
    """
    eval_position_stride: int = 1
    """At evaluation positions grow by so much from symbol to symbol, after training with spread
    positions (mixed, randomised).
    """
    position_every_step: bool = True
    """Whether positions are added at every step (the paper) or only to the embedded input."""
    target_position: Literal["start", "continue", "backward"] = "start"
    """The decoder counts from the start like the inputs, goes on after their last symbol, or counts
    down from that symbol.
    """
    input_start_symbol: bool = False
    """Whether a learned symbol stands before the inputs, at position 0 (the sign to stop, for a
    decoder that counts down).
    """
    target_start: Literal["learned", "zeros"] = "learned"
    """Input of a decoder's first position where no position is added to it (rotary, none): a
    learned vector, or zeros (until 0.4).
    """
    step_encoding: Literal["sinusoid", "learned", "none"] = "sinusoid"
    """Step embedding: sinusoid (the paper; any depth) or learned (a table, so never deeper than in
    training).
    """

    # LSTMs.
    lstm_attention: Literal["none", "luong", "bahdanau"] = "none"
    """Attention of the lstm's decoder: none, luong (general score, from the top layer), bahdanau
    (additive, fed into the first layer).
    """
    lstm_direction: Literal["forward", "backward", "both"] = "forward"
    """How the lstm's encoder reads its inputs; backward: from the last symbol (tensor2tensor);
    both: half of the width each.
    """

    # Convolutions.
    conv_kernel: int = 3
    """Positions that a convolution of convs2s or bytenet sees; of Neural GPUs rows and columns;
    odd.
    """
    max_dilation: int = 16
    """bytenet's positions seen lie 1, 2, 4, … up to so far apart from block to block, then 1 again;
    a power of two.
    """
    source_stretch: float = 1.2
    """Positions of bytenet's source representation, rows of a Neural GPU's image, per input symbol;
    a longer output has none beyond.
    """

    # Neural GPUs.
    image_width: int = 4
    """Columns of the mental image of neural_gpu and extended_neural_gpu; the inputs stand in the
    first. Each cell has hidden_size maps.
    """
    gate_cutoff: float = 1.2
    """c: their gates are c * sigmoid - (c - 1) / 2, cut to [0, 1], so that they can close and open
    fully; 1: a plain sigmoid.
    """
    relaxed_sets: int = 1
    """Sets of parameters that their steps take in turn; above 1 training pulls them together, until
    their mean takes their place.
    """

    # Input and output.
    embedding_scale: Literal["sqrt", "none"] = "sqrt"
    """sqrt: token embeddings are multiplied by sqrt(hidden_size)."""
    embedding_stddev: float | None = None
    """Standard deviation of the embedding's initial values; None: hidden_size ** -0.5."""
    shared_embedding: bool = True
    """Whether inputs, targets and the output projection share one matrix (where their vocabularies
    are shared).
    """
    word_mask_mean: float = 1.0
    """Mean of the initial multiplicative word masks of facts."""
    word_mask_stddev: float = 0.0
    """Standard deviation of the initial multiplicative word masks of facts."""
    summary: Literal["last", "mean"] = "last"
    """What a classifier reads: the last symbol's state (bAbI: the question's) or the mean over the
    positions that are not padding.
    """
    target_space_embedding: bool = False
    """Whether a learned vector is added to every embedded input (tensor2tensor's embedding of the
    target space).
    """
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
        """Returns the configuration written by ``to_dict``, of this version or an earlier one."""
        return cls(**{**BEFORE_0_5, **values})


# What networks did before these fields were there: the values of a field that a stored
# configuration does not have.
BEFORE_0_5: dict[str, Any] = {"target_start": "zeros", "global_mean": "sequence"}
