"""Text in, text out, with a trained model.

Example::

    translator = Translator.from_run(Run.load("runs/ende"))
    for hypotheses in translator.translate([("A dog runs.",), ("Two dogs run.",)]):
        hypotheses[0].text, hypotheses[0].score

Texts are read some batches ahead and decoded in batches of like length; answers come in the order
of the texts. Each graph is traced once, for batches of any size and length. A problem whose targets
are classes is answered by its most probable classes and their log-probabilities, a prompt of a
language model by what follows it::

    sampled = DecodeConfig(sampling=True, temperature=0.8, top_k=20)
    translator = Translator.from_run(Run.load("runs/book"), config=sampled, seed=1)
    next(translator.translate([("The cat",)]))[0].text  # " sat on the mat."
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.ensembles import load_members
from ut_tf.errors import UserError
from ut_tf.inference.answers import Answers
from ut_tf.inference.batches import (
    Example,
    Ids,
    like_length,
    positions_beside,
    stacked,
    trimmed,
)
from ut_tf.inference.cutting import cut
from ut_tf.inference.unknown_words import UnknownWords
from ut_tf.notices import warn
from ut_tf.run import Run
from ut_tf.search.config import DecodeConfig

READ_AHEAD = 16
# Texts, and their characters with padding, that become ids at once: one long text among many must
# not fill the memory.
_ENCODED_TEXTS = 256
_ENCODED_CHARACTERS = 1_000_000
# Characters of a text that are looked at, for each symbol that may be read.
_CHARACTERS_PER_SYMBOL = 32

Texts = tuple[str, ...]
# The texts of an example, and where it is scored its target.
_Given = tuple[Texts, str | None]


@dataclass(frozen=True)
class Hypothesis:
    """One output.

    Args:
      text: what the model wrote.
      score: its log-probability in nats; that of a beam search is divided by the length penalty.
    """

    text: str
    score: float


class Translator:
    """Decodes and scores texts with one model.

    Args:
      model: a built model with its weights; they may change between calls.
      codec: text form of the model's problem.
      config: how outputs are searched for; None: DecodeConfig().
      seed: of sampling: an example's outputs follow from it and from the example's number, whatever
        else is decoded beside it.
      read_ahead: batches' worth of texts that are read before the first of them is answered; 1:
        answers come soonest.
    """

    def __init__(
        self,
        model: Any,
        codec: TextCodec,
        config: DecodeConfig | None = None,
        seed: int = 0,
        read_ahead: int = READ_AHEAD,
    ) -> None:
        self.config = DecodeConfig() if config is None else config
        self.step: int | None = None
        """The step of the checkpoint that ``from_run`` read."""
        self._model = model
        self.codec = codec
        self._answers = Answers(model, codec, self.config)
        self._seed = seed
        self._at_once = max(read_ahead, 1) * self.config.batch_size
        self._classifies = model.spec.has_one_answer
        self._goes_on = model.spec.inputs == "none"
        self._keeps_end = self._classifies or self._goes_on
        self._most_outputs = {"tokens": self.config.n_best, "aligned": 1}.get(
            model.spec.targets, model.spec.target_vocab_size
        )
        texts = tf.TensorSpec([None], tf.string)
        ids = {
            "facts": tf.TensorSpec([None, None, None], tf.int32),
            "tokens": tf.TensorSpec([None, None], tf.int32),
        }
        features = {} if self._goes_on else {"inputs": ids[model.spec.inputs]}
        targets = {"targets": tf.TensorSpec([None] if self._classifies else [None, None], tf.int32)}
        self._encode = (
            _graph(self._prompts, [texts])
            if self._goes_on
            else _graph(codec.encode, [texts] * len(codec.fields))
        )
        self._encode_targets = _graph(codec.encode_targets, [texts])
        read = {"prefix": ids["tokens"]} if self._goes_on else features
        self._outputs = _graph(self._decoded, [read, tf.TensorSpec([None], tf.int32)])
        self._log_probabilities = _graph(self._answers.score, [{**features, **targets}])

    @classmethod
    def from_run(
        cls,
        run: Run,
        checkpoint: str = "best",
        config: DecodeConfig | None = None,
        seed: int = 0,
        read_ahead: int = READ_AHEAD,
    ) -> Self:
        """A translator with the weights of a run's checkpoint, from the run directory
        alone.

        Args:
          run: trained; its problem has a text form.
          checkpoint: as for ``find_checkpoint``; the moving average of the weights, where there is
            one.
          config, seed, read_ahead: as for the class.

        Raises:
          UserError: the problem has no text form, a vocabulary is missing or not the one the run
            was trained with, or there is no such checkpoint.
        """
        return cls.from_runs([run], checkpoint, config, seed, read_ahead)

    @classmethod
    def from_runs(
        cls,
        runs: Sequence[Run],
        checkpoint: str = "best",
        config: DecodeConfig | None = None,
        seed: int = 0,
        read_ahead: int = READ_AHEAD,
    ) -> Self:
        """A translator whose probabilities are the mean of those of several runs.

        Args:
          runs: trained, of one problem and one vocabulary; their models may be of any family.
          checkpoint, config, seed, read_ahead: as for ``from_run``; `step` is that of the first.

        Raises:
          UserError: as of ``from_run``, or the runs have other problems or vocabularies.
        """
        codec = runs[0].text_codec()
        check_vocabulary(codec, runs[0])
        model, steps = load_members(runs, checkpoint)
        translator = cls(model, codec, config, seed, read_ahead)
        translator.step = steps[0]
        return translator

    def translate(
        self, texts: Iterable[Texts], first: int = 1, name: str | None = "the input"
    ) -> Iterator[list[Hypothesis]]:
        """Yields the hypotheses of each example, best first, in the order of the texts and each as
        soon as its batch is done.

        Args:
          texts: the raw texts of each example, one for each of the codec's fields; of a language
            model one, the prompt, which may be empty.
          first: number of the first example, in warnings and for sampling.
          name: what the texts are, in the warnings of ``UnknownWords``. None: the caller warns.

        Yields:
          config.n_best hypotheses (of classes no more than there are, of aligned targets one). An
          example without any text gives empty ones with score 0. Where an input has more than
          config.max_input_length symbols those beyond are left out, with a warning that gives its
          number; of prompts and of inputs whose answer is a class those at the beginning. The
          hypotheses of a language model hold what follows the prompt; their scores, and the lengths
          of ``DecodeConfig``, count the prompt.

        Raises:
          UserError: what `texts` raises, once all texts before it are answered; or a prompt leaves
            no room within config.max_length.
        """
        given = ((self._fitting(columns), None) for columns in texts)
        return self._in_order(given, first, name, self._hypotheses)

    def score(
        self,
        sources: Iterable[Texts],
        targets: Iterable[str],
        first: int = 1,
        name: str | None = "the input",
    ) -> Iterator[float]:
        """Yields log p(target | source) in nats of each example, the target's end included, in
        their order.

        Args:
          sources: the raw texts of each example; empty tuples for a language model.
          targets: a text for each; an answer that is no class of the problem has the score -inf.
          first: number of the first example, in warnings.
          name: as for ``translate``.

        Raises:
          UserError: what `sources` or `targets` raises, once all texts before it are answered.
        """
        return self._in_order(zip(sources, targets, strict=True), first, name, self._scores)

    def _fitting(self, texts: Texts) -> Texts:
        fields = ("prompt",) if self._goes_on else self.codec.fields
        if len(texts) != len(fields):
            raise UserError(
                f"an example of {len(texts)} texts, expected {len(fields)}: {', '.join(fields)}."
            )
        return texts

    def _prompts(self, texts: Any) -> dict[str, Any]:
        return {"inputs": self._answers.prompts(texts)}

    def _in_order(
        self,
        given: Iterable[_Given],
        first: int,
        name: str | None,
        answer: Callable[[list[Example]], Sequence[Any]],
    ) -> Iterator[Any]:
        source, unknown = iter(given), UnknownWords(self.codec, name)
        while True:
            window, error = _read(source, self._at_once)
            unknown.see(texts for texts, _ in window)
            yield from self._window_answers(dict(enumerate(window, first)), answer)
            if error is not None or len(window) < self._at_once:
                break
            first += len(window)
        unknown.finish()
        if error is not None:
            raise error

    def _window_answers(
        self, given: dict[int, _Given], answer: Callable[[list[Example]], Sequence[Any]]
    ) -> Iterator[Any]:
        """Yields the answers to examples by number, in order; the batch with the first of them is
        done first.
        """
        blank = [
            number
            for number, (texts, target) in given.items()
            if target is None and not self._goes_on and not any(map(str.strip, texts))
        ]
        ready: dict[int, Any] = dict.fromkeys(blank, self._blank())
        waiting = iter(given)
        wanted = next(waiting, None)
        examples = self._examples(
            {number: example for number, example in given.items() if number not in ready}
        )
        batches = like_length(
            examples, self.config.batch_size, positions_beside(self._answers.rows)
        )
        for batch in [[], *batches]:
            ready.update(
                zip(
                    (example.number for example in batch),
                    answer(batch) if batch else [],
                    strict=True,
                )
            )
            while wanted in ready:
                yield ready.pop(wanted)
                wanted = next(waiting, None)

    def _examples(self, given: dict[int, _Given]) -> list[Example]:
        """The examples as ids, cut to what may be read."""
        most = _CHARACTERS_PER_SYMBOL * self.config.max_input_length
        kept = {
            number: ([self._ends(text, most) for text in texts], target)
            for number, (texts, target) in given.items()
        }
        sizes = {
            number: sum(map(len, texts)) + len(target or "")
            for number, (texts, target) in kept.items()
        }
        chunk: list[int] = []
        examples: list[Example] = []
        for number in sorted(kept, key=sizes.__getitem__):
            if (
                len(chunk) == _ENCODED_TEXTS
                or (len(chunk) + 1) * sizes[number] > _ENCODED_CHARACTERS
            ):
                examples += self._encoded({number: kept[number] for number in chunk})
                chunk = []
            chunk.append(number)
        return examples + self._encoded({number: kept[number] for number in chunk})

    def _encoded(self, given: dict[int, tuple[list[str], str | None]]) -> list[Example]:
        if not given:
            return []
        numbers = list(given)
        columns = [
            _strings(column) for column in zip(*(texts for texts, _ in given.values()), strict=True)
        ]
        inputs = (
            self._encode(*columns)["inputs"].numpy()
            if columns
            else np.zeros([len(given), 1], np.int32)
        )
        wanted = [target for _, target in given.values() if target is not None]
        targets = self._encode_targets(_strings(wanted)).numpy() if wanted else [None] * len(given)
        return [self._fitted(*row) for row in zip(numbers, inputs, targets, strict=True)]

    def _fitted(self, number: int, inputs: Ids, targets: Ids | None) -> Example:
        """An example with at most max_input_length symbols of each side; of facts with the
        words that the model can read.
        """
        inputs = (
            trimmed(inputs[:, : self._model.spec.max_words])
            if inputs.ndim == 2
            else trimmed(inputs)
        )
        targets = trimmed(targets) if targets is not None and targets.ndim else targets
        what = "prompt" if self._goes_on else "input"
        inputs = self._cut(f"{what} {number}", inputs, keep_end=self._keeps_end)
        room = self.config.longest
        if self._goes_on and targets is None and room and len(inputs) >= room:
            raise UserError(
                f"prompt {number} has {len(inputs)} symbols, and an output has at most {room},"
                " the prompt's included: shorten it, raise max_length, or give extra_length."
            )
        if targets is not None:
            targets = self._cut(f"target {number}", targets)
        return Example(number, inputs, targets)

    def _cut(self, what: str, ids: Ids, keep_end: bool = False) -> Ids:
        """Symbols [length] without those beyond max_input_length, with a warning; others as they
        are.
        """
        most = self.config.max_input_length
        if ids.ndim != 1 or len(ids) <= most:
            return ids
        warn(
            f"{what} has more than max_input_length={most} symbols: the"
            f" {'first' if keep_end else 'last'} ones are left out."
        )
        kept: Ids = ids[-most:] if keep_end else cut(ids[np.newaxis], most)[0].numpy()
        return kept

    def _ends(self, text: str, most: int) -> str:
        return text[-most:] if self._keeps_end else text[:most]

    def _blank(self) -> list[Hypothesis]:
        return [Hypothesis("", 0.0)] * min(self.config.n_best, self._most_outputs)

    def _hypotheses(self, batch: list[Example]) -> list[list[Hypothesis]]:
        numbers = np.array([example.number % 2**31 for example in batch], np.int32)
        features = stacked(batch)
        if self._goes_on:
            features = {"prefix": features["inputs"]}
        texts, scores = (values.numpy() for values in self._outputs(features, numbers))
        return [
            [
                Hypothesis(text.decode("utf-8", errors="replace"), float(score))
                for text, score in zip(*pair, strict=True)
            ]
            for pair in zip(texts, scores, strict=True)
        ]

    def _scores(self, batch: list[Example]) -> list[float]:
        features = stacked(batch)
        if self._goes_on:
            del features["inputs"]
        return [float(value) for value in self._log_probabilities(features).numpy()]

    def _decoded(self, features: dict[str, Any], numbers: Any) -> tuple[Any, Any]:
        """Texts and scores of a batch, [batch, n_best] each; `numbers` int32 [batch] are those of
        its examples.
        """
        if self._classifies:
            return self._answers.classify(features, len(self._blank()))
        return self._answers.decode(features, self._seed % 2**31, numbers)


def _graph(function: Callable[..., Any], signature: list[Any]) -> Any:
    # Nothing here is written in Python's own loops and conditions, whose conversion takes longer
    # than all the rest of tracing.
    graph = tf.function(function, input_signature=signature, autograph=False)

    def call(*arguments: Any) -> Any:
        # Every translator has graphs of its own; where their calls traced them, TensorFlow would
        # warn of retracing after a few translators.
        if not tf.config.functions_run_eagerly():
            graph.get_concrete_function()
        return graph(*arguments)

    return call


def _read(source: Iterator[_Given], count: int) -> tuple[list[_Given], UserError | None]:
    """The next examples, at most `count`, and the error that kept it from reading on."""
    window: list[_Given] = []
    try:
        for _ in range(count):
            window.append(next(source))
    except StopIteration:
        pass
    except UserError as error:
        return window, error
    return window, None


def _strings(texts: Iterable[str]) -> Any:
    return tf.constant([text.encode("utf-8", errors="replace") for text in texts], tf.string)


def check_vocabulary(codec: TextCodec, run: Run) -> None:
    """Raises UserError where the codec's vocabularies have other sizes than those that the run was
    trained with.
    """
    assert run.spec is not None
    trained = (run.spec.input_vocab_size, run.spec.target_vocab_size)
    if codec.vocab_sizes is not None and codec.vocab_sizes != trained:
        raise UserError(
            f"the vocabulary in {run.vocab_dir} has {' and '.join(map(str, codec.vocab_sizes))} ids"
            f" (inputs and targets), the run was trained with {' and '.join(map(str, trained))}:"
            " put back the files that ut-trainer wrote there."
        )
