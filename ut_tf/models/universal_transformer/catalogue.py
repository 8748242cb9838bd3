"""The parts of a recurrence by name: cells, injections, initial states, depths and exit rules."""

from ut_tf.config.fields import option
from ut_tf.registry import Entry

_CELLS = "ut_tf.models.universal_transformer.cells"
_HALTING = "ut_tf.models.universal_transformer.halting"
_DEPTHS = "ut_tf.models.universal_transformer.train_depth"
_INJECTION = "ut_tf.models.universal_transformer.injection"
_INITIAL = "ut_tf.models.universal_transformer.initial_state"
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

_MAX = option(0, "the most steps; 0: eight times the mean", at_least=0)

LOGNORMAL_POISSON = {
    "mean": option(32.0, "mean of the rate, one less than that of the steps", above=0),
    "sigma": option(0.5, "standard deviation of the rate's logarithm", at_least=0),
    "max": _MAX,
}
POISSON = {"mean": option(8.0, "mean number of steps", above=0), "max": _MAX}
UNIFORM = {
    "min": option(1, "the fewest steps", at_least=1),
    "max": option(16, "the most steps", at_least=1),
}

NOISE = {"stddev": option(1.0, "deviation of the numbers, cut off at three of them", above=0)}

TRAIN_DEPTHS = {
    "fixed": Entry(f"{_DEPTHS}:fixed", "the same in every update"),
    "lognormal_poisson": Entry(
        f"{_DEPTHS}:LogNormalPoisson",
        "Huginn's: a heavy tail",
        attributes={"options": LOGNORMAL_POISSON},
    ),
    "poisson": Entry(
        f"{_DEPTHS}:Poisson", "Parcae's: around a mean", attributes={"options": POISSON}
    ),
    "uniform": Entry(
        f"{_DEPTHS}:Uniform", "each number of steps equally often", attributes={"options": UNIFORM}
    ),
}

INPUT_INJECTIONS = {
    "none": Entry(f"{_INJECTION}:no_injection", "the block reads the state alone"),
    "add": Entry(f"{_INJECTION}:AddInjection", "the inputs are added to the state"),
    "concat": Entry(f"{_INJECTION}:ConcatInjection", "a matrix of state and inputs, Huginn's"),
    "diagonal": Entry(
        f"{_INJECTION}:DiagonalInjection", "the state decays by channel, inputs enter; Parcae's"
    ),
}

INITIAL_STATES = {
    "inputs": Entry(f"{_INITIAL}:of_inputs", "the embedded inputs"),
    "zeros": Entry(f"{_INITIAL}:ZeroState", "zeros"),
    "learned": Entry(f"{_INITIAL}:LearnedState", "a trained vector"),
    "fixed": Entry(f"{_INITIAL}:FixedState", "a vector that is drawn once"),
    "noise": Entry(
        f"{_INITIAL}:NoiseState",
        "drawn for each example and position; Huginn's, EqR's",
        attributes={
            "draws": True,
            "by_position": True,
            "options": NOISE,
        },
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
    "confidence": Entry(
        f"{_EXITS}:Confidence",
        "the answer is far more probable than all others, CALM's",
        attributes=_READS_LOGITS,
    ),
    "kl": Entry(
        f"{_EXITS}:Divergence", "the answer hardly changes any more", attributes=_READS_LOGITS
    ),
    "kl_reverse": Entry(
        f"{_EXITS}:ReverseDivergence",
        "the same with the step before first, Huginn's",
        attributes=_READS_LOGITS,
    ),
    "minp_kl": Entry(
        f"{_EXITS}:LikelyDivergence",
        "kl_reverse over the likely symbols, Huginn's",
        attributes=_READS_LOGITS,
    ),
    "q": Entry(
        f"{_EXITS}:QHalts",
        "the Q value of halting is positive, of the whole example; HRM's, TRM's",
        attributes={"reads_q_values": True},
    ),
    "cosine": Entry(f"{_EXITS}:Cosine", "the state hardly turns any more, Huginn's"),
    "argmax_stable": Entry(
        f"{_EXITS}:StableArgmax",
        "the most probable symbol stays the same for some steps",
        attributes=_READS_LOGITS,
    ),
    "argmax_equal": Entry(
        f"{_EXITS}:EqualArgmax",
        "the most probable symbol equals the one before for some steps, Huginn's",
        attributes=_READS_LOGITS,
    ),
}
