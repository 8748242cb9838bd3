"""A parallel corpus made ready for training: vocabulary, ids, raw validation and test text.

How it is used::

    corpus = Corpus(folder, CorpusSettings(vocab_size=8000, exact=False))
    corpus.prepare({"train": pairs, "validation": other_pairs}, "translate_files", pairs.files)
    corpus.summary["vocab_size"], corpus.ids("train"), corpus.text("validation")

One pass counts the training pairs and checks them, a second trains the vocabulary on a sample, a
third encodes them. A stopped preparation is continued; ``plan.json`` records its sources, and other
sources start it again.
"""

import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ut_tf.config.processor import usable_cores
from ut_tf.data.corpus.encoded_pairs import PairIds, read_counts, read_shards
from ut_tf.data.corpus.encoding import Filters, Pair, encode_split, progress_bar, sample_items
from ut_tf.data.corpus.held_out import LONGEST_JUDGED, HeldOut
from ut_tf.data.corpus.parallel_text import ParallelFiles
from ut_tf.data.prepared import DamageError, PreparedFolder, check_readable, source_record
from ut_tf.data.split_of import same_text
from ut_tf.data.text.subword_files import AnySubwords, read_subwords, warn_of_other_text
from ut_tf.data.text.subwords import SubwordKind, fit_texts, smaller_vocabulary, train_subwords
from ut_tf.errors import UserError, counted
from ut_tf.notices import report
from ut_tf.storage.files import open_regular, sha256_of, write_bytes, write_text
from ut_tf.storage.json_lines import read_object_of

VOCAB_FILE = "subwords.model"
FORMAT = 2
_SAMPLED_PAIRS = 1_000_000
# Why pairs are left out, as it is told.
_REASONS = {
    "empty": "with an empty side",
    "too_long": "with a line of more than {max_characters} characters",
    "length_ratio": "with one side more than {max_length_ratio:g} times as long as the other",
    "held_out": "held out for validation",
    "like_held_out": (
        "with the source or the target of a pair held out for validation; disjoint_splits=false"
        " trains on them"
    ),
}


@dataclass(frozen=True)
class CorpusSettings:
    """The settings that decide the prepared files, besides the text.

    Args:
      vocab_size: ids of the vocabulary that is trained.
      exact: whether a text that supports fewer is an error.
      fitted: whether a small text has fewer, so that each is seen often enough to be learnt.
      disjoint: whether sides that differ from held-out ones in their blanks alone, or in how their
        characters are composed, are left out of training, as equal ones are.
      sized: whether the user gave `vocab_size`, which the model's file notes.
      subword_model: kind of that vocabulary.
      vocab_file: a vocabulary to use instead, whatever its size; empty: one is trained.
      filters: what is left out of the training text.
    """

    vocab_size: int
    exact: bool = True
    fitted: bool = False
    disjoint: bool = False
    sized: bool = True
    subword_model: SubwordKind = "bpe"
    vocab_file: str = ""
    filters: Filters = field(default_factory=Filters)

    def decisive(self) -> dict[str, Any]:
        """The settings that decide the files, ready for JSON: `exact` only says which of them is
        accepted, and `sized` changes no subword. What is false names no folder, as in version 0.4.
        """
        values = dataclasses.asdict(self)
        del values["exact"], values["sized"]
        if self.vocab_file or not self.fitted:
            del values["fitted"]
        if not self.disjoint:
            del values["disjoint"]
        return {**values, "vocab_size": 0} if self.vocab_file else values


