"""LAMBADA made ready for training: words as numbers, the texts of a split in one array.

A word of the vocabulary has its id; every other word has a number of its own above the vocabulary,
so that equal unknown words can be told from different ones (``passages.number_unknown``).
``words.txt`` holds the symbols from id 2 on: the unknown word, the absent word (an answer that is
neither in the vocabulary nor in its passage), the numbered unknown words, the vocabulary.
"""

import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tqdm

from ut_tf.data.arrays import read_array
from ut_tf.data.prepared import DamageError, PreparedFolder, source_record
from ut_tf.data.text.vocabulary import UNKNOWN, read_symbols, write_symbols
from ut_tf.errors import UserError
from ut_tf.notices import report
from ut_tf.problems.lambada.archive import PASSAGE_FILES, Sources
from ut_tf.storage.files import sha256_of, write_bytes
from ut_tf.symbols import FIRST_SYMBOL_ID

WORDS_FILE = "words.txt"
UNKNOWN_ID = FIRST_SYMBOL_ID
ABSENT_ID = FIRST_SYMBOL_ID + 1
FIRST_NUMBERED_ID = FIRST_SYMBOL_ID + 2
_FORMAT = 1
_SECONDS = 10.0
Ids = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Texts:
    """Texts one after the other.

    Args:
      words: int32 [words]: ids, or numbers from the vocabulary's size on for unknown words; perhaps
        a mapped file, only to be read.
      starts: int64 [texts + 1], where each begins, and the end of the last.
    """

    words: Ids
    starts: Places

    def __len__(self) -> int:
        return len(self.starts) - 1

    def translate(self, ids: Ids) -> None:
        """Puts ids[word] in place of each word, text by text: a second array of all words could be
        too much for the memory.
        """
        for start, end in itertools.pairwise(self.starts):
            self.words[start:end] = ids[self.words[start:end]]


@dataclass(frozen=True)
class LambadaSettings:
    """The settings that decide the prepared data, beside the files.

    Args:
      vocab_size: words of the vocabulary at most, the most frequent ones.
      unknown_words: how many different unknown words of a passage are told apart.
      min_books: of a vocabulary made from the training text: a word stands in at least that many of
        its books.
      tokenize: whether one's own training texts are running text.
    """

    vocab_size: int
    unknown_words: int
    min_books: int
    tokenize: bool


class LambadaCorpus:
    """The folder with what is prepared."""

    def __init__(self, path: Path) -> None:
        self.prepared = PreparedFolder(
            path,
            needed=(WORDS_FILE,),
            fields={
                "format": int,
                "vocab_size": int,
                "words": int,
                "own_vocabulary": bool,
                "own_text": bool,
                "splits": dict,
                "words_sha256": str,
                "files": list,
            },
            digest_keys={WORDS_FILE: "words_sha256"},
        )
        self.folder = path
        self.words_file = path / WORDS_FILE

    def prepare(self, sources: Sources, settings: LambadaSettings, name: str) -> None:
        """Writes everything, and tells on standard error what it was made from.

        Raises:
          UserError: a file is not what it should be.
        """
        report(f"preparing {name} in {self.folder}")
        passages = {
            split: of_split
            for split in PASSAGE_FILES
            if (of_split := sources.passages(split)) is not None
        }
        numbers = _Numbers()
        books = sources.books(settings.tokenize)
        read = tqdm.tqdm(books, desc="reading", unit=" books", delay=1.0, mininterval=_SECONDS)
        train = numbers.texts(words for _, words in read)
        judged = {split: numbers.texts(of_split) for split, of_split in passages.items()}
        given = sources.vocabulary()
        if given is not None:
            ranked = sorted(given, key=lambda row: (-row[1], row[0]))
            words = [word for word, _ in ranked[: settings.vocab_size]]
        else:
            words = numbers.frequent(train, settings.vocab_size, settings.min_books)
        # From FIRST_SYMBOL_ID on, before the words of the vocabulary.
        unknown = (f"<unknown-{number}>" for number in range(1, settings.unknown_words + 1))
        special = [UNKNOWN, "<absent>", *unknown]
        ids = numbers.ids(words, FIRST_SYMBOL_ID + len(special))
        write_symbols(self.words_file, [*special, *words])
        texts = {"train": train, **judged}
        for split, numbered in texts.items():
            numbered.translate(ids)
            self._write(split, numbered)
        size = FIRST_SYMBOL_ID + len(special) + len(words)
        summary = {
            "format": _FORMAT,
            "vocab_size": size,
            "words": len(words),
            "own_vocabulary": given is None,
            "own_text": sources.train is not None,
            "splits": {split: _counts(numbered, size) for split, numbered in texts.items()},
            "words_sha256": sha256_of(self.words_file),
            "files": [source_record(path, digest=False) for path in sources.files],
        }
        self.prepared.finish(summary)
        report("\n".join(_told(name, summary, sources)))

    @property
    def summary(self) -> dict[str, Any]:
        """The summary of the prepared data: "vocab_size" (all ids), "words", "splits" with counts,
        "own_vocabulary", "own_text".

        Raises:
          UserError: it or the vocabulary is not as it was written.
        """
        summary = self.prepared.summary()
        with self.prepared.reading():
            if summary["format"] != _FORMAT:
                raise DamageError(f"its format is {summary['format']}, expected {_FORMAT}")
        return summary

    def check(self, texts: Iterable[Path]) -> None:
        """Raises UserError if a file has changed since the data was prepared from it.

        Args:
          texts: the files of one's own training texts that are there now: all must have been among
            those, by name and size.
        """
        self.prepared.refuse_changed_sources()
        with self.prepared.reading():
            read = {(Path(file["path"]).name, file["size"]) for file in self.summary["files"]}
        for path in texts:
            if (path.name, path.stat().st_size) not in read:
                raise UserError(
                    f"{path} is not among the files that {self.folder} was prepared from: take"
                    " it away, or delete that folder and begin new runs with what is prepared then."
                )

    def words(self) -> list[str]:
        """The symbols from FIRST_SYMBOL_ID on."""
        return read_symbols(self.words_file)

    def texts(self, split: str) -> Texts:
        """The books of "train", mapped from their file, or the passages of a split."""
        with self.prepared.reading():
            words: Ids = read_array(self.folder / f"{split}.words.npy", mmap=split == "train")
            starts: Places = read_array(self.folder / f"{split}.starts.npy")
            if starts[-1] != len(words):
                raise DamageError(f"{split} has {len(words)} words where {starts[-1]} were written")
        return Texts(words, starts)

    def _write(self, split: str, texts: Texts) -> None:
        for part, values in (("words", texts.words), ("starts", texts.starts)):
            buffer = io.BytesIO()
            np.save(buffer, values)
            # No copy, unlike that of getbuffer().tobytes().
            write_bytes(self.folder / f"{split}.{part}.npy", buffer.getvalue())


