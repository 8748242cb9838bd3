"""Classes of texts, learnt from the user's own files.

How it is used::

    Run.create("classify_files", "ut_classify", problem_args={"source_files": ["reviews.tsv"]})

``labelled_text.py`` says what the files may look like. Without files for validation a tenth of the
training examples of each class is held out.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from ut_tf.data.arguments import file_paths
from ut_tf.data.corpus.corpus import VOCAB_FILE
from ut_tf.data.corpus.encoded_pairs import Array, EncodedExamples, Side
from ut_tf.data.split_of import same_text
from ut_tf.data.text.subword_files import AnySubwords
from ut_tf.data.text.subwords import SubwordOptions
from ut_tf.data.text.vocabulary import write_symbols
from ut_tf.errors import UserError, counted, did_you_mean
from ut_tf.notices import report, warn
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.own_files.codec import CLASSES_FILE, ClassesCodec
from ut_tf.problems.own_files.labelled_text import Labelled, LabelledFiles, read_labelled
from ut_tf.problems.own_files.problem import (
    EARLIER_ARGUMENTS,
    Arrays,
    Files,
    OwnFiles,
    PreparedSplits,
    Settings,
)
from ut_tf.storage.files import write_bytes

_DEFAULT_VOCAB_SIZE = 8000
_HELD_OUT_SHARE, _HELD_OUT_MOST = 0.1, 2000
_SHOWN_CLASSES = 10
# Of more classes, the metrics of the rarer ones are those of a group with this name.
_REPORTED_CLASSES, _OTHER = 20, "other"
# With more classes than examples of a class the columns are probably in the other order.
_FEWEST_EXAMPLES_OF_A_CLASS = 2
# As pandas, Python, JSON and databases write it; "none" may be a class.
_WORDS_FOR_NOTHING = frozenset({"nan", "NaN", "<NA>", "None", "null", "NULL"})


class ClassifyFiles(OwnFiles):
    """Texts and their classes from files.

    Args:
      source_files: for training, texts with their labels or, with `target_files`, texts alone.
      target_files: the labels, line by line.
      dev_source_files, dev_target_files: for validation; none: training examples are held out.
      test_source_files, test_target_files: for ut-eval; none: the validation examples are judged.
      max_subwords: of a longer text its last ones are read, at inference too.
      fit_vocabulary: whether a small text has fewer subwords than `vocab_size`, so that each is
        seen often enough to be learnt; otherwise as many as it supports.
      disjoint_splits: whether nothing that is held out for validation is trained on, however its
        blanks and characters are written.
      name: of the problem, for messages.
      **options: see ``SubwordOptions``; `vocab_size` is 8000 if it is 0.
    """

    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {
        **OwnFiles.file_arguments,
        "vocab_file": "file",
        "target_files": "files",
        "dev_target_files": "files",
        "test_target_files": "files",
    }
    earlier_arguments: ClassVar[Mapping[str, Any]] = EARLIER_ARGUMENTS
    needed: ClassVar[tuple[str, ...]] = (VOCAB_FILE, CLASSES_FILE)
    selection_metric: ClassVar[tuple[str, Literal["min", "max"]]] = ("error", "min")  # type: ignore[misc]
    method: ClassVar[str] = "classify"
    group_by: ClassVar[str | None] = "class"
    unit: ClassVar[str] = "text"

    def __init__(
        self,
        source_files: Files | str = (),
        target_files: Files | str = (),
        dev_source_files: Files | str = (),
        dev_target_files: Files | str = (),
        test_source_files: Files | str = (),
        test_target_files: Files | str = (),
        max_subwords: int = 256,
        fit_vocabulary: bool = True,
        disjoint_splits: bool = True,
        name: str = "classify_files",
        **options: Unpack[SubwordOptions],
    ) -> None:
        if max_subwords < 1:
            raise UserError(f"`max_subwords`={max_subwords}: expected at least 1.")
        given = {
            "": (source_files, target_files),
            "dev_": (dev_source_files, dev_target_files),
            "test_": (test_source_files, test_target_files),
        }
        for prefix, (texts, labels) in given.items():
            if labels and not texts:
                raise UserError(
                    f"`{prefix}source_files` is missing: `{prefix}target_files` holds the labels of"
                    " its lines; give both."
                )
        self._labelled = {
            split: LabelledFiles(file_paths(texts), file_paths(labels))
            for split, (texts, labels) in zip(self.splits, given.values(), strict=True)
        }
        self._max_subwords = max_subwords
        files = {split: files.files for split, files in self._labelled.items()}
        self._settings = Settings.of(_DEFAULT_VOCAB_SIZE, options, fit_vocabulary)
        identity = [self._settings.decisive(), max_subwords]
        super().__init__(name, files, identity, self._settings.given, disjoint_splits)

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens to one class."""
        summary = self.summary(data_dir)
        return ProblemSpec(
            "tokens",
            "class",
            input_vocab_size=int(summary["vocab_size"]),
            target_vocab_size=len(summary["classes"]),
        )

    def usual_spec(self) -> ProblemSpec:
        """Returns the size of the vocabulary that is asked for, and two classes."""
        return ProblemSpec("tokens", "class", self._settings.wanted_size, 2)

    def load(self, split: str, data_dir: Path) -> EncodedExamples:
        """{"inputs": int32 [length], "targets": int32 []} and, except in training, "class": string
        [], the class' name or, of a rare one, "other".
        """
        arrays = self.arrays(split, data_dir)
        columns = {"targets": arrays["classes"]}
        if split != "train":
            names = _reported(self.summary(data_dir)["classes"], arrays["classes"])
            columns["class"] = np.array(names)[arrays["classes"]]
        return EncodedExamples({"inputs": Side(arrays["ids"], arrays["lengths"])}, columns)

    def text_codec(self, vocab_dir: Path) -> ClassesCodec:
        """The codec of texts and class names."""
        return ClassesCodec(vocab_dir, self._max_subwords)

    def make(self, folder: Path) -> PreparedSplits:
        splits = {
            split: list(read_labelled(files))
            for split, files in self._labelled.items()
            if files.texts
        }
        classes = _classes(splits["train"], self._labelled["train"].files)
        more = ", ..." if len(classes) > _SHOWN_CLASSES else ""
        report(f"{len(classes)} classes: {', '.join(classes[:_SHOWN_CLASSES])}{more}")
        for split in splits.keys() - {"train"}:
            _check_labels(splits[split], classes)
        if "validation" not in splits:
            key = same_text if self._keeps_apart else str
            splits["train"], splits["validation"] = _held_out(splits["train"], key)
        subwords = self._settings.subwords(example.text for example in splits["train"])
        write_bytes(folder / VOCAB_FILE, subwords.model)
        write_symbols(folder / CLASSES_FILE, classes)
        encoded = {split: self._encoded(splits[split], subwords, classes) for split in splits}
        return self._settings.made(self.name, subwords, encoded, {"classes": classes})

    def _encoded(
        self, examples: Sequence[Labelled], subwords: AnySubwords, classes: Sequence[str]
    ) -> Arrays:
        numbers = {name: number for number, name in enumerate(classes)}
        # The end symbol is one more.
        most = self._max_subwords + 1
        ids = [ids[-most:] for ids in subwords.encode([example.text for example in examples])]
        labels = np.array([numbers[example.label] for example in examples], np.int32)
        side = Side.of(ids, subwords.size)
        return {"ids": side.ids, "lengths": side.lengths, "classes": labels}


