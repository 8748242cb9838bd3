"""Problems of letters whose codecs are a few lines, untrained runs of them, and what a SavedModel
answers.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.text.codec import TextCodec
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import decode
from ut_tf.serving.export import export_run
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID

LETTERS = "abcdefghij"
VOCABULARY = FIRST_SYMBOL_ID + len(LETTERS)
ANSWERS = ("yes", "no", "maybe")
STEP = 12
HALTING = "act_max_steps=5,act_halting_bias_init=-0.5,act_epsilon=0.01"
BEAM = DecodeConfig(beam_size=3, n_best=2, extra_length=6, max_input_length=30)
NETWORK = UniversalTransformerConfig(
    hidden_size=32,
    filter_size=64,
    num_heads=2,
    num_steps=2,
    act_max_steps=2,
    halting="basic",
    act_epsilon=0.3,
    act_halting_bias_init=1.0,
)


class LetterCodec(TextCodec):
    """Letters as ids, by a table that lies in a file of the vocabulary's folder; other characters
    are left out.
    """

    classes: ClassVar[int] = 0

    def __init__(self, vocab_dir: Path) -> None:
        super().__init__()
        path = vocab_dir / "letters.txt"
        kinds = (
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        self._ids = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(str(path), *kinds), -1)
        size = FIRST_SYMBOL_ID + len(path.read_text().split())
        self.vocab_sizes = (size, self.classes or size) if self.fields else (0, size)
        self._letters = tf.constant(["", "", *LETTERS])

    def encode(self, *texts: Any) -> dict[str, Any]:
        return {"inputs": self.encode_targets(texts[0])}

    def encode_targets(self, texts: Any) -> Any:
        known = self._known(texts)
        ends = tf.fill([tf.shape(texts)[0], 1], END_ID)
        return tf.concat([known, tf.RaggedTensor.from_tensor(ends)], 1).to_tensor()

    def _known(self, texts: Any) -> Any:
        letters = tf.strings.unicode_split(texts, "UTF-8")
        ids = letters.with_flat_values(
            tf.cast(self._ids.lookup(letters.flat_values), tf.int32) + FIRST_SYMBOL_ID
        )
        return tf.ragged.boolean_mask(ids, ids >= FIRST_SYMBOL_ID)

    def decode(self, outputs: Any) -> Any:
        kept = tf.math.cumprod(tf.cast(outputs > END_ID, tf.int32), axis=1)
        return tf.strings.reduce_join(tf.gather(self._letters, outputs * kept), axis=1)

    def tokens(self, features: dict[str, Any]) -> Any:
        inputs = features["inputs"]
        return tf.where(inputs == END_ID, "<end>", tf.gather(self._letters, inputs))


class QuestionCodec(LetterCodec):
    """The letters of a story, then those of a question, without an end: empty texts have no
    position at all.
    """

    fields: ClassVar[tuple[str, ...]] = ("story", "question")
    classes = len(ANSWERS)

    def encode(self, *texts: Any) -> dict[str, Any]:
        return {"inputs": self._known(texts[0] + texts[1]).to_tensor()}

    def decode(self, outputs: Any) -> Any:
        return tf.gather(tf.constant(ANSWERS), outputs)


class NothingCodec(LetterCodec):
    """A language model's: no inputs."""

    fields: ClassVar[tuple[str, ...]] = ()


class PythonCodec(QuestionCodec):
    """One that only the process that made it can run."""

    def decode(self, outputs: Any) -> Any:
        texts = tf.numpy_function(
            lambda symbols: np.array(["x"] * len(symbols), object), [outputs], tf.string
        )
        return tf.ensure_shape(texts, [None])


class Letters(Problem):
    """Letters to letters; it has no data."""

    name = "letters"
    made_spec = ProblemSpec("tokens", "tokens", VOCABULARY, VOCABULARY, shared_vocab=True)
    codec: ClassVar[type[LetterCodec]] = LetterCodec

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        del tmp_dir
        data_dir.mkdir(parents=True, exist_ok=True)
        (data_dir / "letters.txt").write_text("\n".join(LETTERS))

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return self.made_spec

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        raise NotImplementedError

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        raise NotImplementedError

    def vocab_files(self, data_dir: Path) -> list[Path]:
        return [data_dir / "letters.txt"]

    def text_codec(self, vocab_dir: Path) -> TextCodec:
        return self.codec(vocab_dir)


class Questions(Letters):
    name = "letter_questions"
    made_spec = ProblemSpec("tokens", "class", VOCABULARY, len(ANSWERS))
    codec = QuestionCodec


class Language(Letters):
    name = "letter_language"
    made_spec = ProblemSpec("none", "tokens", 0, VOCABULARY)
    codec = NothingCodec


class InPython(Questions):
    name = "questions_in_python"
    codec = PythonCodec


for made in (Letters, Questions, Language, InPython):
    registry.problems.register(made.name, made)
registry.hparams_sets.register("letters_tiny", lambda: HParams(network=NETWORK))


def untrained_run(folder: Path, problem: str, hparams: str = "") -> Run:
    """Returns a run with a checkpoint of random weights, large enough that answers differ."""
    run = Run.create(
        problem,
        "letters_tiny",
        hparams,
        output_dir=folder / "run",
        data_dir=folder / "data",
        tmp_dir=folder / "tmp",
    )
    keras.utils.set_random_seed(7)
    model = run.make_model()
    for weight in model.trainable_variables:
        if len(weight.shape) > 1:
            weight.assign(1.5 * weight)
    CheckpointStore(run.output_dir).save(
        STEP, tf.train.Checkpoint(model=model), {"best_step": STEP, "averaged": False}
    )
    return run


def restored(run: Run, policy: str = "float32") -> Any:
    """Returns the run's model with the weights of its checkpoint."""
    from ut_tf.run_weights import restore_weights

    model = dataclasses.replace(run, hparams=run.hparams.change(dtype_policy=policy)).make_model()
    restore_weights(model, run)
    return model


class Loaded:
    """A SavedModel as other programs see it: signatures, by name, of lists of texts."""

    def __init__(self, folder: Path) -> None:
        self.module = tf.saved_model.load(str(folder))
        self.signatures = self.module.signatures

    def ask(self, signature: str, **texts: list[Any]) -> dict[str, np.ndarray]:
        given = {
            name: tf.constant(values, tf.string, [len(values)]) for name, values in texts.items()
        }
        return {name: value.numpy() for name, value in self.signatures[signature](**given).items()}


class Exported:
    """A run, its SavedModel loaded, and what the library makes of the same texts."""

    def __init__(
        self,
        folder: Path,
        problem: str,
        config: DecodeConfig = BEAM,
        hparams: str = "",
        **options: Any,
    ) -> None:
        self.run = untrained_run(folder, problem, hparams)
        self.folder = export_run(
            Run.load(self.run.output_dir), folder / "export", decode=config, **options
        )
        self.loaded = Loaded(self.folder)
        self.codec = self.run.make_problem().text_codec(self.run.vocab_dir)

    @functools.cached_property
    def model(self) -> Any:
        """The model of the run, with the weights that were exported."""
        return restored(self.run)

    def features(self, *texts: list[str]) -> dict[str, Any]:
        return self.codec.encode(*(tf.constant(one) for one in texts))

    def decoded(self, texts: list[str], config: DecodeConfig) -> tuple[np.ndarray, np.ndarray]:
        symbols, scores = decode(self.model, {"inputs": self.features(texts)["inputs"]}, config)
        outputs = self.codec.decode(tf.reshape(symbols, [-1, symbols.shape[2]]))
        return outputs.numpy().reshape(scores.shape), scores.numpy()
