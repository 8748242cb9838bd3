"""LAMBADA (Paperno et al. 2016, arXiv 1606.06031): what its two forms share.

``archive`` reads the files, ``corpus`` keeps them as numbers, ``passages`` cuts windows and
passages; the forms are ``language_model`` and ``reading``.
"""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import tensorflow as tf

from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.problems.lambada.archive import find_sources, find_texts, text_files
from ut_tf.problems.lambada.corpus import LambadaCorpus, LambadaSettings, Texts

_FOLDER = "lambada"
EvaluateOn = Literal["test", "development"]


class LambadaProblem(Problem):
    """Base of both forms: files, vocabulary, prepared data.

    Args:
      name: the problem's name, for messages.
      control: whether the control passages are judged instead of the test passages.
      settings: what decides the prepared data.
      train_files: folder or tar file of texts (*.txt) to train on instead of the archive's novels;
        a relative path is also looked for in the temporary directory and its folder lambada.
      evaluate_on: what ut-eval judges: the "test" passages, or those of "development" where one
        has no others.
    """

    # Enough to tell checkpoints apart.
    validated = 500

    def __init__(
        self,
        name: str,
        control: bool,
        settings: LambadaSettings,
        train_files: str,
        evaluate_on: EvaluateOn,
    ) -> None:
        for argument, least in (("vocab_size", 1), ("unknown_words", 0), ("min_books", 1)):
            if getattr(settings, argument) < least:
                raise UserError(
                    f"`{argument}`={getattr(settings, argument)}: expected at least {least}."
                )
        if control and evaluate_on != "test":
            raise UserError(
                f"{name} judges the control passages: leave `evaluate_on`={evaluate_on} out, or"
                " take another problem."
            )
        self.name = name
        self._settings = settings
        self._train_files = train_files
        self._control = control
        self._evaluate_on = evaluate_on
        self._loaded: dict[tuple[Path, str], Texts] = {}
        self._tensors: dict[tuple[Path, str], Any] = {}

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Makes vocabulary and numbers, or returns at once where they are there.

        Raises:
          UserError: the files cannot be had or are not as they should be, or have changed since.
        """
        corpus = self._corpus(data_dir)
        corpus.prepared.make_once(lambda: self._make(corpus, tmp_dir))
        corpus.check(self._own_texts(tmp_dir))

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """Returns words.txt, one symbol a line, from id 2 on."""
        return [self._corpus(data_dir).words_file]

    def data_note(self, data_dir: Path) -> str:
        """The parts of the benchmark that were replaced: training text, vocabulary."""
        summary = self._prepared(data_dir).summary
        notes = []
        if summary["own_text"]:
            notes.append(f"trained on {summary['splits']['train']['texts']:,} other books")
        if summary["own_vocabulary"]:
            notes.append(f"vocabulary of {summary['words']:,} words made from the training text")
        return "; ".join(notes)

    @property
    def judged_split(self) -> str:
        """The test or the development passages."""
        return "validation" if self._evaluate_on == "development" else "test"

    def _corpus(self, data_dir: Path) -> LambadaCorpus:
        # As earlier versions, which had cross-validation, name the folder.
        settings = {**dataclasses.asdict(self._settings), "use_novels": True, "folds": 0, "fold": 0}
        decides = json.dumps([settings, self._train_files], sort_keys=True)
        return LambadaCorpus(data_dir / _FOLDER / hashlib.sha256(decides.encode()).hexdigest()[:8])

    def _make(self, corpus: LambadaCorpus, tmp_dir: Path) -> None:
        sources = find_sources(tmp_dir, self._train_files, self.name)
        corpus.prepare(sources, self._settings, self.name)

    def _own_texts(self, tmp_dir: Path) -> list[Path]:
        """The files of one's own training texts, none where they cannot be had: data that is
        prepared does not need them.
        """
        try:
            return text_files(find_texts(tmp_dir, self._train_files)) if self._train_files else []
        except (UserError, OSError):
            return []

    def _prepared(self, data_dir: Path) -> LambadaCorpus:
        corpus = self._corpus(data_dir)
        corpus.prepared.require(self, data_dir)
        return corpus

    def _texts(self, split: str, data_dir: Path) -> Texts:
        """The texts of "train", "validation", or what the split "test" means here."""
        self.check_split(split)
        kept = "control" if split == "test" and self._control else split
        key = (data_dir, kept)
        if key not in self._loaded:
            corpus = self._prepared(data_dir)
            if kept not in corpus.summary["splits"]:
                raise UserError(
                    f"{self.name} was prepared in {corpus.folder} without the {kept} passages: put"
                    " them in the `tmp_dir` and delete that folder, or judge the development"
                    " passages (`split`=validation, or `evaluate_on`=development of the problem)."
                )
            self._loaded[key] = corpus.texts(kept)
        return self._loaded[key]

    def _words(self, split: str, data_dir: Path) -> Any:
        """The words of ``_texts`` as a tensor, made once: novels fill a good part of the memory."""
        key = (data_dir, split)
        if key not in self._tensors:
            self._tensors[key] = tf.constant(self._texts(split, data_dir).words, tf.int32)
        return self._tensors[key]
