"""The contract of a problem: its data, what a model must know of it, and how it is judged.

How it is used::

    problem = registry.problems.get("babi_qa")()
    problem.prepare(data_dir, tmp_dir)
    problem.spec(data_dir)                       # ProblemSpec(inputs="facts", targets="class", ...)
    problem.examples("train", data_dir, seed=1)  # ExampleTable: lengths and batches by number

Ids: 0 is padding, 1 ends a sequence, the first symbol is 2. Class ids start at 0. In "facts" inputs
each row holds the word ids of one fact, padded with 0, and the last row is the question.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, final

from ut_tf import registry
from ut_tf.data.earlier_data import with_earlier_defaults
from ut_tf.data.prepared import NotPreparedError
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec as ProblemSpec
from ut_tf.symbols import END_ID as END_ID
from ut_tf.symbols import FIRST_SYMBOL_ID as FIRST_SYMBOL_ID
from ut_tf.symbols import PADDING_ID as PADDING_ID

if TYPE_CHECKING:
    from ut_tf.data.example_pools import ExamplePools
    from ut_tf.data.example_table import ExampleTable
    from ut_tf.data.text.codec import TextCodec

T = TypeVar("T")
_LONGEST = 100_000


@dataclass(frozen=True)
class EvaluationSet:
    """One set of examples and the way they are judged.

    Args:
      name: prefix of its metrics ("length_400"); empty where the problem has one set only.
      split: the split its examples come from.
      method: registered name of the evaluation method: classify, teacher_forced, aligned,
        aligned_valid, language_model, last_word, ranking, greedy, translate, or one of user code.
      length: length of its examples, for problems that make them to measure.
      group_by: feature of the examples whose value names a group that is reported for itself (bAbI:
        "task").
      ponder_by: feature of the examples whose value names a group whose ponder time is reported for
        itself (bAbI: "supporting_facts").
      max_examples: examples judged at most, evenly spaced over the split; 0: all.
      decode: options of DecodeConfig, "name=value,name=value", for the method translate; greedy by
        default, which is quickest.
    """

    name: str
    split: str
    method: str
    length: int | None = None
    group_by: str | None = None
    ponder_by: str | None = None
    max_examples: int = 0
    decode: str = "beam_size=1"

    def __post_init__(self) -> None:
        registry.evaluation_methods.check(self.method)


class Problem(ABC):
    """A task. A subclass defines ``prepare``, ``spec``, ``examples``, and ``method`` or
    ``evaluation_sets``; it holds no state but caches of what lies in the data directory.
    """

    name: str = ""
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    selection_metric: tuple[str, Literal["min", "max"]] = ("loss", "min")
    """The validation metric that decides which checkpoint is best and when to stop early."""
    method: ClassVar[str] = ""
    """The evaluation method, of a problem that is judged on its whole test split."""
    group_by: ClassVar[str | None] = None
    """The feature that groups the test examples (``EvaluationSet``)."""
    solves: Callable[[Mapping[str, Any], Any], Any] | None = None
    """Makes bool [batch] of features and answers, ids int32 [batch, length]: whether these solve
    their inputs by the rules of the problem alone, of which it reads "inputs"; None: it has none.
    """
    validated: ClassVar[int] = 0
    """Validation examples judged during training at most, evenly spaced; 0: all."""
    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {}
    """The constructor's arguments that name files or folders: one ("file"), or several with commas
    between ("files", passed as a list). A run stores them as absolute paths, so that it can be used
    from another folder.
    """

    earlier_arguments: ClassVar[Mapping[str, Any]] = {}
    """The values of arguments by which runs of version 0.4, which did not know them, have their
    data. Such runs keep them; new runs have the constructor's defaults.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.dataset is not Problem.dataset:
            raise UserError(
                f"problem class {cls.__name__} defines `dataset`, which follows from `examples`:"
                " rename the method to `examples` and return ExampleTable.from_dataset(dataset)"
                " (ut_tf.data.example_table)."
            )
        for name in _OF_FOLDERS:
            own = vars(cls).get(name)
            if own not in (None, vars(Problem)[name]):
                setattr(cls, name, _with_paths_of_any(own))
        if "__init__" in vars(cls):
            cls.__init__ = with_earlier_defaults(  # type: ignore[method-assign]
                vars(cls)["__init__"], cls.earlier_arguments
            )

    @abstractmethod
    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Makes or downloads the data in `data_dir` (archives come from or go to `tmp_dir`);
        returns at once if it is there.

        Raises:
          UserError: the data can neither be found nor fetched; names the places searched and where
            to put it.
        """

    @abstractmethod
    def spec(self, data_dir: Path) -> ProblemSpec:
        """The kinds and sizes of inputs and targets that a model must know; the data must be
        prepared.
        """

    def usual_spec(self) -> ProblemSpec | None:
        """Returns the spec that data of this problem usually has, to plan with before there is any;
        None: nothing is known.
        """
        return None

    def is_prepared(self, data_dir: Path) -> bool:
        """Whether the data is in `data_dir`, be it damaged. A problem that prepares data, but whose
        ``spec`` does not read it, overrides this.
        """
        try:
            self.spec(data_dir)
        except NotPreparedError:
            return False
        except UserError:
            pass  # Whoever reads the damaged data tells of it.
        return True

    @abstractmethod
    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """The examples of a split, by number, with the features "inputs", "targets" and others.

        Args:
          split: "train" is one epoch, in an order (for generated data: with a content) that
            (`seed`, `epoch`) alone decides; the other splits have a fixed content and order.
          data_dir: where ``prepare`` put the data.
          seed: of the run.
          epoch: number of the pass through the data, from 0.
          length: asks for examples of that length, of a problem that generates them.
        """

    def example_pools(self, data_dir: Path, seed: int, epoch: int) -> ExamplePools | None:
        """The training split in pools, where it is too large for ``examples``; None: it is not.

        Args:
          data_dir, seed, epoch: as for ``examples``.
        """
        return None

    @final
    def dataset(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> Any:
        """The same examples, one by one and without padding, as a finite tf.data.Dataset."""
        return self.examples(split, data_dir, seed, epoch, length).dataset()

    def check_split(self, split: str) -> None:
        """Raises UserError if the problem has no such split."""
        if split not in self.splits:
            raise UserError(
                f"{self.name} has no split {split!r}: expected one of {', '.join(self.splits)}."
            )

    @property
    def judged_split(self) -> str:
        """The split of a final evaluation."""
        return "test"

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """The sets of a final evaluation; default: ``judged_split``, by ``method``.

        Args:
          lengths: replaces the problem's own lengths, if it has any.
        """
        return [EvaluationSet("", self.judged_split, self.method, group_by=self.group_by)]

    def validation_sets(self) -> list[EvaluationSet]:
        """The sets judged during training; default: the validation split, by the method of
        ``evaluation_sets``.
        """
        method = self.evaluation_sets()[0].method
        return [EvaluationSet("", "validation", method, max_examples=self.validated)]

    def summarize(self, metrics: dict[str, float]) -> dict[str, float]:
        """Further metrics, computed from those of all sets (means over tasks, say); default:
        none.
        """
        return {}

    def summarize_intervals(
        self, intervals: dict[str, tuple[float, float]]
    ) -> dict[str, tuple[float, float]]:
        """Intervals of metrics of ``summarize``, computed from those of all sets; default: none."""
        return {}

    def text_codec(self, vocab_dir: Path) -> TextCodec:
        """The codec from raw text to features and from outputs to text.

        Args:
          vocab_dir: folder that holds the problem's ``vocab_files`` under their names (a run
            directory's vocab/).

        Raises:
          UserError: the problem has no text form, or a file in `vocab_dir` cannot be read.
        """
        raise UserError(
            f"problem {self.name} has no text form (no text_codec): it can be trained and"
            " evaluated, but not decoded from text."
        )

    def text_pairs(self, split: str, data_dir: Path) -> tuple[list[str], list[str]]:
        """The raw sources and references of a split, in order, for scores on text (BLEU).

        Raises:
          UserError: the problem has no text form.
        """
        raise UserError(f"problem {self.name} has no text pairs: it cannot be judged on texts.")

    def text_metrics(self, written: list[str], references: list[str]) -> dict[str, float] | None:
        """The metrics of outputs as text, for the method "translate"; None, the default: BLEU and
        chrF.

        Args:
          written: what the model wrote for each source of ``text_pairs``.
          references: the references, in the same order.
        """
        return None

    def text_intervals(
        self, written: list[str], references: list[str]
    ) -> dict[str, tuple[float, float]]:
        """The 95 % intervals of those ``text_metrics`` that have one (see
        ut_tf.metrics.intervals); default: none.

        Called by ut-eval alone, with the arguments of ``text_metrics``.
        """
        return {}

    def data_note(self, data_dir: Path) -> str:
        """The difference between the prepared data and the published benchmark's, in words such as
        "simulated"; empty, the default: it does not.

        Reports print it beside a figure that cannot be compared with the paper's directly.
        """
        return ""

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """The files that a run directory must hold to turn raw text into ids and back; default:
        none.
        """
        return []


def check_lengths(lengths: Iterable[int]) -> None:
    """Raises UserError where a length that a problem is judged at is more than a computer can
    attend to.
    """
    for length in lengths:
        if length > _LONGEST:
            raise UserError(f"`lengths`={length}: expected at most {_LONGEST}.")


# What takes folders: as a Path, or as a text.
_OF_FOLDERS = (
    "prepare",
    "spec",
    "is_prepared",
    "examples",
    "example_pools",
    "text_codec",
    "text_pairs",
    "data_note",
    "vocab_files",
)


def _with_paths_of_any(own: Any) -> Any:
    """``_with_paths`` of a method, a static or a class method; anything else is left as it is."""
    if isinstance(own, staticmethod | classmethod):
        return type(own)(_with_paths(own.__func__))
    return _with_paths(own) if inspect.isfunction(own) else own


def _with_paths(method: Callable[..., T]) -> Callable[..., T]:
    """The method with a Path in the place of a text for each argument ``*_dir``."""
    names = list(inspect.signature(method).parameters)

    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> T:
        given = [_as_path(name, value) for name, value in zip(names, args, strict=False)]
        named = {name: _as_path(name, value) for name, value in kwargs.items()}
        return method(*given, *args[len(given) :], **named)

    return called


def _as_path(name: str, value: Any) -> Any:
    return Path(value) if name.endswith("_dir") and isinstance(value, str) else value
