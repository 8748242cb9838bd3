"""The configuration of Universal Transformers: the parts of a step, its depth, and the layers
around the recurrence.

How it is used::

    UniversalTransformerConfig(hidden_size=128, num_heads=4, halting="basic")
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ut_tf import registry
from ut_tf.config.attention import AttentionModelConfig
from ut_tf.config.base import Config
from ut_tf.config.fields import having, option, unless
from ut_tf.config.groups import StepsConfig
from ut_tf.config.training import TrainingConfig

# Of the built-in cells: a user's own cells may do everything.
_IN_TRANSITIONS_PLACE = ("gru", "lstm")
_NEVER_HALTING = ("dwa", *_IN_TRANSITIONS_PLACE)
_WITH_GATE = ("highway", "skip")
_WITH_MEMORY = ("lstm",)


@dataclass(frozen=True, kw_only=True)
class RecurrenceConfig(StepsConfig):
    """The fields of the recurrence."""

    title: ClassVar[str] = "The recurrence"

    steps_per_position: float = option(0.0, at_least=0, is_structure=True)
    """Added steps per input symbol of an example: T = num_steps + ceil(steps_per_position * length)
    (Appendix B).
    """
    recurrence: str = option("basic", names_of="cells")
    """How the block's output and the state combine: basic (the output is the new state), highway,
    skip, dwa (depth-wise attention over the states of all steps so far), gru, lstm.
    """
    train_depth: str = option("fixed", names_of="train_depths", is_detail=True)
    """Steps of an update: fixed (num_steps, or as the halting form decides), or drawn anew for each
    update: lognormal_poisson (Huginn), poisson (Parcae), uniform.
    """
    backprop_steps: int = option(0, at_least=0, is_detail=True)
    """The most steps of an update that have a gradient, the last ones (0: all): the others take
    time, but no memory. Not with halting.
    """
    input_injection: str = option("none", names_of="input_injections")
    """How the embedded inputs enter the state again at every step: none, add, concat (Huginn),
    diagonal (Parcae).
    """
    initial_state: str = option("inputs", names_of="initial_states")
    """Where the state begins: inputs, zeros, learned (a trained vector), fixed (a vector that is
    drawn once), noise (drawn for each example and position); all but inputs need an
    input_injection.
    """
    eval_noise_seed: int = option(0, at_least=0, at_most=2**31 - 1, in_use=True)
    """From which the noise of initial_state=noise is drawn at inference."""
    eval_restarts: int = option(1, at_least=1, at_most=1000, in_use=True)
    """Answers at inference from so many drawn initial states, of which eval_select chooses one."""
    eval_select: Literal["residual", "q", "vote", "verifier"] = option(
        "residual", only_with=unless("eval_restarts", 1), in_use=True
    )
    """The answer chosen: of the state that changes least in the last step, of the highest Q value
    of halting, the one with which most agree, or the first that passes the problem's check.
    """
    H_cycles: int = option(0, at_least=0, is_structure=True)
    """Of a step of two levels (TRM, HRM), how often the high state moves; 0: there is one level."""
    L_cycles: int = option(1, at_least=1, only_with=unless("H_cycles", 0))
    """How often the low state moves before each move of the high one."""
    two_nets: bool = option(False, only_with=unless("H_cycles", 0))
    """Whether the two levels have blocks of their own (HRM) or the same one (TRM)."""
    cycle_backprop: Literal["last_cycle", "last_call", "all"] = option(
        "last_cycle", only_with=unless("H_cycles", 0)
    )
    """The calls of a step of two levels that have a gradient: those of the last cycle (TRM), the
    last one of each level (HRM), or all.
    """
    outer_norm: bool = option(False)
    """Whether each step ends with a norm of the state, so that no depth lets it grow."""
    state_update: float = option(1.0, above=0, at_most=1)
    """Share of a step's result in the new state; the rest is the state before it."""
    memory_tokens: int = option(0, at_least=0, is_structure=True)
    """Learned vectors in front of the encoder's sequence, which every step reads and writes; not in
    a decoder.
    """
    memory_positions: bool = option(False, only_with=unless("memory_tokens", 0))
    """Whether rotary attention turns the memory, by the positions before the first symbol's (TRM),
    or not at all.
    """
    num_puzzles: int = option(0, at_least=0, only_with=unless("memory_tokens", 0))
    """Puzzles that have a memory of their own (HRM, TRM); 0: all examples have the same one."""
    puzzle_size: int = option(0, at_least=0, only_with=unless("num_puzzles", 0))
    """Numbers of a puzzle's vector, the first ones of the memory; 0: hidden_size."""
    attention: bool = option(True, is_structure=True)
    """Whether positions attend to each other. Without it a transition connects them that sees its
    neighbours (shift, sepconv, sepconv2d), as in deep thinking; not in a decoder.
    """
    mix_positions: int = option(0, at_least=0, is_structure=True)
    """TRM's mlp_t: a SwiGLU over so many positions, the memory's included, takes attention's place;
    for boards of one size. 0: attention.
    """
    mix_filter_size: int = option(512, at_least=1, only_with=unless("mix_positions", 0))
    """Width of either half of its inner layer."""
    prediction_feedback: bool = option(False)
    """Whether the probabilities that a state answers with, by a matrix, are added to it before the
    next step; of problems with an answer at each position.
    """
    q_head: bool = option(False)
    """Whether two values of halting and going on are read from the first position (HRM, TRM)."""
    recurrence_layers: int = option(1, at_least=1, is_structure=True)
    """Blocks that one recurrent step applies in turn, each with weights of its own."""
    mix_layers_before: int = option(0, at_least=0, is_structure=True)
    """Layers with weights of their own before the recurrence, on either side."""
    mix_layers_after: int = option(0, at_least=0, is_structure=True)
    """The same behind the recurrence."""
    norm_after_recurrence: bool = option(False, only_with=unless("mix_layers_after", 0))
    """Whether the norm that ends the layers behind it, with the same weights, ends the recurrence
    too (Huginn).
    """
    recurrent_layer: Literal["none", "gru", "lstm"] = option("none")
    """A recurrent layer over the positions before all others: bidirectional in the encoder, forward
    in the decoder.
    """
    transform_bias_init: float = option(-1.0, only_with=having("recurrence", *_WITH_GATE))
    """Initial bias of the transform gate of the highway and skip recurrences; at -1 they start out
    by carrying 73 %.
    """
    couple_carry_transform_gates: bool = option(True, is_detail=True)
    """Whether highway and skip carry 1 - transform gate; otherwise the carry gate has weights of
    its own and the opposite bias.
    """
    lstm_forget_bias: float = option(1.0, only_with=having("recurrence", *_WITH_MEMORY))
    """Added to the forget gate's logits of the lstm recurrence."""
    use_memory_as_final_state: bool = option(False, is_detail=True)
    """The lstm recurrence returns its memory instead of its state."""
    position_every_step: bool = option(True, is_detail=True)
    """Whether positions are added at every step (the paper) or only to the embedded input."""
    step_encoding: Literal["sinusoid", "learned", "none"] = option("sinusoid", is_detail=True)
    """Step embedding: sinusoid (the paper; any depth) or learned (a table, so never deeper than in
    training).
    """
    coordinate_form: Literal["add", "concat"] = option("add", is_detail=True)
    """Whether positions and steps are added to the states, or concatenated with them and projected
    back (tensor2tensor).
    """
    position_shift: Literal["none", "step"] = option("none", is_detail=True)
    """step: at each step positions grow by length * step / steps (tensor2tensor's
    position_start_index=step); needs position=tensor2tensor.
    """

    def mistakes(self) -> list[str]:
        """Gates and memories belong to some recurrences only."""
        mistakes = super().mistakes()
        if not self.couple_carry_transform_gates and self._is_none_of(_WITH_GATE):
            mistakes.append(
                "couple_carry_transform_gates=False needs recurrence=highway or skip, not"
                f" {self.recurrence}"
            )
        return mistakes + self._unseen_inputs()

    def _unseen_inputs(self) -> list[str]:
        """A recurrence that begins elsewhere has to be given its inputs."""
        if self.H_cycles:
            return self._impossible_levels()
        if self.initial_state == "inputs" or self.input_injection != "none":
            return []
        return [
            f"initial_state={self.initial_state} and input_injection=none show the recurrence no"
            " inputs: choose an input_injection"
        ]

    def _impossible_levels(self) -> list[str]:
        """Two levels are a cell and an injection of their own."""
        needed = {"recurrence": "basic", "input_injection": "none"}
        return [
            f"H_cycles={self.H_cycles} needs {name}={value}, not {getattr(self, name)}"
            for name, value in needed.items()
            if getattr(self, name) != value
        ]

    def _is_none_of(self, cells: tuple[str, ...]) -> bool:
        """Whether the cell is built in, and none of these."""
        return self.recurrence not in cells and not registry.cells.is_own(self.recurrence)

    def mistakes_with(self, training: TrainingConfig) -> list[str]:
        """XLA cannot train a loop without a bound."""
        mistakes = super().mistakes_with(training)
        if self.steps_per_position and training.jit_compile:
            mistakes.append(
                "steps_per_position loops without a bound, which jit_compile cannot train: choose"
                " one of them"
            )
        return mistakes


