"""How a network is trained: batches, optimisation, curriculum, evaluation during training.

How it is used::

    training = TrainingConfig(batch_size=2048, learning_rate=0.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
    """Factor of the schedule: for noam, lr = learning_rate * hidden_size^-0.5 * min(1, step/warmup)
    * max(step, warmup)^-0.5.
    """
    schedule: Literal["noam", "constant", "cosine"] = "noam"
    """noam: inverse square root; constant; cosine: to zero at decay_steps. All with a linear
    warm-up.
    """
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
    """Keras dtype policy of the network; positions, halting, softmax, norms and losses stay in
    float32.
    """
    jit_compile: bool = False
    """Whether the training step is compiled by XLA."""

    # Curriculum.
    curriculum: Literal["none", "length"] = "none"
    """length: begins with the shortest examples and adds a bucket of longer ones whenever those of
    the last are answered well.
    """
    curriculum_start: int = 8
    """The longest examples at its beginning (the end symbol counts), rounded up to the bound of a
    bucket.
    """
    curriculum_threshold: float = 0.85
    """Share of the newest examples that must be answered without a fault, in training, before
    longer ones are added.
    """
    curriculum_examples: int = 256
    """How many of the newest examples are judged at a time, at least."""
    curriculum_share: float = 0.5
    """Share of the newest bucket among the training examples until the curriculum has ended; the
    others are drawn from all before.
    """
    gradient_noise: float = 0.0
    """Deviation of normal noise on the clipped gradient, times step^-1/4 and the share of examples
    with a fault (arXiv 1511.08228).
    """
    tying_pull: float = 0.0005
    """Of relaxed_sets: weight in the loss of their squared distance from their mean, at the
    curriculum's beginning.
    """
    tying_pull_factor: float = 1.2
    """By what that weight is multiplied whenever longer examples are added."""

    # Evaluation and checkpoints during training.
    eval_frequency: int = 1000
    """Updates between evaluations on the validation data; each one saves a checkpoint."""
    keep_checkpoint_max: int = 5
    """Latest checkpoints kept; the best by validation is kept besides."""
    early_stopping_patience: int = 0
    """Evaluations without a better validation metric after which training stops; 0: never."""

    # Data.
    vocab_size: int = 0
    """Subwords of a problem that trains its vocabulary, padding, end and bytes included; 0: the
    problem's own number.
    """
    subword_model: Literal["bpe", "unigram"] = "bpe"
    """How such a vocabulary is trained: byte pair encoding or a unigram language model."""
