"""Parallel text turned into ids by Apache Beam, through tensorflow-datasets: for corpora that
several machines encode.

How it is used::

    counts = encode_with_beam(pairs, folder, "train", vocab_file, Filters(),
        "runner=FlinkRunner,flink_master=host:8081")

How it works: chunks of pairs are first written as files beside the shards, where every worker must
be able to read them. A tensorflow-datasets builder makes one record of each chunk, in a pipeline on
the runner that the options name; the records then become the same shards as ``encoding`` writes.
Beam is optional: pip install apache-beam.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import importlib.util
import io
import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from ut_tf.data.corpus.encoded_pairs import PairIds, Side, id_type, write_shard
from ut_tf.data.corpus.encoding import (
    CHUNK,
    Filters,
    Pair,
    cached_subwords,
    chunks,
    encode_chunk,
    progress_bar,
    read_split_counts,
    shard_file,
)
from ut_tf.data.text.subwords import Subwords
from ut_tf.errors import UserError
from ut_tf.storage.files import write_bytes

_VERSION = "1.0.0"
_COLUMNS = ("sources", "source_lengths", "targets", "target_lengths")


class EncodedChunks(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
    """Writes one record of ids for each chunk of pairs.

    Args:
      files: the chunks' numbers and files.
      vocab_file: the vocabulary.
      filters: what to leave out, as the arguments of Filters; None: nothing.
      data_dir: where the records go.
    """

    VERSION = tfds.core.Version(_VERSION)

    def __init__(
        self,
        files: list[tuple[int, str]],
        vocab_file: str,
        filters: dict[str, Any] | None,
        data_dir: str,
    ) -> None:
        self._files = files
        self._vocab_file = vocab_file
        self._filters = filters
        super().__init__(data_dir=data_dir)

    def _info(self) -> Any:
        ids = {name: tfds.features.Tensor(shape=(None,), dtype=np.int32) for name in _COLUMNS}
        features = tfds.features.FeaturesDict(
            {"number": np.int32, "counts": tfds.features.Text(), **ids}
        )
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        del dl_manager
        return {"chunks": self._generate_examples(self._files)}

    def _generate_examples(self, files: list[tuple[int, str]]) -> Any:
        import apache_beam

        encode = functools.partial(_record, vocab_file=self._vocab_file, filters=self._filters)
        # Without the shuffle a runner may take all chunks as one bundle, for one worker.
        return apache_beam.Create(files) | apache_beam.Reshuffle() | apache_beam.Map(encode)


def encode_with_beam(
    pairs: Iterable[Pair],
    folder: Path,
    split: str,
    vocab_file: Path,
    filters: Filters | None,
    options: str,
    total: int | None = None,
    chunk: int = CHUNK,
) -> Counter[str]:
    """Writes the shards of a split and returns the sums of what ``encode_chunk`` counted.

    Args:
      pairs, folder, split, vocab_file, filters, total, chunk: as for ``encoding.encode_split``.
      options: of Beam's pipeline, "name=value,name=value", without dashes.

    Raises:
      UserError: apache-beam is not installed.
    """
    require_beam()
    from apache_beam.options.pipeline_options import PipelineOptions

    waiting, count = _write_chunks(pairs, folder, split, total, chunk)
    if waiting:
        builder = EncodedChunks(
            waiting,
            str(vocab_file),
            None if filters is None else vars(filters),
            str(folder / "beam"),
        )
        flags = [f"--{option.strip()}" for option in options.split(",") if option.strip()]
        # A stopped pipeline starts again: its records are one piece.
        shutil.rmtree(folder / "beam", ignore_errors=True)
        with contextlib.redirect_stdout(io.StringIO()):
            builder.download_and_prepare(
                download_config=tfds.download.DownloadConfig(
                    beam_options=PipelineOptions(flags=flags)
                )
            )
        size = Subwords.read(vocab_file).size
        for record in builder.as_dataset(split="chunks").as_numpy_iterator():
            write_shard(
                shard_file(folder, split, int(record["number"])),
                _pairs(record, size),
                json.loads(record["counts"]),
            )
    shutil.rmtree(folder / "beam", ignore_errors=True)
    shutil.rmtree(folder / "chunks", ignore_errors=True)
    return read_split_counts(folder, split, count)


def require_beam() -> None:
    """Raises UserError where Apache Beam is not installed."""
    if importlib.util.find_spec("apache_beam") is None:
        raise UserError(
            "`beam_pipeline_options` needs Apache Beam, which is not installed: pip install"
            " apache-beam, or leave them out: several processes then encode the text on this"
            " machine."
        )


def _write_chunks(
    pairs: Iterable[Pair], folder: Path, split: str, total: int | None, size: int
) -> tuple[list[tuple[int, str]], int]:
    """Number and file of every chunk without a shard, after writing those files, and how many
    chunks there are in all.
    """
    waiting, count = [], 0
    with progress_bar(f"{split}, chunks", total) as bar:
        for number, chunk in enumerate(chunks(pairs, size)):
            file = folder / "chunks" / f"{split}-{number:05}.json.gz"
            if not shard_file(folder, split, number).is_file():
                waiting.append((number, str(file)))
                if not file.is_file():
                    write_bytes(
                        file, gzip.compress(json.dumps(chunk).encode("utf-8"), compresslevel=1)
                    )
            count = number + 1
            bar.update(len(chunk))
    return waiting, count


def _record(
    item: tuple[int, str], vocab_file: str, filters: dict[str, Any] | None
) -> tuple[int, dict[str, Any]]:
    """The key and the record of a chunk; runs on a worker."""
    number, file = item
    chunk = json.loads(gzip.decompress(Path(file).read_bytes()))
    pairs, counts = encode_chunk(
        chunk, cached_subwords(Path(vocab_file)), None if filters is None else Filters(**filters)
    )
    columns = (pairs.sources.ids, pairs.sources.lengths, pairs.targets.ids, pairs.targets.lengths)
    arrays = {name: column.astype(np.int32) for name, column in zip(_COLUMNS, columns, strict=True)}
    return number, {"number": number, "counts": json.dumps(counts), **arrays}


def _pairs(record: dict[str, Any], vocab_size: int) -> PairIds:
    sources, source_lengths, targets, target_lengths = (record[name] for name in _COLUMNS)
    dtype = id_type(vocab_size)
    return PairIds(
        Side(sources.astype(dtype), source_lengths), Side(targets.astype(dtype), target_lengths)
    )
