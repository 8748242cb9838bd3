"""The Universal Transformer (arXiv 1807.03819): one block, repeated over all positions in parallel.

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = UniversalTransformer(UniversalTransformerConfig(halting="basic"), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]
    logits, details = model({"inputs": inputs, "targets": targets}, return_details=True)
    details.encoder.ponder_times                                                  # [batch, length]

How it works: its encoder and decoder are each a ``Recurrence``, or a ``MixedStack`` where other
layers stand around it; all else it shares with the other models (``attention_model.py``).
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.layers.block_cached import PositionContext
from ut_tf.layers.linear import Linear
from ut_tf.layers.recurrence_details import GivenDepth, RecurrenceDetails
from ut_tf.models.attention_model import AttentionModel
from ut_tf.models.interfaces import CallOptions
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.halting.base import Halting
from ut_tf.models.universal_transformer.halting.pondernet import expected_scores
from ut_tf.models.universal_transformer.mixed import MixedStack
from ut_tf.models.universal_transformer.noise import example_keys, mixed
from ut_tf.models.universal_transformer.parts import make_stack
from ut_tf.models.universal_transformer.recurrence import Recurrence
from ut_tf.models.universal_transformer.restarts import Verifier, chosen, restart_numbers, tiled
from ut_tf.models.universal_transformer.speculation import DraftingStepper


@keras.saving.register_keras_serializable("ut_tf")
class UniversalTransformer(AttentionModel):
    """A Universal Transformer for a problem's inputs and targets; arguments and call as in
    ``AttentionModel``.
    """

    config_class: ClassVar[type] = UniversalTransformerConfig
    with_step_transitions: ClassVar[bool] = False
    verifier: Verifier | None = None
    """The check of ``eval_select="verifier"``, from the problem."""

    def make_parts(self) -> None:
        super().make_parts()
        # For calls without the number of the update, as in ``fit``.
        self.noise_seeds = keras.random.SeedGenerator() if self._draws_states else None
        self.num_puzzles = self.network.num_puzzles if self.network.memory_tokens else 0
        if self.network.prediction_feedback:
            # At first there is none.
            policy = self.dtype_policy.name
            width = self.network.hidden_size
            self.feedback = Linear(width, False, "zeros", name="feedback", dtype=policy)
            self.feedback.build((None, self.spec.target_vocab_size))

    def call_features(self, features: dict[str, Any], training: bool) -> dict[str, Any]:
        if training and self.network.train_exit and "every_step" not in features:
            raise UserError(
                "`train_exit` lets positions exit in a training with a loss at each step: set"
                " supervision=each, or leave it out."
            )
        restarts = self.network.eval_restarts
        if training or restarts == 1 or "restart" in features:
            return features
        return {**features, "restart": self._best_restart(features, restarts)}

    def _best_restart(self, features: Mapping[str, Any], restarts: int) -> Any:
        """Returns int64 [batch], the restart that ``eval_select`` chooses."""
        select = self.network.eval_select
        if select == "verifier" and self.verifier is None:
            raise UserError(
                "eval_select=verifier needs a problem that checks answers, such as sudoku_4x4:"
                " choose residual, q or vote."
            )
        batch = tf.shape(features["inputs"])[0]
        depth = GivenDepth(tf.constant(self.max_steps(training=False)))
        several = tiled(features, restarts)
        further = {"restart": restart_numbers(batch, restarts), "to_depth": depth}
        logits, details = self.call({**several, **further}, return_details=True)
        rows = chosen(select, restarts, logits, details.encoder, several, self.verifier)
        return tf.cast(rows // batch, tf.int64)

    def example_keys(self, ids: Any, options: CallOptions) -> Any:
        if not self._draws_states:
            return None
        if not options.training:
            restart = 0 if options.restart is None else options.restart
            return example_keys(ids, mixed(self.network.eval_noise_seed) + restart)
        seed = options.update
        if seed is None:
            assert self.noise_seeds is not None
            seed = tf.cast(self.noise_seeds.next(), tf.int64)
        return example_keys(ids, example_keys(seed[None], 0)[0])

    @property
    def _draws_states(self) -> bool:
        return self._of_initial_state("draws")

    def _of_initial_state(self, attribute: str) -> bool:
        return bool(registry.initial_states.attribute(self.network.initial_state, attribute, False))

    def mistakes(self) -> list[str]:
        mistakes, network = super().mistakes(), self.network
        if network.steps_per_position and not self.has_encoder:
            mistakes.append(
                f"steps_per_position={network.steps_per_position} makes depth follow from the"
                " inputs' length, and a language model has no inputs: set it to 0"
            )
        if self._exits_read_logits and self.spec.has_one_answer:
            mistakes.append(
                f"eval_exit={network.eval_exit} reads what each position answers, and here an"
                f" example has one answer (a {self.spec.targets}): use"
                " eval_exit=state_difference, acceleration or cosine"
            )
        if network.prediction_feedback and self.spec.targets != "aligned":
            mistakes.append(
                "prediction_feedback=True needs an answer at each position of the inputs, as of"
                f" Sudoku, and this problem has targets={self.spec.targets!r}: leave it out"
            )
        if network.eval_exit == "q" and not network.q_head:
            mistakes.append("eval_exit=q reads Q values: it needs q_head=True")
        if network.eval_restarts > 1 and (self.has_decoder or not self._draws_states):
            mistakes.append(
                f"eval_restarts={network.eval_restarts} needs initial_state=noise and a problem"
                " without a decoder: set it to 1"
            )
        if network.eval_restarts > 1 and network.eval_select == "q" and not network.q_head:
            mistakes.append("eval_select=q needs q_head=True: choose residual or vote")
        if network.eval_restarts > 1:
            needed = {"recurrence": "basic", "position_shift": "none", "steps_per_position": 0}
            # The state of what has stopped does not move.
            if network.eval_select in ("residual", "verifier"):
                needed |= {"halting": "none", "eval_exit": "none"}
            mistakes += [
                f"eval_restarts={network.eval_restarts} with eval_select={network.eval_select}"
                f" needs {name}={value}, not {getattr(network, name)}"
                for name, value in needed.items()
                if getattr(network, name) != value
            ]
        if network.memory_tokens and not self.has_encoder:
            mistakes.append(
                f"memory_tokens={network.memory_tokens} stand in front of an encoder's inputs, and"
                " here are none: set it to 0"
            )
        if self.has_decoder or not self.has_encoder:
            mistakes += [
                f"{name}={getattr(network, name)} is of an encoder that is answered from, and here"
                " is a decoder: leave it out"
                for name, usual in (("attention", True), ("mix_positions", 0), ("q_head", False))
                if getattr(network, name) != usual
            ]
        return mistakes

    @property
    def supports_incremental_decoding(self) -> bool:
        """Whether ``decode_step`` equals the whole sequence: not where depth or positions depend on
        all positions together, or depth on chance.
        """
        return (
            self.has_decoder
            and self._halting().works_incrementally
            and not self.network.steps_per_position
            and not self.network.H_cycles
            and (not self._draws_states or self._of_initial_state("by_position"))
            and self.network.position_shift == "none"
        )

    def drafting_stepper(self, draft_steps: int) -> DraftingStepper:
        return DraftingStepper(self, draft_steps)

    def span_context(
        self, places: Any, examples: dict[str, Any], weights: dict[str, Any]
    ) -> tuple[Any, PositionContext]:
        """The position signal and the context of symbols at places, int32 [batch, count]."""
        table = weights.get("positions")
        return self._position_inputs.span_context(places, examples, table)

    @property
    def ponder_weight(self) -> float | None:
        return self._halting().loss_weight

    @property
    def padding_ponders(self) -> bool:
        return self._halting().padding_ponders

    @property
    def expects_scores(self) -> bool:
        return self._halting().trains_all_steps

    def ponder_remedy(self, few: bool) -> str | None:
        return self._halting().remedy(few)

    def has_ponder_cost(self, training: bool) -> bool:
        return self._halting().has_cost(training)

    @property
    def sees_later_targets(self) -> bool:
        """Whether the halting form does (global_mean="sequence")."""
        return self.has_decoder and self._halting().sees_later_positions

    @property
    def goes_deeper(self) -> bool:
        """Whether a call takes the feature "to_depth", a ``GivenDepth``."""
        stacks = [getattr(self, name, None) for name in ("encoder", "decoder")]
        recurrences = [getattr(stack, "recurrence", stack) for stack in stacks if stack is not None]
        one_depth = not self.network.steps_per_position and self.network.eval_restarts == 1
        return one_depth and all(part.goes_deeper for part in recurrences)

    @property
    def halts(self) -> bool:
        """Whether positions stop at different steps at inference."""
        return self._halting().dynamic or self.network.eval_exit != "none"

    def max_steps(self, training: bool) -> int:
        return self._halting().max_steps(training)

    def make_stack(self, causal: bool, with_memory: bool, name: str) -> Recurrence | MixedStack:
        """The stack between embedding and head: a recurrence, with the layers around it."""
        return make_stack(
            self.network,
            causal,
            with_memory,
            with_step_transitions=self.with_step_transitions,
            with_step_outputs=causal or not self.has_decoder,
            with_position_outputs=causal or self.spec.targets == "aligned",
            name=name,
            dtype=self.dtype_policy,
        )

    def example_steps(self, lengths: Any, training: bool) -> Any | None:
        """Returns int32 [batch], the depth of each example by Appendix B, or None at one depth for
        all.
        """
        if not self.network.steps_per_position:
            return None
        base = self._halting().max_steps(training)
        return base + tf.cast(tf.math.ceil(self.network.steps_per_position * lengths), tf.int32)

    def answer(
        self, head: Callable[[Any], Any], states: Any, details: RecurrenceDetails | None
    ) -> tuple[Any, tuple[Any, ...] | None]:
        """The logits of the states, and the log-probabilities after each step, if known. Where the
        model ``expects_scores``, in training: the expected log-probabilities Σ_n p_n log
        softmax(y_n) over the steps, whose cross entropy, not normalised again, is PonderNet's
        expected loss.
        """
        if details is None or details.step_states is None:
            return head(states), None
        return expected_scores(details.log_shares, details.step_states, head)

    def carry_like(self, ids: Any) -> Any:
        """Returns a carry of zeros for the encoder's recurrence, of the size that inputs int32
        [batch, length] need.
        """
        size = tf.shape(ids)
        extra = self.network.memory_tokens + int(self.start_symbol is not None)
        width = self.network.hidden_size
        length = None if ids.shape[1] is None else ids.shape[1] + extra
        zeros = tf.zeros(tf.stack([size[0], size[1] + extra, width]), self.compute_dtype)
        zeros = tf.ensure_shape(zeros, [ids.shape[0], length, width])
        recurrence = getattr(self.encoder, "recurrence", self.encoder)
        return tuple(recurrence.recurrent_step.start(zeros))

    @property
    def has_step_answers(self) -> bool:
        """Whether a supervision may ask for the answer after each step."""
        network = self.network
        return not (
            self._halting().dynamic
            or network.train_depth != "fixed"
            or network.backprop_steps
            or network.steps_per_position
            or network.mix_layers_after
            or network.recurrence == "dwa"
        )

    @property
    def _exits_read_logits(self) -> bool:
        rule = self.network.eval_exit
        return bool(registry.exit_rules.attribute(rule, "reads_logits", False))

    def _halting(self) -> Halting:
        """The halting form of the last stack; the encoder's is the same but for information that a
        decoder may not see.
        """
        stack = self.decoder if self.has_decoder else self.encoder
        halting: Halting = stack.halting_unit
        return halting
