"""How a network is trained: batches, optimization, curriculum, evaluation during training.

How it is used::

    training = TrainingConfig(batch_size=2048, learning_rate=0.2)
"""

from dataclasses import dataclass
from typing import Any, Literal

from ut_tf.config.base import Config
from ut_tf.config.fields import having, option

_CURRICULUM = having("curriculum", "length")
_SIGNSGD = having("puzzle_optimizer", "signsgd")
_DEEP = having("supervision", "deep")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Config):
    """How a network is trained. The defaults are tensor2tensor's transformer_base recipe."""

    # Batches.
    batch_size: int = option(4096, at_least=1)
    """Per replica, in batch_unit."""
    batch_unit: Literal["tokens", "examples"] = option("tokens")
    """tokens: an example costs as many tokens as the longer of its inputs and targets."""
    max_length: int = option(256, at_least=1)
    """Longer examples are left out of training."""
    min_length_bucket: int = option(8, at_least=1)
    """Upper bound of the shortest length bucket."""
    length_bucket_step: float = option(1.1, above=1)
    """Growth of the bucket bounds."""
    accumulate_steps: int = option(1, at_least=1)
    """Batches whose gradients are summed before each update."""
    parallel_parts: int = option(1, at_least=1)
    """Parts of a batch whose gradients are computed at the same time: 2 lets a network of fixed
    depth use two cores fully.
    """

    # Optimization.
    train_steps: int = option(250_000, at_least=1)
    """Updates to train for, unless the run says otherwise."""
    learning_rate: float = option(2.0, above=0)
    """Factor of the schedule: for noam, lr = learning_rate * hidden_size^-0.5 * min(1, step/warmup)
    * max(step, warmup)^-0.5.
    """
    schedule: Literal["noam", "constant", "cosine"] = option("noam")
    """noam: inverse square root; constant; cosine: to zero at decay_steps. All with a linear
    warm-up.
    """
    warmup_steps: int = option(8000, at_least=0)
    """Updates of linear warm-up."""
    decay_steps: int | None = option(None, at_least=1)
    """Update at which the cosine schedule ends; None: train_steps of this set."""
    optimizer: Literal["adam", "muon"] = option("adam")
    """muon: for kernels between hidden states, the momentum with all its singular values near one
    (arXiv 2502.16982), and adam for the rest.
    """
    muon_momentum: float = option(0.95, at_least=0, below=1, only_with=having("optimizer", "muon"))
    """Decay of the momentum."""
    puzzle_optimizer: Literal["same", "signsgd"] = option("same")
    """What the vectors of puzzles (num_puzzles) follow: same, the optimizer of the other weights;
    signsgd, the sign of their gradient (HRM, TRM).
    """
    puzzle_learning_rate: float = option(0.01, above=0, only_with=_SIGNSGD)
    """Factor of the schedule for these vectors, in the place of learning_rate."""
    puzzle_weight_decay: float = option(0.1, at_least=0, only_with=_SIGNSGD)
    """Decoupled weight decay of these vectors: of the puzzles of the update."""
    adam_beta1: float = option(0.9, at_least=0, below=1)
    """Decay of the first moment."""
    adam_beta2: float = option(0.997, at_least=0, below=1)
    """Decay of the second moment."""
    adam_epsilon: float = option(1e-9, above=0)
    """Added to the root of the second moment."""
    weight_decay: float = option(0.0, at_least=0)
    """Decoupled weight decay of the kernels (AdamW); embeddings, biases and norms do not decay."""
    clip_norm: float = option(0.0, at_least=0)
    """Upper bound of the gradient's global norm; 0: no clipping."""
    label_smoothing: float = option(0.1, at_least=0, below=1)
    """Probability mass moved from the right symbol to all others."""
    supervision: str = option("final", names_of="supervisions")
    """What is lost, and carried from one update to the next: final (the cross entropy of the final
    answer, the ponder cost, and what layers add); each (the cross entropy after every step);
    progressive (deep thinking's); deep (over several updates, HRM's and TRM's).
    """
    progressive_alpha: float = option(
        1.0, at_least=0, at_most=1, only_with=having("supervision", "progressive")
    )
    """Weight of the answer after a drawn part of the steps; that of the final one is 1 minus it."""
    supervision_steps: int = option(16, at_least=1, only_with=_DEEP)
    """The most updates that an example stays for (halt_max_steps of HRM and TRM)."""
    replace_by: Literal["q", "random", "end"] = option("q", only_with=_DEEP)
    """When an example is replaced before: where its Q value of halting is positive, at random, or
    not at all.
    """
    replacement: Literal["slot", "queue"] = option("slot", only_with=_DEEP)
    """Where new examples come from: slot, the same row of the batch at hand, whose other rows are
    left out (HRM, TRM); queue, the next of the data, so that each is trained on once in every pass.
    """
    replace_after: float = option(4.0, at_least=1, only_with=having("replace_by", "random"))
    """Mean number of updates before a replacement at random."""
    halt_exploration: float = option(0.1, at_least=0, at_most=1, only_with=_DEEP)
    """Share of the examples that Q values let go only after a drawn number of updates."""
    q_loss_weight: float = option(0.5, at_least=0, only_with=_DEEP)
    """Weight in the loss of the cross entropy of the Q values."""
    q_continue_weight: float = option(0.0, at_least=0, only_with=_DEEP)
    """Weight of the cross entropy of the Q value of going on, whose target comes from one more step
    (HRM: 0.5); above 0 an example halts where its Q value of halting is the greater one.
    """
    loss: Literal["softmax", "stablemax"] = option("softmax", only_with=_DEEP)
    """What makes probabilities of logits in training (stablemax: HRM, TRM)."""
    loss_scale: Literal["none", "dynamic"] | None = option(None)
    """Scaling of the loss; None: dynamic under mixed_float16, none otherwise."""
    average_decay: float = option(0.0, at_least=0, below=1)
    """Decay of an exponential moving average of the weights, used at evaluation; 0: none."""

    # Arithmetic.
    dtype_policy: Literal["float32", "mixed_bfloat16", "mixed_float16"] = option("float32")
    """Keras dtype policy of the network; positions, halting, softmax, norms and losses stay in
    float32. A set's mixed_bfloat16 becomes float32 on a CPU that does not multiply bfloat16.
    """
    jit_compile: bool = option(False)
    """Whether the training step is compiled by XLA."""

    # Curriculum.
    curriculum: Literal["none", "length"] = option("none")
    """length: begins with the shortest examples and adds a bucket of longer ones whenever those of
    the last are answered well.
    """
    curriculum_start: int = option(8, at_least=1, only_with=_CURRICULUM)
    """Length of the longest examples at its start (the end symbol counts), rounded up to the
    bound of a bucket.
    """
    curriculum_threshold: float = option(0.85, above=0, at_most=1, only_with=_CURRICULUM)
    """Share of the newest examples that must be answered without a fault, in training, before
    longer ones are added.
    """
    curriculum_examples: int = option(256, at_least=1, only_with=_CURRICULUM)
    """Minimum number of the newest examples that decide on the next stage."""
    curriculum_share: float = option(0.5, above=0, at_most=1, only_with=_CURRICULUM)
    """Share of the newest bucket among the training examples until the curriculum has ended; the
    others are drawn from all before.
    """
    gradient_noise: float = option(0.0, at_least=0)
    """Deviation of normal noise on the clipped gradient, times step^-1/4 and the share of examples
    with a fault (arXiv 1511.08228).
    """
    tying_pull: float = option(0.0005, at_least=0, only_with=_CURRICULUM)
    """Of relaxed_sets: weight in the loss of their squared distance from their mean, at the
    curriculum's beginning.
    """
    tying_pull_factor: float = option(1.2, at_least=1, only_with=_CURRICULUM)
    """By what that weight is multiplied whenever longer examples are added."""

    # Evaluation and checkpoints during training.
    eval_frequency: int = option(1000, at_least=1)
    """Updates between evaluations on the validation data; each one saves a checkpoint."""
    keep_checkpoint_max: int = option(5, at_least=1)
    """Latest checkpoints kept; the best by validation is kept besides."""
    early_stopping_patience: int = option(0, at_least=0)
    """Evaluations without a better validation metric after which training stops; 0: never."""

    # Data.
    vocab_size: int = option(0, at_least=0)
    """Subwords of a problem that trains its vocabulary, padding, end and bytes included; 0: the
    problem's own number.
    """
    subword_model: Literal["bpe", "unigram", "char"] = option("bpe")
    """How such a vocabulary is trained: byte pair encoding, a unigram language model, or the single
    characters.
    """
    subword_dropout: float = option(0.0, at_least=0, below=1)
    """Of translation: the probability with which a subword of a training pair is split into the two
    that it was merged from, anew in every epoch. Needs subword_model=bpe.
    """

    def following(self) -> dict[str, Any]:
        """The end of the cosine, and whether the loss is scaled."""
        scale = "dynamic" if self.dtype_policy == "mixed_float16" else "none"
        return {**super().following(), "decay_steps": self.train_steps, "loss_scale": scale}