def _reported(names: Sequence[str], classes: Array) -> list[str]:
    """The name that reports each class: its own, or "other" beside many with more examples."""
    if len(names) <= _REPORTED_CLASSES:
        return list(names)
    counts = np.bincount(classes, minlength=len(names))
    frequent = {*np.argsort(-counts, kind="stable")[:_REPORTED_CLASSES].tolist()}
    return [name if number in frequent else _OTHER for number, name in enumerate(names)]


def _classes(examples: Sequence[Labelled], files: Sequence[Path]) -> list[str]:
    """The labels, each once; numbers by their value, others by the alphabet."""
    counts = Counter(example.label for example in examples)
    names = ", ".join(map(str, files))
    if len(counts) == 1:
        raise UserError(
            f"{names}: all {counted(len(examples), 'text')} have the label {next(iter(counts))!r}:"
            " expected at least two classes."
        )
    if len(examples) < _FEWEST_EXAMPLES_OF_A_CLASS * len(counts):
        raise UserError(
            f"{names}: {counted(len(examples), 'text')} have {len(counts)} different labels, such"
            f" as {examples[0].label[:40]!r}: expected the label before the text, and at least"
            f" {_FEWEST_EXAMPLES_OF_A_CLASS} texts of a class on average."
        )
    for one, other in _equal_numbers(counts):
        warn(f"{names}: the labels {one!r} and {other!r} are one number, but two classes.")
    for label in sorted(counts):
        if label in _WORDS_FOR_NOTHING:
            warn(
                f"{names}: {counted(counts[label], 'text')} of the class {label!r}, which programs"
                " write where there is no label."
            )
    if all(label.isdecimal() for label in counts):
        return sorted(counts, key=int)
    return sorted(counts)


def _equal_numbers(labels: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields pairs of different labels that are the same number."""
    former: dict[float, str] = {}
    for label in sorted(labels):
        with contextlib.suppress(ValueError):
            number = float(label)
            if number in former:
                yield former[number], label
            former[number] = label


def _check_labels(examples: Sequence[Labelled], classes: Sequence[str]) -> None:
    known = frozenset(classes)
    for example in examples:
        if example.label not in known:
            near = did_you_mean(example.label, classes) or "."
            raise UserError(
                f"{example.place}: no text for training has the label {example.label!r}{near}"
            )


def _held_out(
    examples: Sequence[Labelled], key: Callable[[str], str]
) -> tuple[list[Labelled], list[Labelled]]:
    """The examples for training and for validation; the second are chosen by a fixed seed from
    each class, and no text of theirs is trained on; `key`: equal for texts that are the same.
    """
    rng = np.random.default_rng(0)
    share = min(_HELD_OUT_SHARE, _HELD_OUT_MOST / len(examples))
    by_class: dict[str, list[int]] = {}
    for number, example in enumerate(examples):
        by_class.setdefault(example.label, []).append(number)
    chosen: set[int] = set()
    for numbers in by_class.values():
        count = min(int(np.ceil(share * len(numbers))), len(numbers) - 1)
        chosen |= {*rng.choice(numbers, count, replace=False).tolist()}
    validation = [examples[number] for number in sorted(chosen)]
    texts = {key(example.text) for example in validation}
    train = [
        example
        for number, example in enumerate(examples)
        if number not in chosen and key(example.text) not in texts
    ]
    if like := len(examples) - len(train) - len(validation):
        report(f"{counted(like, 'training text')} left out, since the same texts are in validation")
    if not train or not validation:
        raise UserError(
            f"{counted(len(examples), 'text')} leave none to hold out for validation: give more, or"
            " files for validation (`dev_source_files`)."
        )
    return train, validation
