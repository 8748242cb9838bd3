"""A long input answered on Apache Beam in shards, with the model as the stage.

How it is used::

    job = BeamJob(run.output_dir, None, "", "best", DecodeConfig(), 0, source, destination)
    with exclusive(job.folder / LOCK_FILE):
        job.keep_checkpoint()
        job.answer(len(examples), "runner=FlinkRunner,flink_master=host:8081")
        job.join(len(examples))

Every worker must see the input, the folder beside the output and the run directory. A worker's
process reads the input and the model once, for all shards that it answers. A shard is a whole
number of the windows in which a translator reads ahead, so every batch is the one that a single
process would make, and so is every answer. The answers of a shard are complete or absent, so a
stopped job goes on with those that are absent.
"""

# Evaluated annotations would be checked by Beam.
from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ut_tf.data.apache_beam_runner import once_for_each_process, write_on_beam
from ut_tf.data.prepared import source_record
from ut_tf.data.text.codec import TextCodec
from ut_tf.inference.example_reader import Given
from ut_tf.inference.text_files import (
    line_bytes,
    read_input,
    scored_lines,
    scored_pairs,
    translated_lines,
)
from ut_tf.inference.translator import READ_AHEAD, Translator
from ut_tf.notices import report
from ut_tf.run import Run
from ut_tf.search.config import DecodeConfig
from ut_tf.storage.files import sha256_of, write_bytes, write_parts
from ut_tf.storage.find_checkpoint import read_checkpoint
from ut_tf.storage.layout import WEIGHTS_FILE
from ut_tf.storage.leftovers import filled_beside
from ut_tf.storage.model_folder import holds_model
from ut_tf.version import __version__

_WINDOWS_OF_A_SHARD = 4


@dataclass(frozen=True)
class LoadedJob:
    """What a process reads of a job once; Beam shares no tuples."""

    translator: Translator
    examples: list[Given]


@dataclass(frozen=True)
class BeamJob:
    """An input and what answers it, the same in every process.

    Args:
      output_dir: of the run, or the folder of a saved model.
      usr_dir: of the user's own code; None: none.
      hparams: overrides in use, as for ``Run.in_use``.
      which: checkpoint, as for ``find_checkpoint``.
      config: how outputs are searched for.
      seed: of sampling.
      source: file of the input.
      destination: file of the output.
      scores: whether the lines of the input end with targets, which are scored.
    """

    output_dir: Path
    usr_dir: str | None
    hparams: str
    which: str
    config: DecodeConfig
    seed: int
    source: Path
    destination: Path
    scores: bool = False

    @functools.cached_property
    def folder(self) -> Path:
        """The folder of the answers until they are joined, named by the input, the options, the
        version and a saved model's weights.
        """
        decides = {**dataclasses.asdict(self), "version": __version__}
        decides["source"] = source_record(self.source)["sha256"]
        if self._is_model:
            decides["weights"] = sha256_of(self.output_dir / WEIGHTS_FILE)
        text = json.dumps(decides, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return self.destination.with_name(f"{self.destination.name}.shards-{digest}")

    def keep_checkpoint(self) -> None:
        """Copies the checkpoint of a run, which a training may remove, unless a stopped job has
        done so.

        Raises:
          UserError: there is no such checkpoint.
        """
        if self._is_model:
            return
        if self._kept.is_dir():
            report(f"goes on in {self.folder}, with the checkpoint that is kept there")
        else:
            read_checkpoint(self.output_dir, self.which, self._copy)

    def load(self) -> LoadedJob:
        """Loads the model and reads the input."""
        run = Run.load(self.output_dir, usr_dir=self.usr_dir).in_use(self.hparams)
        which = self.which if self._is_model else str(self._kept)
        translator = Translator.from_run(run, which, self.config, self.seed)
        return LoadedJob(translator, self.examples(translator.codec))

    def examples(self, codec: TextCodec) -> list[Given]:
        """The examples of the input.

        Raises:
          UserError: a line is not of the problem's format.
        """
        lines, name = read_input(self.source), str(self.source)
        if self.scores:
            return [*scored_pairs(codec, lines, name)]
        return [(texts, None) for texts in codec.read(lines, name)]

    def files(self, examples: int) -> list[Path]:
        """The files of the answers to so many examples, one for each shard."""
        return [self._file(number) for number in range(-(-examples // self._size))]

    def answer(self, examples: int, options: str) -> int:
        """Answers the shards of so many examples that have no answers yet; returns how many.

        Args:
          examples: of the input.
          options: as for ``run_on_beam``.

        Raises:
          UserError: as for ``write_on_beam``.
        """
        work = functools.partial(_answer, job=self, shared=once_for_each_process())
        return write_on_beam(work, self.files(examples), options)

    def answer_shard(self, number: int, loaded: LoadedJob) -> None:
        """Writes the answers of a shard; runs on a worker."""
        begin = number * self._size
        part = loaded.examples[begin : begin + self._size]
        if self.scores:
            pairs = [(texts, target or "") for texts, target in part]
            lines = scored_lines(loaded.translator, pairs, begin + 1, None)
        else:
            texts = (texts for texts, _ in part)
            lines = translated_lines(loaded.translator, texts, begin + 1, None)
        write_bytes(self._file(number), b"".join(map(line_bytes, lines)))

    def join(self, examples: int) -> None:
        """Writes the answers of all shards to the output, in order, and removes the folder. The
        file is complete or as it was before.
        """
        write_parts(self.destination, (file.read_bytes() for file in self.files(examples)))
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _size(self) -> int:
        """Examples in a shard."""
        return _WINDOWS_OF_A_SHARD * READ_AHEAD * self.config.batch_size

    @property
    def _is_model(self) -> bool:
        return holds_model(self.output_dir)

    @property
    def _kept(self) -> Path:
        return self.folder / "checkpoint"

    def _file(self, number: int) -> Path:
        return self.folder / f"output-{number:06}.txt"

    def _copy(self, source: Path) -> None:
        with filled_beside(self._kept) as temporary:
            shutil.copytree(source, temporary, dirs_exist_ok=True)
            temporary.rename(self._kept)


def _answer(number: int, job: BeamJob, shared: Any) -> None:
    job.answer_shard(number, shared.acquire(job.load))
