"""Parallel text turned into ids by Apache Beam: for corpora that several machines encode.

How it is used::

    counts = encode_with_beam(pairs, folder, "train", vocab_file, Filters(),
        "runner=FlinkRunner,flink_master=host:8081")

How it works: chunks of pairs are first written as files beside the shards, where every worker must
be able to read them. Whichever worker takes a chunk writes its shard, the same as ``encoding``
would; a shard that is there is not made again.
"""

# Evaluated annotations would be checked by Beam.
from __future__ import annotations

import functools
import gzip
import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ut_tf.data.apache_beam_runner import write_on_beam
from ut_tf.data.chunks import chunks
from ut_tf.data.corpus.encoding import (
    CHUNK,
    Filters,
    Pair,
    encode_shard,
    progress_bar,
    read_split_counts,
    shard_file,
)
from ut_tf.storage.files import write_bytes


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
      options: as for ``run_on_beam``.

    Raises:
      UserError: as for ``write_on_beam``.
    """
    files: list[Path] = []
    with progress_bar(f"{split}, chunks", total) as bar:
        for number, some in enumerate(chunks(pairs, chunk)):
            files.append(shard_file(folder, split, number))
            file = _chunk_file(folder, split, number)
            if not (files[-1].is_file() or file.is_file()):
                text = json.dumps(some).encode("utf-8")
                write_bytes(file, gzip.compress(text, compresslevel=1))
            bar.update(len(some))
    work = functools.partial(
        _encode_file, folder=folder, split=split, vocab_file=vocab_file, filters=filters
    )
    write_on_beam(work, files, options)
    shutil.rmtree(folder / "chunks", ignore_errors=True)
    return read_split_counts(folder, split, len(files))


def _encode_file(
    number: int, folder: Path, split: str, vocab_file: Path, filters: Filters | None
) -> None:
    """Writes the shard of a chunk's file; runs on a worker."""
    chunk = json.loads(gzip.decompress(_chunk_file(folder, split, number).read_bytes()))
    encode_shard(chunk, shard_file(folder, split, number), vocab_file, filters)


def _chunk_file(folder: Path, split: str, number: int) -> Path:
    return folder / "chunks" / f"{split}-{number:05}.json.gz"
