"""Parallel text turned into ids: filtered, encoded and written shard by shard.

How it is used::

    counts = encode_split(pairs, folder, "train", vocab_file, filters=Filters(), total=29000,
        processes=4)
    # {"pairs": 29000, "kept": 28990, "empty": 10}

How it works: pairs are read in chunks, each of which becomes one shard, in one of several processes
where there are many; a shard that is there already is not made again, so that a stopped preparation
goes on where it was. What is left out is counted by its reason, in the shard itself. The processes
need no TensorFlow.
"""

import functools
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tqdm

from ut_tf.data.chunks import chunks
from ut_tf.data.corpus.encoded_pairs import PairIds, Side, read_counts, write_shard
from ut_tf.data.text.subword_files import AnySubwords, read_subwords
from ut_tf.errors import UserError

T = TypeVar("T")
Pair = tuple[str, str]
Job = Callable[[], dict[str, int]]
CHUNK = 50_000
_FEW_CHUNKS = 4
_DRAWN_AT_ONCE = 10_000


@dataclass(frozen=True)
class Filters:
    """The rules by which pairs are left out of the training text.

    Args:
      max_characters: of a line; 0: any number.
      max_length_ratio: of the subwords of the longer side to those of the shorter; 0: any ratio.
    """

    max_characters: int = 10_000
    max_length_ratio: float = 9.0

    def of_text(self, source: str, target: str) -> str | None:
        """The reason why a pair is left out before it is encoded; None: it is not."""
        if not source.strip() or not target.strip():
            return "empty"
        if self.max_characters and max(len(source), len(target)) > self.max_characters:
            return "too_long"
        return None

    def of_ids(self, source: Sequence[int], target: Sequence[int]) -> str | None:
        """The reason why a pair is left out after it is encoded, or None; the end counts as a
        subword.
        """
        longer, shorter = max(len(source), len(target)), min(len(source), len(target))
        if self.max_length_ratio and longer > self.max_length_ratio * shorter:
            return "length_ratio"
        return None


def encode_chunk(
    chunk: Sequence[Pair], subwords: AnySubwords, filters: Filters | None
) -> tuple[PairIds, Counter[str]]:
    """The ids of the pairs that the filters leave, and the count of pairs, of those kept, and of
    those left out by reason.
    """
    counts: Counter[str] = Counter(pairs=len(chunk))
    if filters:
        reasons = [filters.of_text(*pair) for pair in chunk]
        counts.update(filter(None, reasons))
        chunk = [pair for pair, reason in zip(chunk, reasons, strict=True) if reason is None]
    sources = subwords.encode([source for source, _ in chunk])
    targets = subwords.encode([target for _, target in chunk])
    if filters:
        reasons = [filters.of_ids(*ids) for ids in zip(sources, targets, strict=True)]
        counts.update(filter(None, reasons))
        sources, targets = (
            [ids for ids, reason in zip(side, reasons, strict=True) if reason is None]
            for side in (sources, targets)
        )
    counts["kept"] = len(sources)
    return PairIds(Side.of(sources, subwords.size), Side.of(targets, subwords.size)), counts


def encode_split(
    pairs: Iterable[Pair],
    folder: Path,
    split: str,
    vocab_file: Path,
    filters: Filters | None = None,
    total: int | None = None,
    processes: int = 1,
    chunk: int = CHUNK,
    remedy: str = "set `processes`=1",
) -> Counter[str]:
    """Writes the shards of a split and returns the sums of what ``encode_chunk`` counted.

    Args:
      pairs: of the split.
      folder: where the shards go; those that are there are kept.
      split: the first part of their names.
      vocab_file: the vocabulary.
      filters: what to leave out; None: nothing.
      total: the number of pairs where it is known: for the progress bar, and for the choice to do
        without other processes.
      processes: how many encode at once; a corpus of few chunks is encoded by this process.
      chunk: pairs in a shard, those left out included.
      remedy: what the user can do where there are too many processes for the memory.

    Raises:
      UserError: the processes could not be started, or one was killed.
    """
    is_small = total is not None and total <= _FEW_CHUNKS * chunk
    jobs = (
        functools.partial(
            encode_shard, pairs_of_shard, shard_file(folder, split, number), vocab_file, filters
        )
        for number, pairs_of_shard in enumerate(chunks(pairs, chunk))
    )
    with progress_bar(split, total) as bar:
        if processes == 1 or is_small:
            return _encode_here(jobs, bar)
        try:
            return _encode_in_processes(jobs, bar, processes)
        except BrokenProcessPool as error:
            raise UserError(
                f"the {processes} processes that encode {split} text ended too early: a script that"
                ' prepares a large corpus needs its calls below `if __name__ == "__main__":`, or'
                f" ut-datagen before it; where memory ran out, {remedy}."
            ) from error


def shard_file(folder: Path, split: str, number: int) -> Path:
    """The file of a shard."""
    return folder / f"{split}-{number:05}.npz"


def read_split_counts(folder: Path, split: str, shards: int) -> Counter[str]:
    """The sums of the counts in the first `shards` shards of a split."""
    counts: Counter[str] = Counter()
    for number in range(shards):
        counts.update(read_counts(shard_file(folder, split, number)))
    return counts


def progress_bar(what: str, total: int | None = None, items: Iterable[Pair] | None = None) -> Any:
    """A bar on standard error that counts pairs, and yields `items`; a log gets a line every half
    minute.
    """
    return tqdm.tqdm(
        items,
        total=total,
        unit=" pairs",
        desc=what,
        delay=1.0,
        mininterval=0.5 if sys.stderr.isatty() else 30.0,
    )


def sample_items(items: Iterable[T], share: float) -> Iterator[T]:
    """Yields about this share of the items, chosen by a fixed seed."""
    rng = np.random.default_rng(1)
    for block in chunks(items, _DRAWN_AT_ONCE):
        yield from itertools.compress(block, rng.random(len(block)) < share)


def _encode_in_processes(jobs: Iterable[Job], bar: Any, processes: int) -> Counter[str]:
    """Runs the jobs in other processes; reading stays at most two chunks per process ahead, so
    memory does not grow with the corpus.
    """
    counts: Counter[str] = Counter()
    waiting: deque[Future[dict[str, int]]] = deque()

    def take() -> None:
        _count(waiting.popleft().result(), counts, bar)

    # TensorFlow may run threads in this process already, which a forked process would not survive.
    with ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), initializer=_begin_process
    ) as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(job))
                if len(waiting) >= 2 * processes:
                    take()
            while waiting:
                take()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return counts


def _encode_here(jobs: Iterable[Job], bar: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    for job in jobs:
        _count(job(), counts, bar)
    return counts


def _count(job_counts: dict[str, int], counts: Counter[str], bar: Any) -> None:
    counts.update(job_counts)
    bar.update(job_counts["pairs"])


def _begin_process() -> None:
    """Makes a new process leave an interrupt from the keyboard to the one that started it, and end
    when that one is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def encode_shard(
    chunk: Sequence[Pair], path: Path, vocab_file: Path, filters: Filters | None
) -> dict[str, int]:
    """Writes one shard, unless it is there, and returns its counts."""
    if not path.is_file():
        write_shard(path, *encode_chunk(chunk, cached_subwords(vocab_file), filters))
    return read_counts(path)


def cached_subwords(vocab_file: Path) -> AnySubwords:
    """The vocabulary in a file, which each process reads once."""
    return _read_subwords(vocab_file, vocab_file.stat().st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _read_subwords(vocab_file: Path, modified: int) -> AnySubwords:
    del modified
    return read_subwords(vocab_file)