class Corpus:
    """The folder of one prepared corpus.

    Args:
      folder: its path.
      settings: how it is made.
      processes: how many encode at once; 0: one for each core that this process may use.
      beam_options: of the Apache Beam pipeline that encodes the training text instead; empty: none
        does.
    """

    def __init__(
        self, folder: Path, settings: CorpusSettings, processes: int = 0, beam_options: str = ""
    ) -> None:
        self.prepared = PreparedFolder(
            folder,
            needed=(VOCAB_FILE,),
            fields={"vocab_size": int, "vocab_sha256": str, "splits": dict, "files": list},
            digest_keys={VOCAB_FILE: "vocab_sha256"},
        )
        self.folder = folder
        self.settings = settings
        self._processes = processes or usable_cores()
        self._beam_options = beam_options
        self.vocab_file = folder / VOCAB_FILE

    def prepare(
        self, splits: Mapping[str, Iterable[Pair]], name: str, files: Iterable[Path] = ()
    ) -> None:
        """Makes what is missing, and tells on standard error what was made and what was left out.

        Args:
          splits: "train", and "validation" and "test" where there are any; without "validation"
            training pairs are held out.
          name: of the problem, for messages.
          files: that the text is read from: what is prepared is known to be of these.

        Raises:
          UserError: the text is not what it should be, or supports no vocabulary of that size.
        """
        if self._beam_options:
            from ut_tf.data.apache_beam_runner import require_beam

            require_beam()
        check_readable(files)
        report(f"preparing {name} in {self.folder}")
        train = splits["train"]
        sources = [source_record(path) for path in files]
        total = self._begin(train, sources)
        key = same_text if self.settings.disjoint else str
        filters = self.settings.filters
        held_out = HeldOut(train, total, filters, key) if "validation" not in splits else None
        subwords = self._vocabulary(train, total, held_out)
        counts: dict[str, dict[str, int]] = {}
        for split in ("validation", "test"):
            pairs = list(splits.get(split, ()))
            if split == "validation" and held_out:
                pairs = held_out.pairs
            if pairs:
                self._write_text(split, pairs)
                counts[split] = dict(encode_split(pairs, self.folder, split, self.vocab_file))
                self._check_judged(split, pairs, splits.get(split))
        kept = held_out.training_pairs(train) if held_out else train
        left = self._encode_training(kept, total)
        if held_out:
            left.update(
                pairs=total - left["pairs"],
                held_out=len(held_out.pairs),
                like_held_out=held_out.alike,
            )
        counts["train"] = {"pairs": 0, "kept": 0, **left}
        summary = {
            "format": FORMAT,
            "vocab_size": subwords.size,
            "vocab_sha256": sha256_of(self.vocab_file),
            "splits": counts,
            "files": sources,
        }
        self.prepared.finish(summary)
        report("\n".join(self._told(name, subwords, counts)))
        for split in counts:
            of_split = read_shards(sorted(self.folder.glob(f"{split}-*.npz"))[:1])
            for side, text in zip(of_split, ("sources", "targets"), strict=True):
                warn_of_other_text(subwords, side.ids, f"the {text} for {split} of {name}")

    @property
    def summary(self) -> dict[str, Any]:
        """The summary of the prepared data: "vocab_size", "splits" with counts, "files".

        Raises:
          UserError: it or the vocabulary is not as it was written.
        """
        return self.prepared.summary()

    def ids(self, split: str) -> PairIds:
        """The ids of a split.

        Raises:
          UserError: a shard is missing or damaged.
        """
        with self.prepared.reading():
            kept = self.summary["splits"][split]["kept"]
            pairs = read_shards(sorted(self.folder.glob(f"{split}-*.npz")))
            if len(pairs) != kept:
                raise DamageError(f"{len(pairs)} {split} pairs where {kept} were written")
        return pairs

    def shards(self, split: str) -> list[Path]:
        """The files with the ids of a split.

        Raises:
          UserError: a shard is missing or damaged.
        """
        with self.prepared.reading():
            kept = self.summary["splits"][split]["kept"]
            paths = sorted(self.folder.glob(f"{split}-*.npz"))
            if sum(read_counts(path)["kept"] for path in paths) != kept:
                raise DamageError(f"the shards of {split} do not have the {kept} pairs written")
        return paths

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The sources and the targets of the validation or the test split, as they stood in the
        files.
        """
        with self.prepared.reading():
            return _read_text(self._text_file(split, "source")), _read_text(
                self._text_file(split, "target")
            )

    def check(self) -> None:
        """Raises UserError where what is prepared is not what is wanted now: a file has changed, or
        `exact` is not met.
        """
        self.prepared.refuse_changed_sources()
        summary, settings = self.summary, self.settings
        if (
            settings.exact
            and not settings.vocab_file
            and summary["vocab_size"] != settings.vocab_size
        ):
            raise UserError(
                f"`vocab_size`={settings.vocab_size}: the training text supports at most"
                f" {summary['vocab_size']} subwords; give that or less."
            )

    @property
    def _plan_file(self) -> Path:
        return self.folder / "plan.json"

    def _text_file(self, split: str, side: str) -> Path:
        return self.folder / f"{split}.{side}.txt"

    def _write_text(self, split: str, pairs: list[Pair]) -> None:
        for number, side in enumerate(("source", "target")):
            write_text(self._text_file(split, side), "".join(f"{pair[number]}\n" for pair in pairs))

    def _check_judged(self, split: str, pairs: list[Pair], origin: Iterable[Pair] | None) -> None:
        """Raises UserError where a pair is too long to be judged: nothing is left out of validation
        and test text.
        """
        encoded = read_shards(sorted(self.folder.glob(f"{split}-*.npz")))
        for of_target, side in enumerate((encoded.sources, encoded.targets)):
            if not len(side.lengths) or side.lengths.max() <= LONGEST_JUDGED:
                continue
            number = int(side.lengths.argmax())
            where = f"pair {number + 1} for {split}"
            if isinstance(origin, ParallelFiles):
                where = origin.place(number, bool(of_target))
            raise UserError(
                f"{where}: {side.lengths[number]} subwords ({pairs[number][of_target][:40]!r} ...),"
                f" expected at most {LONGEST_JUDGED} in text for {split}: split the line, or take"
                " it and its translation out."
            )

    def _begin(self, train: Iterable[Pair], sources: list[dict[str, Any]]) -> int:
        """The number of training pairs, after removing what an earlier preparation made from other
        things.
        """
        wanted = {"format": FORMAT, "settings": self.settings.decisive(), "files": sources}
        plan = read_object_of(self._plan_file)
        vocabulary = sha256_of(self.vocab_file) if self.vocab_file.is_file() else None
        if (
            plan
            and {name: plan.get(name) for name in wanted} == wanted
            and plan.get("vocab_sha256") == vocabulary
        ):
            return int(plan["train_pairs"])
        shutil.rmtree(self.folder, ignore_errors=True)
        total = sum(1 for _ in progress_bar("counting", items=train))
        write_text(self._plan_file, json.dumps({**wanted, "train_pairs": total}, indent=2) + "\n")
        return total

    def _vocabulary(
        self, train: Iterable[Pair], total: int, held_out: HeldOut | None
    ) -> AnySubwords:
        settings = self.settings
        if not self.vocab_file.is_file():
            if settings.vocab_file:
                model = read_subwords(Path(settings.vocab_file)).model
            else:
                report(
                    f"training a {settings.subword_model} vocabulary of"
                    f" {'at most ' if settings.fitted else ''}{settings.vocab_size} subwords"
                )
                pairs = _sample(held_out.training_pairs(train) if held_out else train, total)
                texts: Iterable[str] = (
                    text for pair in pairs if not settings.filters.of_text(*pair) for text in pair
                )
                size = settings.vocab_size
                if settings.fitted:
                    texts, size = fit_texts(texts, size)
                model = train_subwords(
                    texts, size, settings.subword_model, settings.exact, settings.sized
                )
            write_bytes(self.vocab_file, model)
            # The shards that follow are of this vocabulary: another one in its place is found out
            # by it.
            plan = {**read_object_of(self._plan_file), "vocab_sha256": sha256_of(self.vocab_file)}
            write_text(self._plan_file, json.dumps(plan, indent=2) + "\n")
        return read_subwords(self.vocab_file)

    def _encode_training(self, pairs: Iterable[Pair], total: int) -> Counter[str]:
        filters = self.settings.filters
        if not self._beam_options:
            return encode_split(
                pairs, self.folder, "train", self.vocab_file, filters, total, self._processes
            )
        from ut_tf.data.corpus.apache_beam_encoding import encode_with_beam

        return encode_with_beam(
            pairs, self.folder, "train", self.vocab_file, filters, self._beam_options, total
        )

    def _told(
        self, name: str, subwords: AnySubwords, counts: dict[str, dict[str, int]]
    ) -> Iterator[str]:
        train = counts["train"]
        others = "".join(
            f", {of_split['pairs']} for {split}"
            for split, of_split in counts.items()
            if split != "train"
        )
        yield (
            f"{name}: {counted(train['kept'], 'pair')} for training{others}; {subwords.size}"
            " subwords"
        )
        values = dataclasses.asdict(self.settings.filters)
        for reason, words in _REASONS.items():
            if train.get(reason):
                yield (
                    f"{name}: left out of training: {counted(train[reason], 'pair')}"
                    f" {words.format(**values)}"
                )
        kind, wanted = self.settings.subword_model, self.settings.vocab_size
        smaller = smaller_vocabulary(name, kind, subwords.size, wanted)
        if smaller and not self.settings.vocab_file:
            yield smaller


def _sample(pairs: Iterable[Pair], total: int) -> Iterable[Pair]:
    """About `_SAMPLED_PAIRS` of the pairs; all of them where there are no more."""
    return pairs if total <= _SAMPLED_PAIRS else sample_items(pairs, _SAMPLED_PAIRS / total)


def _read_text(path: Path) -> list[str]:
    with open_regular(path) as file:
        return file.read().decode("utf-8").split("\n")[:-1]
