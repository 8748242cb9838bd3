"""The cells, halting forms, training depths and exit rules of a Universal Transformer, by name."""

from __future__ import annotations

from ut_tf.registry import Entry

_CELLS = "ut_tf.models.universal_transformer.cells"
_HALTING = "ut_tf.models.universal_transformer.halting"
_EXITS = "ut_tf.models.universal_transformer.exit_rules"

CELLS = {
    "basic": Entry(f"{_CELLS}:BasicCell", "the block's output is the new state"),
    "highway": Entry(f"{_CELLS}:HighwayCell", "a gate carries the state past the block"),
    "skip": Entry(f"{_CELLS}:SkipCell", "a gate carries the embedded input past the block"),
    "dwa": Entry(f"{_CELLS}:DepthwiseAttentionCell", "attention over the states of all steps"),
    "gru": Entry(f"{_CELLS}:GRUCell", "a GRU over depth, in the transition's place"),
    "lstm": Entry(f"{_CELLS}:LSTMCell", "an LSTM over depth, in the transition's place"),
}

HALTING_FORMS = {
    "none": Entry(
        f"{_HALTING}.fixed_depth:FixedDepth",
        "all positions take all steps",
        attributes={"dynamic": False},
    ),
    "basic": Entry(
        f"{_HALTING}.adaptive_computation_time:Basic",
        "adaptive computation time as in the Universal Transformer",
        row="dynamic halting",
    ),
    "accumulated": Entry(
        f"{_HALTING}.adaptive_computation_time:Accumulated", "adaptive computation time, Graves'"
    ),
    "global": Entry(
        f"{_HALTING}.global_halting:Global", "by the mean of the sequence's probabilities"
    ),
    "random": Entry(f"{_HALTING}.random_halting:Random", "probabilities drawn at random"),
    "pondernet": Entry(
        f"{_HALTING}.pondernet:PonderNet",
        "trained by the loss of every step's answer",
        attributes={"trains_all_steps": True},
    ),
}

TRAIN_DEPTHS = {
    "fixed": Entry(
        "ut_tf.models.universal_transformer.train_depth:fixed", "the same in every update"
    ),
}

_READS_LOGITS = {"reads_logits": True}

EXIT_RULES = {
    "none": Entry(f"{_EXITS}:no_rule", "the halting form alone ends a position's steps"),
    "state_difference": Entry(f"{_EXITS}:StateDifference", "the state hardly changes any more"),
    "acceleration": Entry(
        f"{_EXITS}:Acceleration", "the change of the state hardly changes, twice in a row"
    ),
    "entropy": Entry(
        f"{_EXITS}:Entropy",
        "the entropy of the answer hardly changes any more",
        attributes=_READS_LOGITS,
    ),
    "kl": Entry(
        f"{_EXITS}:Divergence", "the answer hardly changes any more", attributes=_READS_LOGITS
    ),
    "argmax_stable": Entry(
        f"{_EXITS}:StableArgmax",
        "the most probable symbol stays the same for some steps",
        attributes=_READS_LOGITS,
    ),
}
