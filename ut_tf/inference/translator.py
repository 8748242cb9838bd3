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

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.inference.answers import Answers
from ut_tf.inference.batches import Example, like_length, positions_beside, stacked
from ut_tf.inference.example_reader import ExampleReader, Given, ReadExample
from ut_tf.inference.graphs import graph
from ut_tf.inference.unknown_words import UnknownWords
from ut_tf.notices import warn
from ut_tf.run import Run
from ut_tf.run_weights import load_checkpoint
from ut_tf.search.config import DecodeConfig

READ_AHEAD = 16


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
        self._most_outputs = {"tokens": self.config.n_best, "aligned": 1}.get(
            model.spec.targets, model.spec.target_vocab_size
        )
        ids = {
            "facts": tf.TensorSpec([None, None, None], tf.int32),
            "tokens": tf.TensorSpec([None, None], tf.int32),
        }
        features = {} if self._goes_on else {"inputs": ids[model.spec.inputs]}
        targets = {"targets": tf.TensorSpec([None] if self._classifies else [None, None], tf.int32)}
        self._reader = ExampleReader(codec, model.spec, self.config)
        read = {"prefix": ids["tokens"]} if self._goes_on else features
        self._outputs = graph(self._decoded, [read, tf.TensorSpec([None], tf.int32)])
        self._log_probabilities = graph(self._answers.score, [{**features, **targets}])

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
        codec = run.text_codec()
        loaded = load_checkpoint(run, checkpoint)
        check_vocabulary(codec, run)
        translator = cls(loaded.model, codec, config, seed, read_ahead)
        translator.step = loaded.step
        return translator

    def translate(
        self, texts: Iterable[Any], first: int = 1, name: str | None = "the input"
    ) -> Iterator[list[Hypothesis]]:
        """Yields the hypotheses of each example, best first, in the order of the texts and each as
        soon as its batch is done.

        Args:
          texts: the raw texts of each example, one for each of the codec's fields; of a language
            model one, the prompt, which may be empty. Of one field a text will do, and the
            sentences of a story may be a list.
          first: number of the first example, in messages and for sampling.
          name: what the texts are, in messages. None: the caller warns of unknown words.

        Yields:
          config.n_best hypotheses (of classes no more than there are, of aligned targets one). An
          example without any text gives empty ones with score 0. Where an input has more than
          config.max_input_length symbols those beyond are left out, with a warning that gives its
          number; of prompts and of inputs whose answer is a class those at the beginning. The
          hypotheses of a language model hold what follows the prompt; their scores, and the lengths
          of ``DecodeConfig``, count the prompt.

        Raises:
          UserError: what `texts` raises, once all texts before it are answered; likewise where an
            example cannot be read (``TextCodec.errors``), is no text, or is a prompt that leaves no
            room within config.max_length.
        """
        if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            raise UserError(
                f"`texts`={texts!r:.80}: expected a list of examples, such as ['a text']."
            )
        given = ((self._reader.texts_of(example), None) for example in texts)
        return self._in_order(given, first, name, self._hypotheses)

    def score(
        self,
        sources: Iterable[Any],
        targets: Iterable[str],
        first: int = 1,
        name: str | None = "the input",
    ) -> Iterator[float]:
        """Yields log p(target | source) in nats of each example, the target's end included, in
        their order.

        Args:
          sources: the raw texts of each example, as for ``translate``; of a language model they do
            not count.
          targets: a text for each; an answer that is no class of the problem has the score -inf.
          first: number of the first example, in messages.
          name: as for ``translate``.

        Raises:
          UserError: what `sources` or `targets` raises, once all texts before it are answered;
            likewise where one cannot be read, or a target has more than config.max_input_length
            symbols.
        """
        reader, pairs = self._reader, zip(sources, targets, strict=True)
        given = (
            (() if self._goes_on else reader.texts_of(source), reader.target_of(target))
            for source, target in pairs
        )
        return self._in_order(given, first, name, self._scores)

    def _in_order(
        self,
        given: Iterable[Given],
        first: int,
        name: str | None,
        answer: Callable[[list[Example]], Sequence[Any]],
    ) -> Iterator[Any]:
        source, unknown = iter(given), UnknownWords(self.codec, name)
        while True:
            window, error = _read(source, self._at_once)
            # What a language model scores are targets alone.
            unknown.see(texts or (target or "",) for texts, target in window)
            rows, refusal = self._readable(dict(enumerate(window, first)), name)
            yield from self._window_answers(rows, answer)
            error = refusal or error
            if error is not None or len(window) < self._at_once:
                break
            first += len(window)
        unknown.finish()
        if error is not None:
            raise error

    def _readable(
        self, given: dict[int, Given], name: str | None
    ) -> tuple[list[ReadExample], UserError | None]:
        """The examples before the first one that cannot be read, and the error about that one."""
        what = "prompt" if self._goes_on else "input"
        rows: list[ReadExample] = []
        for row in self._reader.read(given):
            number = row.example.number
            if row.error:
                where = f"example {number}" if name is None else f"{name}, example {number}"
                return rows, UserError(f"{where}: {row.error}.")
            if row.warning:
                warn(f"{what} {number} {row.warning}.")
            rows.append(row)
        return rows, None

    def _window_answers(
        self, rows: list[ReadExample], answer: Callable[[list[Example]], Sequence[Any]]
    ) -> Iterator[Any]:
        """Yields the answers to examples, in order; the batch with the first of them is done
        first.
        """
        blank = [row.example.number for row in rows if row.blank and not self._goes_on]
        ready: dict[int, Any] = dict.fromkeys(blank, self._blank())
        waiting = iter([row.example.number for row in rows])
        wanted = next(waiting, None)
        examples = [row.example for row in rows if row.example.number not in ready]
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


def _read(source: Iterator[Given], count: int) -> tuple[list[Given], UserError | None]:
    """The next examples, at most `count`, and the error that kept it from reading on."""
    window: list[Given] = []
    try:
        for _ in range(count):
            window.append(next(source))
    except StopIteration:
        pass
    except UserError as error:
        return window, error
    return window, None


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
