"""One run's model as it works on examples: reads text, answers, and shows its steps.

How it is used::

    thinker = Thinker.from_run(Run.load("runs/babi"))
    (given,) = thinker.read("1 Mary moved to the hall.\\n2 Where is Mary?", "the input")
    thinker.think(given)["answer"]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import tensorflow as tf

from ut_tf.data.example_table import trim_batch
from ut_tf.data.problem import Problem
from ut_tf.data.text.codec import TextCodec, string_tensor
from ut_tf.data.text.utf8 import readable
from ut_tf.errors import UserError
from ut_tf.inference.asked import Asked
from ut_tf.inference.reading import Reader, refuse_puzzles
from ut_tf.inference.translator import check_vocabulary
from ut_tf.inference.unknown_words import UnknownWords
from ut_tf.insights.encoding import encoded_attention, rounded
from ut_tf.insights.exits import exit_steps, make_rules
from ut_tf.insights.observed import Observed, PartSteps, observe
from ut_tf.insights.positions import (
    IdCodec,
    input_positions,
    target_positions,
    texts_of,
    with_difficulty,
)
from ut_tf.insights.story_lines import story_lines
from ut_tf.models.encoder_decoder import EncoderDecoder
from ut_tf.models.universal_transformer.exit_rules import ExitRule
from ut_tf.notices import warn
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import decode
from ut_tf.symbols import END_ID

MOST_POSITIONS = 512
"""Symbols, facts or words that an input may have."""
_MOST_READ = 1_000_000
_CHOICES = 3
# Outputs that are written before the search becomes a graph.
_EAGER = 4


@dataclass(frozen=True)
class Given:
    """An example.

    Args:
      features: a batch of one example without padding, numpy arrays: "inputs", of a language model
        "targets"; "puzzles" of a problem that has them.
      text: as the problem's codec reads it.
      target: the right answer as text; None: unknown.
      difficulty: steps of the known algorithm until the answer at each input is known, int32
        [length] or without zeros at its end; None: unknown.
    """

    features: dict[str, np.ndarray]
    text: str
    target: str | None = None
    difficulty: np.ndarray | None = None


class Thinker:
    """A trained model that shows its steps.

    Args:
      run: trained; as ``Run.load`` gives it.
      model: the run's, with its weights.
      step: of the checkpoint.

    Raises:
      UserError: the model shows nothing of itself, or a vocabulary is not the one that the run was
        trained with.
    """

    def __init__(self, run: Run, model: Any, step: int) -> None:
        if not isinstance(model, EncoderDecoder):
            raise UserError(
                f"the model {run.hparams.model} is a {type(model).__name__}: insights need one"
                " derived from ut_tf.models.encoder_decoder.EncoderDecoder."
            )
        self.run = run
        self.model: Any = model
        self.step = step
        self.problem = run.make_problem()
        has_text = type(self.problem).text_codec is not Problem.text_codec
        self.codec: TextCodec = run.text_codec() if has_text else IdCodec(run.problem)
        check_vocabulary(self.codec, run)
        # Here an example that is too long is refused.
        everything = DecodeConfig(max_input_length=_MOST_READ)
        self._reader = Reader(self.codec, model.spec, everything)
        self.rules: dict[str, ExitRule] = make_rules(run)
        self._decoded = 0
        rank = 2 if model.spec.inputs == "facts" else 1
        shape = tf.TensorSpec([1] + [None] * rank, tf.int32)
        self._graph = tf.function(self._greedy, input_signature=[shape], autograph=False)

    @classmethod
    def from_run(cls, run: Run, checkpoint: str = "best") -> Self:
        """A thinker with the weights of a run's checkpoint; arguments and errors as of
        ``load_model``.
        """
        model = run.make_model()
        return cls(run, model, restore_weights(model, run, checkpoint))

    @property
    def is_language_model(self) -> bool:
        """Whether the model has no inputs."""
        return not self.model.has_encoder

    def read(self, text: str, name: str, single: bool = False) -> list[Given]:
        """The examples in lines of text, as ut-decoder reads them; of a language model each line is
        a text. Sentences of stories need no numbers.

        Args:
          text: lines.
          name: where they come from, for messages.
          single: whether there may be no more than one example.

        Raises:
          UserError: a line is not of the problem's format, has nothing to read, or too much; or
            the model answers by the number of a puzzle.
        """
        refuse_puzzles(self.model)
        text = readable(text)
        lines = text.rstrip("\n").split("\n")
        sources: list[tuple[str, ...]]
        if self.is_language_model:
            sources = [(line,) for line in self.codec.read_targets(lines, name) if line.strip()]
        else:
            sources = [
                texts for texts in self.codec.read(lines, name) if any(map(str.strip, texts))
            ]
        if not sources:
            raise UserError(f"{name} has no example to read: expected {self.hint}.")
        if single and len(sources) > 1:
            raise UserError(f"{name} has {len(sources)} examples: give one at a time.")
        UnknownWords(self.codec, name).see(sources)
        if len(sources) == 1:
            reads_stories = self.model.spec.inputs == "facts"
            whole = "\n".join(story_lines(text) if reads_stories else lines)
            return [self._encoded(sources[0], name, whole.strip())]
        return [self._encoded(texts, name) for texts in sources]

    @property
    def hint(self) -> str:
        """What an input looks like, in a few words."""
        if self.model.spec.inputs == "facts":
            return 'sentences, and a question that ends with "?" after them'
        fields = self.codec.fields
        if len(fields) > 1:
            return f"a line with {', a tab, '.join(fields)}"
        if self.is_language_model:
            return "a line of text, each symbol of which the model guesses from those before it"
        lines = "a line of text as the problem has it"
        if self.codec.board is not None:
            lines = "the cells of a board in a line, row by row, a point for each blank one"
        return f'{lines}, such as "{self.codec.sample}"' if self.codec.sample else lines

    def given(self, features: dict[str, Any]) -> Given:
        """An example of the problem's data; `features` without padding, "inputs" and "targets"."""
        batch: dict[str, np.ndarray] = {
            name: np.asarray(features[name])[np.newaxis]
            for name in ("inputs", "targets", "puzzles")
            if name in features
        }
        if self.is_language_model:
            symbols = self._symbols(batch["targets"][0])
            text = self.codec.input_text(symbols)
            return Given({"targets": batch["targets"]}, text, symbols[-1])
        inputs = {name: value for name, value in batch.items() if name != "targets"}
        targets = batch["targets"]
        if self.model.spec.targets == "aligned":
            # What is asked for may begin late and end early.
            missing = max(inputs["inputs"].shape[1] - targets.shape[1], 0)
            targets = np.pad(targets, [(0, 0), (0, missing)])
            targets = Asked(self.codec, inputs["inputs"]).answer(targets).numpy()
        (target,) = self._labels(targets)
        text = self.codec.input_text(texts_of(self.codec.tokens(inputs)[0]))
        return Given(inputs, text, target, features.get("position_difficulty"))

    def think(self, given: Given) -> dict[str, Any]:
        """The answer to an example and the steps towards it, a "Thought" of the document."""
        features = given.features
        if self.model.has_encoder and self.model.has_decoder:
            features = {**features, "targets": self._written(features)}
        observed = observe(self.model, {name: tf.constant(x) for name, x in features.items()})
        answer, probability = self._answer(observed, features)
        return {
            "answer": answer,
            "probability": probability,
            "correct": self._is_correct(answer, given, observed.logits),
            "parts": self._parts(observed, features, given.difficulty),
        }

    def _encoded(self, texts: tuple[str, ...], name: str, text: str | None = None) -> Given:
        """The example with these raw texts; `text` is the whole input where it holds no other."""
        columns = [string_tensor([text]) for text in texts]
        if self.is_language_model:
            features = trim_batch({"targets": self.codec.encode_targets(*columns)})
        else:
            reading = self._reader.inputs(*columns)
            for warning in texts_of(reading.warnings):
                if warning:
                    warn(f"{name} {warning}.")
            features = trim_batch({"inputs": reading.ids})
        arrays = {key: np.asarray(value) for key, value in features.items()}
        (ids,) = arrays.values()
        if not 0 < ids.shape[1] <= MOST_POSITIONS:
            raise UserError(
                f"{name}: an example of {ids.shape[1]} symbols or facts, expected 1 to"
                f" {MOST_POSITIONS}; give a {'shorter' if ids.shape[1] else 'longer'} one."
            )
        if self.is_language_model:
            # What follows the end of a text is unknown.
            last = None if ids[0, -1] == END_ID else self._symbols(ids[0, -1:])[0]
            return Given(arrays, texts[0], last)
        if text is None:
            text = self.codec.input_text(texts_of(self.codec.tokens(arrays)[0]))
        return Given(arrays, text)

    def _written(self, features: dict[str, np.ndarray]) -> np.ndarray:
        """The greedy output, int32 [1, length], up to its end; without one as long as the search
        lets it become.
        """
        self._decoded += 1
        # Tracing the search takes as long as a few outputs take without it.
        write = self._graph if self._decoded > _EAGER else self._greedy
        symbols: np.ndarray = write(tf.constant(features["inputs"])).numpy()
        ends = np.flatnonzero(symbols <= END_ID)
        length = len(symbols)
        if len(ends):
            length = int(ends[0]) + int(symbols[ends[0]] == END_ID)
        return symbols[np.newaxis, : max(length, 1)]

    def _greedy(self, inputs: Any) -> Any:
        """The greedy output, int32 [length], of inputs with one example."""
        return decode(self.model, {"inputs": inputs}, DecodeConfig(beam_size=1)).symbols[0, 0]

    def _answer(self, observed: Observed, features: dict[str, np.ndarray]) -> tuple[str, float]:
        """The model's answer as text, and its probability: of a language model the last symbol that
        it would write, after those before it.
        """
        scores = tf.nn.log_softmax(observed.logits).numpy()
        if not np.isfinite(scores.max()):
            raise UserError(
                "the model answers with numbers that are not finite: its training diverged, or the"
                " checkpoint is damaged; give another `checkpoint`."
            )
        if self.model.spec.targets == "aligned":
            best, symbols = scores.max(-1), scores.argmax(-1).astype(np.int32)
            asked = Asked(self.codec, features["inputs"])
            kept = asked.answered(asked.first(symbols[np.newaxis])).numpy()
            log_probability = asked.first(best[np.newaxis]).numpy()[kept].sum()
            answer = self._labels(asked.answer(symbols[np.newaxis]).numpy())[0]
            return answer, rounded(np.exp(log_probability))
        if not self.model.has_decoder:
            best = scores.argmax()
            return self._labels(np.array([best]))[0], rounded(np.exp(scores[best]))
        if self.is_language_model:
            last = scores[-1]
            return self._symbols(np.array([last.argmax()]))[0], rounded(np.exp(last.max()))
        (targets,) = features["targets"]
        log_probability = np.take_along_axis(scores, targets[:, None], 1).sum()
        (text,) = texts_of(self.codec.decode(tf.constant(features["targets"])))
        return text, rounded(np.exp(log_probability))

    def _is_correct(self, answer: str, given: Given, logits: Any) -> bool | None:
        """By the rules of the problem, where it has some; None where the answer is unknown, or one
        of many right ones (a translation).
        """
        target = given.target
        if self.problem.solves is not None and self.model.spec.targets == "aligned":
            answers = tf.argmax(logits, -1, output_type=tf.int32)[tf.newaxis]
            return bool(self.problem.solves(given.features, answers)[0])
        if target is None:
            return None
        writes = self.model.has_encoder and self.model.has_decoder
        sets = self.problem.evaluation_sets() if writes else []
        if any(evaluation_set.method == "translate" for evaluation_set in sets):
            return None
        return answer == target

    def _parts(
        self, observed: Observed, features: dict[str, np.ndarray], difficulty: np.ndarray | None
    ) -> list[dict[str, Any]]:
        parts, spec = [], self.model.spec
        if observed.encoder is not None:
            steps = observed.encoder
            starts = int(getattr(self.model, "start_symbol", None) is not None)
            positions = input_positions(
                self.codec, features, len(steps.ponder_times), steps.memory_size, starts
            )
            if difficulty is not None and spec.targets == "aligned":
                positions = with_difficulty(positions, difficulty)
            label = "source" if self.model.has_decoder else "text"
            label = "facts and question" if spec.inputs == "facts" else label
            label = "board" if self.codec.board is not None else _in_order(label, self.codec.order)
            logits = () if self.model.has_decoder else observed.step_logits
            part = self._part("encoder", label, positions, steps, logits)
            if spec.targets == "aligned":
                first = steps.memory_size + starts
                part["predictions"] = self._asked_only(part["predictions"], features, first)
            answered = observed.step_logits if spec.targets == "aligned" else ()
            parts.append({**part, "exit_steps": exit_steps(self.rules, steps, answered)})
        if observed.decoder is not None:
            steps = observed.decoder
            positions = target_positions(
                self.codec, features["targets"][0], len(steps.ponder_times), steps.memory_size
            )
            label = "text" if self.is_language_model else "output"
            label = _in_order(label, self.codec.target_order or self.codec.order)
            part = self._part("decoder", label, positions, steps, observed.step_logits)
            exits = exit_steps(self.rules, steps, observed.step_logits)
            parts.append({**part, "exit_steps": exits})
        return parts

    def _part(
        self,
        name: str,
        label: str,
        positions: list[dict[str, Any]],
        steps: PartSteps,
        step_logits: Sequence[Any],
    ) -> dict[str, Any]:
        numbers = zip(rounded(steps.ponder_times), rounded(steps.remainders), strict=True)
        probabilities, changes = steps.halting_probabilities, steps.state_changes
        low_changes = steps.low_state_changes
        board = self.codec.board if name == "encoder" else None
        return {
            "name": name,
            "label": label,
            "steps": steps.steps,
            "max_steps": max(steps.steps, self._max_steps(name)),
            "positions": [
                {**position, "ponder_time": time, "remainder": remainder}
                for position, (time, remainder) in zip(positions, numbers, strict=True)
            ],
            "halting_probability": None if probabilities is None else rounded(probabilities),
            "state_change": None if changes is None else rounded(changes),
            "low_state_change": None if low_changes is None else rounded(low_changes),
            **dict(zip(("residual", "low_residual"), _residuals(steps), strict=True)),
            "q_halt": None if steps.q_halt is None else rounded(steps.q_halt),
            "attention": encoded_attention(steps.attention),
            "memory_attention": encoded_attention(steps.memory_attention),
            "predictions": self._predictions(step_logits, steps.memory_size),
            "board": None if board is None else board._asdict(),
        }

    def _max_steps(self, name: str) -> int:
        """The most steps that a part of a Universal Transformer takes; 0 of other models."""
        stack = getattr(self.model, name, None)
        recurrence = getattr(stack, "recurrence", stack)
        unit = getattr(recurrence, "halting_unit", None)
        return 0 if unit is None else int(unit.max_steps(training=False))

    def _predictions(
        self, step_logits: Sequence[Any], memory_size: int
    ) -> list[list[list[dict[str, Any]]]] | None:
        """The most probable answers after each step, best first: one list of them for a classifier,
        and one for each position of a decoder or of aligned targets.
        """
        if not step_logits:
            return None
        logits = tf.stack(step_logits).numpy()
        if logits.ndim == 2:
            logits = logits[:, np.newaxis]
        scores, best = tf.math.top_k(tf.nn.softmax(logits), min(_CHOICES, logits.shape[-1]))
        distinct, places = np.unique(best.numpy(), return_inverse=True)
        written = self._labels if self.model.spec.has_one_answer else self._symbols
        texts = np.array(written(distinct), object)[places.reshape(best.shape)]
        choices = [
            [
                [
                    {"text": text, "probability": probability}
                    for text, probability in zip(*position, strict=True)
                ]
                for position in zip(*step, strict=True)
            ]
            for step in zip(texts.tolist(), rounded(scores), strict=True)
        ]
        # Nothing is answered from learned memory.
        empty: list[dict[str, Any]] = []
        padding = [] if self.model.spec.has_one_answer else [empty] * memory_size
        return [[*padding, *step] for step in choices]

    def _asked_only(
        self, predictions: Any, features: dict[str, np.ndarray], first: int
    ) -> list[list[list[dict[str, Any]]]] | None:
        """The predictions of aligned targets, none at symbols that ask for no answer; `first` is
        the place of the first symbol.
        """
        is_asked = np.asarray(self.codec.asked(features["inputs"]))[0].tolist()
        kept = [*[True] * first, *is_asked]
        return predictions and [
            [choices if is_kept else [] for choices, is_kept in zip(step, kept, strict=True)]
            for step in predictions
        ]

    def _labels(self, ids: np.ndarray) -> list[str]:
        """Texts of classes, of words that a pointer answers with, or of rows of aligned targets."""
        return texts_of(self.codec.decode(tf.constant(ids, tf.int32)))

    def _symbols(self, ids: np.ndarray) -> list[str]:
        """The texts of target symbols."""
        return texts_of(self.codec.target_tokens(tf.constant(ids[np.newaxis], tf.int32))[0])


def _residuals(steps: PartSteps) -> list[list[float | None] | None]:
    """The residuals of the state and of the low state, by step."""
    levels = [] if steps.residuals is None else steps.residuals.tolist()
    # They fall over many powers of ten.
    known = [[None if value != value else float(f"{value:.4g}") for value in x] for x in levels]
    return [*known, None, None][:2]


def _in_order(label: str, order: str) -> str:
    """A part's label with the order of its symbols, where that is not the reader's."""
    return f"{label} ({order})" if order else label
