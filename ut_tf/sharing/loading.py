"""A saved model, ready for use on text.

::

    babi = load("babi")                              # or a folder, or "hf://user/model"
    babi.answer("Mary went to the kitchen.", "Where is Mary?")
    babi.model(features, return_details=True)        # the keras.Model
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ut_tf.argument_types import checked_types
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.inference.translator import Translator, check_vocabulary
from ut_tf.run import Run
from ut_tf.run_weights import load_model
from ut_tf.search.config import DecodeConfig
from ut_tf.sharing.places import model_folder
from ut_tf.storage.layout import CARD_FILE


@dataclass(frozen=True)
class LoadedModel:
    """A saved model.

    Args:
      run: what it was trained on and how: problem, hyperparameters, spec, vocabulary.
      model: keras.Model with its weights.
      decode: how answers are searched for.
    """

    run: Run
    model: Any
    decode: DecodeConfig

    def __repr__(self) -> str:
        run = self.run
        try:
            fields = run.text_codec().fields
        except UserError:
            # It has no text form, or its vocabulary is damaged: that is told where it is used.
            fields = ()
        use = f"; .answer({', '.join(fields)})" if fields else ""
        parameters = self.model.count_params()
        return f"LoadedModel({run.problem}, {run.hparams_set}, {parameters:,} parameters{use})"

    @cached_property
    def translator(self) -> Translator:
        """Text in, text out, many at a time.

        Raises:
          UserError: the problem has no text form, or the vocabulary is not the model's.
        """
        codec = self.run.text_codec()
        check_vocabulary(codec, self.run)
        return Translator(self.model, codec, self.decode, self.run.seed)

    @property
    def card(self) -> str:
        """The model card, Markdown; empty where there is none."""
        path = self.run.output_dir / CARD_FILE
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def answer(self, *texts: Any) -> str:
        """The best answer to one example.

        Args:
          texts: one for each of ``translator.codec.fields``: of bAbI story and question. A story
            may be a list of sentences.

        Raises:
          UserError: another number of texts, no example of the problem, or what ``translator``
            raises.
        """
        return next(self.answers([texts]))

    def answers(self, examples: Iterable[Any]) -> Iterator[str]:
        """Yields the best answer to each example; arguments and errors as of ``answer``. Of one
        field a text is an example.
        """
        given = _read(self.translator.codec, examples)
        return (hypotheses[0].text for hypotheses in self.translator.translate(given))


def _read(codec: TextCodec, examples: Iterable[Any]) -> Iterable[Any]:
    """The examples, as a codec reads them that has a ``read`` of its own.

    Codecs written for ut-tf 0.4 have their checks there, and ``answer`` called it for one field.
    """
    has_own = type(codec).read is not TextCodec.read
    if not has_own or len(codec.fields) != 1:
        return examples
    return (_read_one(codec, example) for example in examples)


def _read_one(codec: TextCodec, example: Any) -> Any:
    texts = [example] if isinstance(example, str) else example
    if not isinstance(texts, list | tuple) or [type(text) for text in texts] != [str]:
        # No text: the translator says what it expects.
        return example
    read = list(codec.read(texts, "the text"))
    return read[0] if len(read) == 1 else example


@checked_types
def load(
    place: str | Path, decode: DecodeConfig | None = None, usr_dir: str | Path | None = None
) -> LoadedModel:
    """Loads a saved model; nothing in its folder is executed.

    Args:
      place: a folder, "hf://user/model" or a name of those that come with ut-tf, such as "babi".
      decode: how answers are searched for; None: DecodeConfig().
      usr_dir: folder of your own registrations, where the model needs some.

    Raises:
      UserError: there is no saved model there, or it cannot be read.
    """
    run = Run.load(model_folder(place), usr_dir=usr_dir)
    return LoadedModel(run, load_model(run), DecodeConfig() if decode is None else decode)
