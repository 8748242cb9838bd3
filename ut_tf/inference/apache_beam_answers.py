"""The shards of an input answered on Apache Beam, with the model as the stage.

How it is used::

    recipe = TranslatorRecipe(run.output_dir, None, "", checkpoint, DecodeConfig(), seed=0)
    shards.divide(examples, recipe.shard_size, recipe.identity())
    answer_on_beam(shards, recipe, "runner=FlinkRunner,flink_master=host:8081")

Every worker must see the folder of the shards and the run directory. A worker's process loads the
model once, for all shards that it answers. A shard is a whole number of the windows in which a
translator reads ahead, so every batch is the one that a single process would make, and so is every
answer.
"""

# Evaluated annotations would be checked by Beam.
from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ut_tf.data.apache_beam_runner import once_for_each_process, run_on_beam
from ut_tf.inference.shards import Given, Shards
from ut_tf.inference.text_files import scored_lines, translated_lines
from ut_tf.inference.translator import READ_AHEAD, Translator
from ut_tf.run import Run
from ut_tf.search.config import DecodeConfig
from ut_tf.storage.checkpoints import manifest_digest
from ut_tf.storage.files import sha256_of
from ut_tf.storage.layout import WEIGHTS_FILE
from ut_tf.storage.model_folder import holds_model
from ut_tf.version import __version__

_WINDOWS_OF_A_SHARD = 4


@dataclass(frozen=True)
class TranslatorRecipe:
    """What makes the same translator in every process.

    Args:
      output_dir: of the run, or the folder of a saved model.
      usr_dir: of the user's own code; None: none.
      hparams: overrides in use, as for ``Run.in_use``.
      checkpoint: its folder, which no training removes meanwhile (``Shards.keep_checkpoint``).
      config: how outputs are searched for.
      seed: of sampling.
    """

    output_dir: Path
    usr_dir: str | None
    hparams: str
    checkpoint: Path
    config: DecodeConfig
    seed: int

    def make(self) -> Translator:
        """Loads the model."""
        run = Run.load(self.output_dir, usr_dir=self.usr_dir).in_use(self.hparams)
        return Translator.from_run(run, str(self.checkpoint), self.config, self.seed)

    @property
    def shard_size(self) -> int:
        """Examples in a shard."""
        return _WINDOWS_OF_A_SHARD * READ_AHEAD * self.config.batch_size

    def identity(self) -> dict[str, Any]:
        """The values that decide the answers, by name."""
        return {
            "weights": _digest(self.checkpoint),
            "hparams": self.hparams,
            "seed": self.seed,
            "version": __version__,
            **self.config.to_dict(),
        }


def answer_on_beam(shards: Shards, recipe: TranslatorRecipe, options: str) -> None:
    """Answers the shards that have no answers yet.

    Args:
      shards: of a divided input.
      recipe: of the translator.
      options: as for ``run_on_beam``.

    Raises:
      UserError: as for ``run_on_beam``.
    """
    work = functools.partial(_answer, shards=shards, recipe=recipe, loaded=once_for_each_process())
    run_on_beam(work, shards.unfinished(), options)


def _answer(number: int, shards: Shards, recipe: TranslatorRecipe, loaded: Any) -> None:
    """Writes the answers of one shard; runs on a worker."""
    translator = loaded.acquire(recipe.make)
    shards.answer(number, functools.partial(answers, translator))


def _digest(checkpoint: Path) -> str:
    if holds_model(checkpoint):
        return sha256_of(checkpoint / WEIGHTS_FILE)
    return manifest_digest(checkpoint)


def answers(translator: Translator, examples: Sequence[Given], first: int) -> Iterable[str]:
    """A line for each example: the score of its target, or where it has none the translation.

    Args:
      translator: of the model.
      examples: all of them with targets, or none.
      first: number of the first example.
    """
    pairs = [(texts, target) for texts, target in examples if target is not None]
    if pairs:
        return scored_lines(translator, pairs, first, None)
    return translated_lines(translator, [texts for texts, _ in examples], first, None)