_SUMS = unless("halting", "none", "pondernet")
_PONDERNET = having("halting", "pondernet")


@dataclass(frozen=True, kw_only=True)
class HaltingConfig(Config):
    """Dynamic halting."""

    title: ClassVar[str] = "Dynamic halting"

    halting: str = option("none", names_of="halting_forms")
    """Form of dynamic halting: none (fixed depth), basic (the paper's), accumulated (Graves),
    global (per sequence), random, pondernet.
    """
    global_mean: Literal["past", "sequence"] = option(
        "past", absent="sequence", only_with=having("halting", "global")
    )
    """Of global, in decoders: the mean over the positions so far, or over all (until 0.4,
    tensor2tensor), which sees later targets.
    """
    act_max_steps: int | None = option(None, at_least=1, only_with=unless("halting", "none"))
    """Upper bound of steps under dynamic halting; None: 2 * num_steps."""
    eval_act_max_steps: int | None = option(None, at_least=1, in_use=True)
    """The same at evaluation; None: as in training."""
    act_epsilon: float = option(0.01, above=0, below=1, only_with=unless("halting", "none"))
    """A position halts when its halting sum reaches 1 - act_epsilon."""
    act_loss_weight: float = option(0.01, at_least=0, only_with=_SUMS)
    """Weight of the ponder cost in the loss (pondernet has ponder_kl_weight instead)."""
    act_halting_bias_init: float = option(-1.0, only_with=unless("halting", "none", "random"))
    """Initial bias of the halting unit; at +1 every position stops at step 2 and stays there."""
    act_last_step: Literal["open", "remainder"] = option("open", only_with=_SUMS)
    """Whether a position that takes all steps ends without a remainder (tensor2tensor), or its last
    step gets what is left.
    """
    halted_states: Literal["copy", "transform"] = option("copy", only_with=_SUMS)
    """Whether a halted position's state is copied (the paper's text) or goes on being transformed
    (tensor2tensor; pondernet always).
    """
    halting_compute: Literal["auto", "dense", "compact"] = option(
        "auto", is_detail=True, in_use=True
    )
    """Whether halted positions cost time: dense computes all positions at every step, compact those
    that have not halted; auto: compact where the result is the same, without XLA or a GPU.
    """
    padding_ponders: bool = option(False, only_with=unless("halting", "none"))
    """Whether padding takes part in halting and in the ponder cost (tensor2tensor)."""
    ponder_prior: float = option(0.2, above=0, below=1, only_with=_PONDERNET)
    """Of pondernet: the prior's probability of stopping after a step that has been reached; without
    a bound it expects 1/ponder_prior.
    """
    ponder_kl_weight: float = option(0.01, at_least=0, only_with=_PONDERNET)
    """Of pondernet: weight in the loss of the divergence from the prior."""
    ponder_threshold: float = option(0.5, above=0, below=1, only_with=_PONDERNET, in_use=True)
    """Of pondernet, at inference: an output stops at the first step by which it halts with at least
    this probability.
    """
    eval_exit: str = option("none", names_of="exit_rules", in_use=True)
    """Rule by which a position stops at inference, besides its halting: none, state_difference,
    acceleration, cosine; of what answers with tokens also entropy, confidence, kl,
    kl_reverse, minp_kl, argmax_stable, argmax_equal; with q_head also q.
    """
    eval_exit_threshold: float | None = option(
        None, at_least=0, only_with=unless("eval_exit", "none"), in_use=True
    )
    """What the rule's value falls below, of argmax_stable the steps in a row; None: the rule's
    own.
    """
    train_exit: bool = option(False, only_with=unless("eval_exit", "none"))
    """Whether positions that exit keep their states in training, too, so that the others learn to
    go on beside them; needs supervision=each.
    """

    def mistakes(self) -> list[str]:
        """A bound of dynamic halting needs dynamic halting, and a number of steps is whole."""
        mistakes = super().mistakes()
        steps = self.eval_exit_threshold
        counts = self.eval_exit in ("argmax_stable", "argmax_equal")
        if counts and steps is not None and (steps < 1 or steps % 1):
            mistakes.append(
                f"eval_exit_threshold={steps:g} is a number of steps under"
                f" eval_exit={self.eval_exit}: expected a whole number of at least 1"
            )
        if not self._halts and self.eval_act_max_steps != self.act_max_steps:
            mistakes.append(
                f"eval_act_max_steps={self.eval_act_max_steps} bounds dynamic halting, and"
                f" halting={self.halting}: leave it out"
            )
        return mistakes

    @property
    def _halts(self) -> bool:
        """Whether depth depends on the states: whether the halting form is dynamic."""
        return bool(registry.halting_forms.attribute(self.halting, "dynamic", True))


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerConfig(HaltingConfig, RecurrenceConfig, AttentionModelConfig):
    """A Universal Transformer. The defaults are the paper's (arXiv 1807.03819), in a small size."""

    def following(self) -> dict[str, Any]:
        """The bounds of steps."""
        most = 2 * self.num_steps if self.act_max_steps is None else self.act_max_steps
        return {**super().following(), "act_max_steps": most, "eval_act_max_steps": most}

    def mistakes(self) -> list[str]:
        """Halting, recurrence and depth must fit together."""
        mistakes = super().mistakes()
        if self._halts and self.recurrence in _NEVER_HALTING:
            mistakes.append(
                f"halting={self.halting} needs recurrence=basic, highway or skip, not"
                f" {self.recurrence}"
            )
        if self._halts and self.steps_per_position:
            mistakes.append("steps_per_position sets a fixed depth: it goes with halting=none")
        if self._halts and self.eval_num_steps != self.num_steps:
            mistakes.append(
                f"eval_num_steps={self.eval_num_steps} is a fixed depth, and"
                f" halting={self.halting}: use eval_act_max_steps"
            )
        if self.use_memory_as_final_state and (self._is_none_of(_WITH_MEMORY) or self._halts):
            mistakes.append(
                "use_memory_as_final_state=True needs recurrence=lstm with halting=none, not"
                f" {self.recurrence} with {self.halting}"
            )
        sees = registry.transitions.attribute(self.transition, "sees_neighbours", False)
        if not self.attention and (not sees or self.recurrence in _NEVER_HALTING):
            mistakes.append(
                f"attention=False leaves positions alone with transition={self.transition} and"
                f" recurrence={self.recurrence}: it needs a transition that sees its neighbours,"
                " such as sepconv2d, and recurrence=basic, highway or skip"
            )
        needs_board = registry.transitions.attribute(self.transition, "needs_board", False)
        if needs_board and self.memory_tokens:
            mistakes.append(
                f"memory_tokens={self.memory_tokens} stand in front of the cells, and"
                f" transition={self.transition} takes all positions for a board: set one of them"
            )
        if not self.attention and self.mix_positions:
            mistakes.append(
                f"mix_positions={self.mix_positions} takes the place of attention, and"
                " attention=False leaves it out: set one of them"
            )
        mistakes += [
            f"halting_compute=compact leaves out states that {name}={getattr(self, name)} reads:"
            " set halting_compute=auto"
            for name in ("q_head", "prediction_feedback")
            if self.halting_compute == "compact" and getattr(self, name)
        ]
        answers_from_all = registry.halting_forms.attribute(self.halting, "trains_all_steps", False)
        if answers_from_all and self.mix_layers_after:
            mistakes.append(
                f"halting={self.halting} answers from the states of every step, so no layers can"
                " follow: it needs mix_layers_after=0"
            )
        if self.recurrent_layer != "none" and self.norm not in ("post", "pre"):
            mistakes.append(
                f"recurrent_layer={self.recurrent_layer} needs norm=post or pre, not {self.norm}"
            )
        mistakes += self._impossible_coordinates() + self._impossible_memory()
        mistakes += self._impossible_draws()
        return mistakes + self._impossible_depths() + self._impossible_exits()

    def _impossible_memory(self) -> list[str]:
        """A puzzle's vector fits the memory, which stands before the first symbol."""
        most = self.memory_tokens * self.hidden_size
        places = {"position": "rotary", "position_from": "start", "position_offset": "none"}
        mistakes = [
            f"memory_positions=True needs {name}={value}, not {getattr(self, name)}"
            for name, value in places.items()
            if self.memory_tokens and self.memory_positions and getattr(self, name) != value
        ]
        if self.memory_tokens and self.puzzle_size > most:
            mistakes.append(
                f"puzzle_size={self.puzzle_size} fills more than the memory: expected at most"
                f" memory_tokens * hidden_size = {most}"
            )
        return mistakes

    def _impossible_coordinates(self) -> list[str]:
        mistakes = []
        shifted = self.position_shift != "none"
        if shifted and not (self.position == "tensor2tensor" and self.position_every_step):
            mistakes.append(
                f"position_shift={self.position_shift} needs position=tensor2tensor and"
                f" position_every_step=True, not {self.position} and {self.position_every_step}"
            )
        if shifted and self.steps_per_position:
            mistakes.append(
                f"position_shift={self.position_shift} needs the same depth for all examples:"
                " steps_per_position=0"
            )
        concatenates = self.coordinate_form == "concat"
        if concatenates and (self.position in ("none", "rotary") or not self.position_every_step):
            mistakes.append(
                "coordinate_form=concat needs positions that are added at every step:"
                " position=paper, tensor2tensor or learned with position_every_step=True, not"
                f" {self.position} with {self.position_every_step}"
            )
        return mistakes

    def _impossible_draws(self) -> list[str]:
        drawn = f"train_depth={self.train_depth}"
        if self.train_depth == "fixed":
            if not self.backprop_steps:
                return []
            drawn = f"backprop_steps={self.backprop_steps}"
        needed = {
            "halting": ("none", self.halting),
            "steps_per_position": (0, self.steps_per_position),
            "position_shift": ("none", self.position_shift),
        }
        mistakes = [
            f"{drawn} needs one depth for all positions: {name}={value}, not {found}"
            for name, (value, found) in needed.items()
            if found != value
        ]
        return mistakes + [
            f"{drawn} takes steps in a loop, which {learned} cannot do: use {instead}"
            for learned, instead in self._learned_per_step()
        ]

    def _impossible_exits(self) -> list[str]:
        if self.eval_exit == "none":
            return []
        mistakes = []
        if self.steps_per_position:
            mistakes.append(
                f"eval_exit={self.eval_exit} and steps_per_position both set the depth: choose one"
            )
        if self.recurrence == "dwa" or self.use_memory_as_final_state:
            mistakes.append(
                f"eval_exit={self.eval_exit} needs a result that is the state of one step, not"
                " recurrence=dwa or use_memory_as_final_state=True"
            )
        reads_logits = registry.exit_rules.attribute(self.eval_exit, "reads_logits", False)
        if reads_logits and self.mix_layers_after:
            mistakes.append(
                f"eval_exit={self.eval_exit} reads the answer of every step, so no layers can"
                " follow: it needs mix_layers_after=0"
            )
        return mistakes

    def _learned_per_step(self) -> list[tuple[str, str]]:
        """Pairs in words: a part with weights for each step of training, and another choice."""
        learned = []
        if self.step_encoding == "learned":
            learned.append(("a learned step_encoding", "sinusoid or none"))
        if self.recurrence == "dwa":
            learned.append(("recurrence=dwa with its depth embeddings", "another recurrence"))
        return learned

    def _impossible_depths(self) -> list[str]:
        mistakes = []
        name = "act_max_steps" if self._halts else "num_steps"
        trained, used = getattr(self, name), getattr(self, f"eval_{name}")
        for learned, instead in self._learned_per_step():
            if used > trained:
                mistakes.append(
                    f"eval_{name}={used} is more than {name}={trained}, which {learned} cannot do:"
                    f" use {instead}"
                )
            if self.steps_per_position:
                mistakes.append(
                    f"steps_per_position makes depth depend on length, which {learned} cannot do:"
                    f" use {instead}"
                )
        return mistakes


@dataclass(frozen=True, kw_only=True)
class ConditionalUniversalTransformerConfig(UniversalTransformerConfig):
    """A Universal Transformer with a transition of its own for each step."""

    def mistakes(self) -> list[str]:
        """Every step needs a transition."""
        mistakes = super().mistakes()
        if self.recurrence in _IN_TRANSITIONS_PLACE:
            mistakes.append(
                f"recurrence={self.recurrence} takes the transition's place, and the model"
                " conditional_universal_transformer is made of transitions"
            )
        return mistakes

    def _learned_per_step(self) -> list[tuple[str, str]]:
        own = (
            "the model conditional_universal_transformer with a transition for each step",
            "a universal_transformer",
        )
        return [*super()._learned_per_step(), own]