class _Numbers:
    """Numbers for words, in the order in which they first come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def texts(self, texts: Iterable[list[str]]) -> Texts:
        numbers = self._numbers
        parts = [
            np.fromiter(
                (numbers.setdefault(word, len(numbers)) for word in words), np.int32, len(words)
            )
            for words in texts
        ]
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return Texts(np.concatenate(parts) if parts else np.zeros(0, np.int32), starts)

    def frequent(self, texts: Texts, size: int, min_books: int) -> list[str]:
        """The most frequent words, at most `size`, of those in at least `min_books` texts."""
        counts, books = (
            np.zeros(len(self._numbers), np.int64),
            np.zeros(len(self._numbers), np.int32),
        )
        for start, end in itertools.pairwise(texts.starts):
            of_book = np.bincount(texts.words[start:end], minlength=len(counts))
            counts += of_book
            books += of_book > 0
        ranking = [
            (-int(counts[number]), word)
            for word, number in self._numbers.items()
            if books[number] >= max(min_books, 1)
        ]
        if not ranking:
            raise UserError(
                f"`min_books`={min_books}: no word stands in that many of the {len(texts)} training"
                " texts; give fewer, or more texts."
            )
        return [word for _, word in sorted(ranking)[:size]]

    def ids(self, words: list[str], first: int) -> Ids:
        """The id of every word by its number: from `first` for `words`, above those for others."""
        known = {word: first + place for place, word in enumerate(words)}
        unknown = iter(range(first + len(words), first + len(words) + len(self._numbers)))
        return np.array(
            [known[word] if word in known else next(unknown) for word in self._numbers], np.int32
        )


def _counts(texts: Texts, vocab_size: int) -> dict[str, int]:
    words = texts.words
    last = words[texts.starts[1:] - 1]
    unknown = {
        "unknown": int((words >= vocab_size).sum()),
        "unknown_last": int((last >= vocab_size).sum()),
    }
    return {"texts": len(texts), "words": len(words), **unknown}


def _told(name: str, summary: dict[str, Any], sources: Sources) -> Iterator[str]:
    made = (
        "made from the training text" if summary["own_vocabulary"] else "from the vocabulary file"
    )
    yield f"{name}: {summary['words']:,} words, {made}"
    for split, counts in summary["splits"].items():
        where = sources.train or sources.archive
        if split != "train":
            where = sources.plain.get(PASSAGE_FILES[split], sources.archive)
        kind = "books" if split == "train" else "passages"
        last = ""
        if split != "train":
            last = (
                f"; of the words to be guessed {_percent(counts['unknown_last'], counts['texts'])}"
            )
        unknown = f"{_percent(counts['unknown'], counts['words'])} of the words are unknown{last}"
        yield (
            f"{name}: {split}: {counts['texts']:,} {kind}, {counts['words']:,} words from {where};"
            f" {unknown}"
        )
    missing = [file for split, file in PASSAGE_FILES.items() if split not in summary["splits"]]
    if missing:
        yield f"{name}: there is no {' and no '.join(missing)}: nothing can be judged on these"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"
