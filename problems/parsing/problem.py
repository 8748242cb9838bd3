"""Constituency parsing: a sentence in, its tree as a sequence of symbols out (Section 6.3 of arXiv
1706.03762; arXiv 1412.7449).

Names: parse_ptb; wsj_parsing, parsing_english_ptb8k and parsing_english_ptb16k are tensor2tensor's.
``files`` finds trees and divides them, ``trees`` reads and writes them, ``score`` compares them.

How it works: prepared data is a folder with the vocabularies of sentences and trees (one and the
same where trees are written with their words), the ids of each split, and the plain trees of
validation and test. Words that stand once in the training trees are left to the kinds of
``codec``.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ut_tf.data.arguments import file_paths
from ut_tf.data.corpus.encoded_pairs import PairIds, PairTable, Side, read_shards, write_shard
from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.prepared import PreparedFolder
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.notices import report
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.parsing.alignment import LEAF
from ut_tf.problems.parsing.files import (
    TreeSplits,
    digest_of,
    exclude_trained_trees,
    find_treebank,
    read_tree_files,
    split_treebank,
)
from ut_tf.problems.parsing.score import compare, intervals, scores
from ut_tf.problems.parsing.trees import Tree, linearise, read_trees
from ut_tf.storage.files import write_text
from ut_tf.symbols import FIRST_SYMBOL_ID

if TYPE_CHECKING:
    from ut_tf.problems.parsing.codec import ParseCodec

Files = tuple[str, ...]
_FOLDER = "parsing"
_WORDS_FILE, _LABELS_FILE = "words.txt", "labels.txt"
_HELD_OUT_SHARE = 0.05
# A kind of words that fewer training words have is not worth an id.
_LEAST_OF_A_KIND = 5
# Trees written at every evaluation during training.
_VALIDATED = 100
_GREEDY, _BEAM = "beam_size=1,extra_length=150", "beam_size=4,alpha=0.6,extra_length=300"
_ENCODED = 1000


class Parsing(Problem):
    """Sentences and their trees.

    Args:
      train_trees: files, folders or zip archives; none: what is found in the temporary directory.
      dev_trees: likewise for validation; none: the last twentieth of the training trees.
      test_trees: likewise for ut-eval; none: the validation trees are judged.
      vocab_words: words of the vocabulary at most, the most common ones; 0: any number.
      leaves: how a tree is written: with its "words", which are the inputs' own symbols, or with
        "XX" for each of them.
      disjoint_splits: whether trees that are held out of the training trees are without sentences
        that are trained on.
      name: the problem's name, for messages.
    """

    selection_metric = ("f1", "max")
    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {
        "train_trees": "files",
        "dev_trees": "files",
        "test_trees": "files",
    }
    earlier_arguments: ClassVar[Mapping[str, Any]] = {"disjoint_splits": False}

    def __init__(
        self,
        train_trees: Files | str = (),
        dev_trees: Files | str = (),
        test_trees: Files | str = (),
        vocab_words: int = 0,
        leaves: Literal["words", "XX"] = "words",
        disjoint_splits: bool = True,
        name: str = "parse_ptb",
    ) -> None:
        self.name = name
        self._with_words = leaves == "words"
        self._files = {
            "train": file_paths(train_trees),
            "validation": file_paths(dev_trees),
            "test": file_paths(test_trees),
        }
        self._vocab_words = vocab_words
        self._keeps_apart = disjoint_splits
        self._tables: dict[tuple[Path, str], PairTable] = {}
        if vocab_words < 0:
            raise UserError(f"`vocab_words`={vocab_words}: expected at least 0.")
        if leaves not in ("words", "XX"):
            raise UserError(f"`leaves`={leaves!r}: expected words or XX.")
        if not self._files["train"] and (self._files["validation"] or self._files["test"]):
            raise UserError(
                "`train_trees` is missing: `dev_trees` and `test_trees` name files of their own;"
                " name all three."
            )

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Writes vocabularies, ids and trees and, last of all, the summary that says that
        everything is there.

        Raises:
          UserError: the trees cannot be found or read, or what was prepared before is damaged.
        """
        folder = self._folder(data_dir)
        made = folder.make_once(
            lambda: self._prepare(folder, self._read(tmp_dir), digest_of(self._sources(tmp_dir)))
        )
        if not made and self._changed(folder, tmp_dir):
            folder.warn_of_other_sources(self, ", ".join(map(str, self._sources(tmp_dir))))

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens to tokens over one vocabulary or two, with their sizes."""
        folder = self._prepared(data_dir)
        with folder.reading():
            words, symbols = folder.summary()["vocab_sizes"]
            labels = folder.verified(_LABELS_FILE).read_text(encoding="utf-8").split("\n")
        return ProblemSpec(
            "tokens",
            "tokens",
            input_vocab_size=words,
            target_vocab_size=symbols,
            shared_vocab=self._with_words,
            leaf_symbol=0 if self._with_words else FIRST_SYMBOL_ID + labels.index(LEAF),
        )

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": [length], "targets": [target length]}, int32; `length` has no effect. The
        split is read into memory the first time.
        """
        table = self._table(split, data_dir)
        return table.examples(example_order(split, len(table), seed, epoch))

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """The test split (the validation split, where trees were named for training alone), written
        by beam search.
        """
        split = "validation" if self._files["train"] and not self._files["test"] else "test"
        return [
            EvaluationSet(name="", split=split, method="teacher_forced"),
            EvaluationSet(name="", split=split, method="translate", decode=_BEAM),
        ]

    def validation_sets(self) -> list[EvaluationSet]:
        """The validation split for the loss, and some of it written greedily: what chooses the
        checkpoint.
        """
        return [
            EvaluationSet(name="", split="validation", method="teacher_forced"),
            EvaluationSet(
                name="",
                split="validation",
                method="translate",
                decode=_GREEDY,
                max_examples=_VALIDATED,
            ),
        ]

    def text_codec(self, vocab_dir: Path) -> ParseCodec:
        """The codec of sentences and linearised trees."""
        from ut_tf.problems.parsing.codec import ParseCodec

        return ParseCodec(vocab_dir)

    def text_pairs(self, split: str, data_dir: Path) -> tuple[list[str], list[str]]:
        """The sentences of the validation or test split, words with blanks between them, and their
        trees in brackets.

        Raises:
          UserError: it is another split.
        """
        self._check_split(split, data_dir)
        if split == "train":
            raise UserError(
                f"the training trees of {self.name} are not kept: scores on text are for validation"
                " and test."
            )
        folder = self._prepared(data_dir)
        path = folder.verified(f"{split}.trees")
        with folder.reading():
            trees = list(read_trees(path.read_text(encoding="utf-8"), str(path)))
        return [" ".join(leaf.word for leaf in tree.leaves()) for tree in trees], [
            str(tree) for tree in trees
        ]

    def text_metrics(self, written: list[str], references: list[str]) -> dict[str, float]:
        """Returns f1, precision, recall, exact_match and malformed, all in percent; see
        ``score``.
        """
        return scores(map(compare, written, references))

    def text_intervals(
        self, written: list[str], references: list[str]
    ) -> dict[str, tuple[float, float]]:
        """The 95 % intervals of ``text_metrics``."""
        return intervals(map(compare, written, references))

    def data_note(self, data_dir: Path) -> str:
        """The trees in words, where they are not the Wall Street Journal's usual sections."""
        return str(self._prepared(data_dir).summary()["note"])

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """Returns words.txt and labels.txt, one symbol a line, ids from 2."""
        return [self._folder(data_dir).path / name for name in (_WORDS_FILE, _LABELS_FILE)]

    def _sources(self, tmp_dir: Path) -> list[Path]:
        """The files, folders and archives that trees are read from; none where none were named or
        found.
        """
        treebank = None if self._files["train"] else find_treebank(tmp_dir)
        return [path for paths in self._files.values() for path in paths] + (
            [treebank] if treebank else []
        )

    def _changed(self, folder: PreparedFolder, tmp_dir: Path) -> bool:
        """Whether the sources are there, with another content than the data was prepared from."""
        before, sources = folder.summary().get("sources"), self._sources(tmp_dir)
        now = digest_of(sources) if before and sources else ""
        return bool(now) and now != before

    def _read(self, tmp_dir: Path) -> TreeSplits:
        if not self._files["train"]:
            treebank = find_treebank(tmp_dir)
            if treebank is None:
                raise UserError(
                    f"{self.name} finds no trees: expected treebank.zip or a folder treebank in"
                    f" {tmp_dir}, or `train_trees`, `dev_trees` and `test_trees` with files,"
                    " folders or zip archives."
                )
            return self._apart(split_treebank(treebank))
        train, validation, test = (read_tree_files(paths) for paths in self._files.values())
        own = () if validation else ("validation",)
        if own:
            held_out = max(1, int(len(train) * _HELD_OUT_SHARE))
            train, validation = train[:-held_out], train[-held_out:]
        if not train:
            raise UserError(
                f"{self._files['train'][0]} has a single tree: expected one for training and one"
                " for validation at least."
            )
        report = (
            f"your own trees: {len(train)} for training, {len(validation)} for validation,"
            f" {len(test)} for the test"
        )
        return self._apart(TreeSplits(train, validation, test, "your own trees", report, own))

    def _apart(self, trees: TreeSplits) -> TreeSplits:
        return exclude_trained_trees(trees) if self._keeps_apart else trees

    def _prepare(self, folder: PreparedFolder, trees: TreeSplits, sources: str) -> None:
        report(f"preparing {self.name} in {folder.path}\n{trees.report}")
        from ut_tf.data.text.vocabulary import UNKNOWN, write_symbols

        symbols = sorted({symbol for tree in trees.train for symbol in linearise(tree)})
        words = _known_words(
            [leaf.word for tree in trees.train for leaf in tree.leaves()], self._vocab_words
        )
        both = [*(symbol for symbol in symbols if symbol != LEAF), *words]
        write_symbols(folder.path / _WORDS_FILE, [UNKNOWN, *(both if self._with_words else words)])
        write_symbols(
            folder.path / _LABELS_FILE, [UNKNOWN, *(both if self._with_words else symbols)]
        )
        codec = self.text_codec(folder.path)
        counts = {}
        for split, trees_of_split in (
            ("train", trees.train),
            ("validation", trees.validation),
            ("test", trees.test),
        ):
            counts[split] = len(trees_of_split)
            write_shard(
                folder.path / f"{split}.npz",
                _encoded(codec, trees_of_split, self._with_words),
                {"pairs": len(trees_of_split)},
            )
            if split != "train":
                write_text(
                    folder.path / f"{split}.trees", "".join(f"{tree}\n" for tree in trees_of_split)
                )
        files = [
            path.name for path in folder.path.iterdir() if path.suffix in (".txt", ".npz", ".trees")
        ]
        folder.finish(
            {
                "vocab_sizes": codec.vocab_sizes,
                "note": trees.note,
                "splits": counts,
                "sources": sources,
                "sha256": folder.digests(sorted(files)),
            }
        )

    def _folder(self, data_dir: Path) -> PreparedFolder:
        files = {split: [str(path) for path in paths] for split, paths in self._files.items()}
        apart = ["apart"] if self._keeps_apart else []
        decides = json.dumps([files, self._vocab_words, self._with_words, *apart])
        digest = hashlib.sha256(decides.encode()).hexdigest()[:8]
        return PreparedFolder(
            data_dir / _FOLDER / f"{'files' if self._files['train'] else 'found'}-{digest}",
            needed=(_WORDS_FILE, _LABELS_FILE),
            fields={"vocab_sizes": list, "note": str, "splits": dict, "sha256": dict},
        )

    def _prepared(self, data_dir: Path) -> PreparedFolder:
        return self._folder(data_dir).require(self, data_dir)

    def _check_split(self, split: str, data_dir: Path) -> None:
        folder = self._prepared(data_dir)
        there = [name for name, count in folder.summary()["splits"].items() if count]
        if split not in there:
            raise UserError(
                f"{self.name} has no split {split!r} in {folder.path}: expected one of"
                f" {', '.join(there)}; name one by `split`, or add such trees and"
                " delete that folder to prepare it again."
            )

    def _table(self, split: str, data_dir: Path) -> PairTable:
        key = (data_dir, split)
        if key not in self._tables:
            self._check_split(split, data_dir)
            folder = self._prepared(data_dir)
            path = folder.verified(f"{split}.npz")
            with folder.reading():
                self._tables[key] = PairTable(read_shards([path]))
        return self._tables[key]


