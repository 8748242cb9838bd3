"""The contract of a problem: what it is made of, where its data comes from, how it is judged.

A problem prepares its data once, yields single examples as dictionaries of tensors, and names the
sets it is evaluated on::

    problem = registry.problems.get("babi_qa")()
    problem.prepare(data_dir, tmp_dir)
    problem.spec(data_dir)                       # ProblemSpec(inputs="facts", targets="class", ...)
    # tf.data.Dataset of {"inputs": [rows, words], "targets": []}
    problem.dataset("train", data_dir, seed=1)

Ids: 0 is padding, 1 ends a sequence, so the first symbol is 2. Class ids start at 0. In "facts"
inputs each row holds the word ids of one fact, padded with 0, and the last row is the question.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec as ProblemSpec
from ut_tf.symbols import END_ID as END_ID
from ut_tf.symbols import FIRST_SYMBOL_ID as FIRST_SYMBOL_ID
from ut_tf.symbols import PADDING_ID as PADDING_ID

if TYPE_CHECKING:
    from ut_tf.data.table import ExampleTable
    from ut_tf.data.text.codec import TextCodec


@dataclass(frozen=True)
class EvaluationSet:
    """One set of examples and the way they are judged.

    Args:
      name: prefix of its metrics ("length_400"); empty where the problem has one set only.
      split: the split its examples come from.
      method: classify (arg max over classes), teacher_forced (next symbol given the right ones),
        last_word (the same, and the last symbol of each example for itself), ranking (whether the
        last symbol is more probable than the feature "alternative", an id []), greedy
        (autoregressive), or translate (autoregressive, scored as text against the problem's
        text_pairs).
      length: length of its examples, for problems that make them to measure.
      group_by: feature of the examples whose value names a group that is reported for itself (bAbI:
        "task").
      ponder_by: feature of the examples whose value names a group whose ponder time is reported for
        itself (bAbI: "supporting_facts").
      max_examples: examples judged at most, evenly spaced over the split (of a problem without a
        table: the first ones); 0: all.
      decode: options of DecodeConfig, "name=value,name=value", for the method translate; greedy by
        default, which is quickest.
    """

    name: str
    split: str
    method: Literal["classify", "teacher_forced", "last_word", "ranking", "greedy", "translate"]
    length: int | None = None
    group_by: str | None = None
    ponder_by: str | None = None
    max_examples: int = 0
    decode: str = "beam_size=1"


class Problem(ABC):
    """A task. Subclasses are small and hold no state but caches of what lies in the data
    directory.
    """

    name: str = ""
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    selection_metric: tuple[str, Literal["min", "max"]] = ("loss", "min")
    """The validation metric that decides which checkpoint is best and when to stop early."""

    @abstractmethod
    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Makes or downloads the data in `data_dir` (archives come from or go to `tmp_dir`);
        returns at once where it is there.

        Raises:
          UserError: the data can neither be found nor fetched; says where it was looked for and
            where to put it.
        """

    @abstractmethod
    def spec(self, data_dir: Path) -> ProblemSpec:
        """Returns what a model must know; the data must be prepared."""

    @abstractmethod
    def dataset(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> Any:
        """Returns a finite tf.data.Dataset of single examples: {"inputs": int32, "targets": int32,
        ...}.

        "train" is one epoch, in an order (for generated data: with a content) that (seed, epoch)
        alone decides; the other splits have a fixed content and order. `length` asks for examples
        of that length where the problem can make them.
        """

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable | None:
        """Returns the examples of ``dataset`` as a table by number, where the problem can: batches
        are then made many times faster.

        Default: None, and the pipeline reads ``dataset``.
        """
        del split, data_dir, seed, epoch, length
        return None

    @abstractmethod
    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """Returns what ut-eval judges; `lengths` replaces the lengths that the problem would
        choose.
        """

    def validation_sets(self) -> list[EvaluationSet]:
        """Returns what is judged during training; default: the validation split, by the method of
        evaluation_sets.
        """
        method = self.evaluation_sets()[0].method
        return [EvaluationSet(name="", split="validation", method=method)]

    def summarize(self, metrics: dict[str, float]) -> dict[str, float]:
        """Returns metrics computed from those of all sets (means over tasks and the like); default:
        none.
        """
        del metrics
        return {}

    def text_codec(self, vocab_dir: Path) -> TextCodec:
        """Returns what turns raw text into features and outputs into text.

        Args:
          vocab_dir: folder that holds the problem's ``vocab_files`` under their names (a run
            directory's vocab/).

        Raises:
          UserError: the problem has no text form, or a file in `vocab_dir` cannot be read.
        """
        del vocab_dir
        raise UserError(
            f"problem {self.name} has no text form (no text_codec): it can be trained and"
            " evaluated, but not decoded from text."
        )

    def text_pairs(self, split: str, data_dir: Path) -> tuple[list[str], list[str]]:
        """Returns the raw sources and references of a split, in order, for scores on text (BLEU).

        Raises:
          UserError: the problem has no text form.
        """
        del split, data_dir
        raise UserError(f"problem {self.name} has no text pairs: it cannot be judged on texts.")

    def text_metrics(self, written: list[str], references: list[str]) -> dict[str, float] | None:
        """Returns the metrics of outputs as text, for the method "translate"; None, the default:
        BLEU and chrF.

        Args:
          written: what the model wrote for each source of ``text_pairs``.
          references: the references, in the same order.
        """
        del written, references
        return None

    def text_intervals(
        self, written: list[str], references: list[str]
    ) -> dict[str, tuple[float, float]]:
        """Returns 95 % intervals of those ``text_metrics`` that have one (see
        ut_tf.metrics.intervals); default: none.

        Called by ut-eval alone, with the arguments of ``text_metrics``.
        """
        del written, references
        return {}

    def data_note(self, data_dir: Path) -> str:
        """Returns in a few words how the prepared data differs from the published benchmark's;
        empty, the default: it does not.

        "simulated", "partial archive": what ut-report prints beside a figure that cannot be
        compared with the paper's without a word.
        """
        del data_dir
        return ""

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """Returns the files that a run directory must hold to turn raw text into ids and back;
        default: none.
        """
        del data_dir
        return []