def _known_words(words: list[str], most: int) -> list[str]:
    """The words that stand more than once, the most common first, after the kinds of the others."""
    import tensorflow as tf

    from ut_tf.data.text.vocabulary import UNKNOWN
    from ut_tf.problems.parsing.codec import kinds_of_words

    counts = Counter(words)
    common = sorted(
        (word for word, count in counts.items() if count > 1),
        key=lambda word: (-counts[word], word),
    )
    common = common[:most] if most else common
    rare = sorted({*counts} - {*common})
    given = tf.constant(rare, tf.string)
    kinds, wider_kinds = (
        Counter(kind.decode() for kind in kinds_of_words(given, ends).numpy())
        for ends in (True, False)
    )
    frequent = sorted(
        {*wider_kinds, *(kind for kind, count in kinds.items() if count >= _LEAST_OF_A_KIND)}
    )
    # A word may look like a kind: "<>" is one.
    return [word for word in dict.fromkeys([*frequent, *common]) if word != UNKNOWN]


def _encoded(codec: ParseCodec, trees: list[Tree], with_words: bool) -> PairIds:
    """The ids of sentences and linearised trees."""
    import tensorflow as tf

    sources: list[list[int]] = []
    targets: list[list[int]] = []
    for first in range(0, len(trees), _ENCODED):
        batch = trees[first : first + _ENCODED]
        sentences = tf.constant([" ".join(leaf.word for leaf in tree.leaves()) for tree in batch])
        written = tf.constant([" ".join(linearise(tree, with_words)) for tree in batch])
        sources += _rows(codec.encode(sentences)["inputs"])
        targets += _rows(codec.encode_targets(written))
    words, labels = codec.vocab_sizes or (0, 0)
    return PairIds(Side.of(sources, words), Side.of(targets, labels))


def _rows(ids: Any) -> list[list[int]]:
    """Returns the ids of each row of int32 [rows, length] without its padding."""
    return [row[row > 0].tolist() for row in ids.numpy()]
