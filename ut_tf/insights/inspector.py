"""The document of one run, or of two side by side; docs/insights.md describes its format.

How it is used::

    document = inspect_run(Run.load("runs/babi"), examples=8, to_file="think.html")
    inspector = Inspector.from_run(Run.load("runs/babi"))     # for more than one document
    inspector.read("1 Mary moved to the hall.\\n2 Where is Mary?", "the input")
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ut_tf.argument_types import checked_types
from ut_tf.errors import UserError, counted
from ut_tf.insights.histograms import ponder_histograms
from ut_tf.insights.rendering import write_document
from ut_tf.insights.samples import samples
from ut_tf.insights.thinker import Given, Thinker
from ut_tf.paths import expanded
from ut_tf.run import Run

FORMAT = "ut-tf-insights"
VERSION = 1
EXAMPLES = 8
HISTOGRAM_EXAMPLES = 200
_TITLE_LENGTH = 60


@checked_types
def inspect_run(
    run: Run,
    inputs: str | Sequence[str] = (),
    examples: int | None = None,
    compare_with: Run | None = None,
    checkpoint: str = "best",
    histogram_examples: int | None = None,
    to_file: str | Path | None = None,
) -> dict[str, Any]:
    """Collects what a trained run's model computes at every step: ponder times, halting
    probabilities, changes of state, exits, attention, and the answer after each step.

    Args:
      run: trained, as ``Run.load`` gives it.
      inputs: texts to read, as ut-decoder reads them.
      examples: test examples to show; None: 8, or none where there are inputs.
      compare_with: another trained run, shown beside the first.
      checkpoint: of the run, as for ``load_model``; of the other run the best.
      histogram_examples: test examples in the histograms of ponder times; None: 200, or none where
        no test examples are shown.
      to_file: a .html or .json file to write.

    Returns:
      The document, ready for JSON.

    Raises:
      UserError: there is no such checkpoint, the runs are of different kinds of problem, an input
        is not of the problem's format, or a file cannot be read or written.
    """
    inputs = [inputs] if isinstance(inputs, str) else list(inputs)
    shown, counted = example_counts(bool(inputs), examples, histogram_examples)
    inspector = Inspector.from_run(run, compare_with, checkpoint)
    thoughts = [
        example
        for number, text in enumerate(inputs, start=1)
        for example in inspector.read(text, "the input" if len(inputs) == 1 else f"input {number}")
    ]
    document = inspector.document([*thoughts, *inspector.test_examples(shown)], counted)
    if to_file is not None:
        write_document(document, expanded(to_file))
    return document


def example_counts(
    has_inputs: bool, examples: int | None, histogram_examples: int | None
) -> tuple[int, int]:
    """The test examples to show and to count in histograms; arguments as of ``inspect_run``."""
    shown = (0 if has_inputs else EXAMPLES) if examples is None else examples
    counted = HISTOGRAM_EXAMPLES if shown else 0
    return shown, counted if histogram_examples is None else histogram_examples


class Inspector:
    """Makes documents of one run, or of two.

    Args:
      thinkers: one or two; the examples are those of the first one's problem.

    Raises:
      UserError: the second run reads or answers something of another kind.
    """

    def __init__(self, thinkers: Sequence[Thinker]) -> None:
        self.thinkers = list(thinkers)
        self._read = 0
        first, *others = self.thinkers
        for other in others:
            kinds = [(x.model.spec.inputs, x.model.spec.targets) for x in (first, other)]
            if kinds[0] != kinds[1] or first.codec.fields != other.codec.fields:
                raise UserError(
                    f"`compare_with`={other.run.output_dir}: it reads {kinds[1][0]} and answers"
                    f" with {kinds[1][1]}, and the run beside it reads {kinds[0][0]} and answers"
                    f" with {kinds[0][1]}: compare runs of the same kind of problem."
                )

    @classmethod
    def from_run(
        cls,
        run: Run,
        compare_with: Run | None = None,
        checkpoint: str = "best",
        compare_checkpoint: str = "best",
    ) -> Self:
        """An inspector of a run's checkpoint and, where given, of another's; errors as of
        ``load_model``.
        """
        thinkers = [Thinker.from_run(run, checkpoint)]
        if compare_with is not None:
            thinkers.append(Thinker.from_run(compare_with, compare_checkpoint))
        return cls(thinkers)

    def read(self, text: str, name: str, single: bool = False) -> list[dict[str, Any]]:
        """The examples in lines of text, with each run's thoughts; arguments and errors as of
        ``Thinker.read``.
        """
        examples = []
        for given in self.thinkers[0].read(text, name, single):
            self._read += 1
            examples.append(self._example(f"input-{self._read}", given, None))
        return examples

    def test_examples(self, count: int) -> list[dict[str, Any]]:
        """At most `count` test examples of the first run's problem, with each run's thoughts.

        Raises:
          UserError: the data cannot be had.
        """
        first = self.thinkers[0]
        if count:
            first.run = first.run.prepare(first.problem)
        return [
            self._example(f"test-{sample.number}", first.given(sample.features), sample.group)
            for sample in samples(first, count)
        ]

    def document(
        self, examples: Sequence[dict[str, Any]], histogram_examples: int = 0
    ) -> dict[str, Any]:
        """The document of the runs with these examples.

        Args:
          examples: from ``read`` and ``test_examples``.
          histogram_examples: test examples in the histograms; 0: there are none.
        """
        names = _names(self.thinkers)
        return {
            "format": FORMAT,
            "version": VERSION,
            "title": " beside ".join(names),
            "runs": [
                self._run(name, thinker, histogram_examples)
                for name, thinker in zip(names, self.thinkers, strict=True)
            ],
            "examples": list(examples),
        }

    def _example(self, id_: str, given: Given, group: str | None) -> dict[str, Any]:
        first, *others = self.thinkers
        return {
            "id": id_,
            "title": _title(given.text, is_question=first.model.spec.inputs == "facts"),
            "target": given.target,
            "input": given.text,
            "group": group,
            "thoughts": [first.think(given), *(self._other(other, given) for other in others)],
        }

    def _other(self, other: Thinker, given: Given) -> dict[str, Any] | None:
        """Another run's thought about an example of the first; None where it cannot read it."""
        if _same_symbols(self.thinkers[0].run, other.run):
            return other.think(given)
        try:
            readings = other.read(given.text, "the input")
        except UserError:
            return None
        features = readings[0].features
        return other.think(Given(features, given.text, given.target))

    def _run(self, name: str, thinker: Thinker, histogram_examples: int) -> dict[str, Any]:
        if histogram_examples:
            thinker.run = thinker.run.prepare(thinker.problem)
        run = thinker.run
        network = run.hparams.network
        halting = getattr(network, "halting", "none")
        return {
            "name": name,
            "problem": run.problem,
            "hparams_set": run.hparams_set,
            "model": run.hparams.model,
            "checkpoint": thinker.step,
            "num_parameters": int(thinker.model.count_params()),
            "halting": halting,
            "exit_rule": getattr(network, "eval_exit", "none"),
            "num_heads": getattr(network, "num_heads", 0),
            "kind": _kind(thinker),
            "facts": _facts(thinker, halting),
            "histograms": ponder_histograms(thinker, histogram_examples),
            "exit_rules": [
                {"name": rule, "threshold": float(made.threshold)}
                for rule, made in thinker.rules.items()
            ],
        }


def _kind(thinker: Thinker) -> str:
    if thinker.codec.board is not None:
        return "board"
    kinds = {"facts": "facts", "none": "language_model"}
    return kinds.get(thinker.model.spec.inputs, "text")


def _facts(thinker: Thinker, halting: str) -> dict[str, str]:
    """What the head of a page says of a run."""
    run, network = thinker.run, thinker.run.hparams.network
    facts = {
        "problem": run.problem,
        "hyperparameters": run.hparams_set + (f" with {run.overrides}" if run.overrides else ""),
        "model": run.hparams.model,
        "parameters": f"{thinker.model.count_params():,}",
        "checkpoint": f"step {thinker.step}",
    }
    sizes = [
        f"{name.replace('_', ' ')} {getattr(network, name)}"
        for name in ("hidden_size", "num_heads", "head_size", "num_layers", "num_steps")
        if getattr(network, name, 0) and (name != "num_steps" or halting == "none")
    ]
    facts["sizes"] = ", ".join(sizes)
    if hasattr(network, "halting"):
        most = thinker.model.max_steps(training=False)
        facts["halting"] = halting if halting == "none" else f"{halting}, at most {most} steps"
    if (exit_rule := getattr(network, "eval_exit", "none")) != "none":
        facts["exit rule"] = exit_rule
    return facts


def _names(thinkers: Sequence[Thinker]) -> list[str]:
    """The names of the run directories and, where they are the same, the checkpoints, or what the
    hyperparameters in use differ by; otherwise a number.
    """
    names = [thinker.run.output_dir.name for thinker in thinkers]
    if len(set(names)) == len(names):
        return names
    steps = [
        f"{name} at step {thinker.step}" for name, thinker in zip(names, thinkers, strict=True)
    ]
    if len(set(steps)) == len(steps):
        return steps
    uses = _in_use(thinkers)
    if len(set(uses)) < len(uses):
        uses = [str(number) for number in range(1, len(names) + 1)]
    return [f"{name} ({use})" for name, use in zip(names, uses, strict=True)]


def _in_use(thinkers: Sequence[Thinker]) -> list[str]:
    """What tells the same model in several uses apart: its steps, or hyperparameters."""
    networks = [vars(thinker.run.hparams.network) for thinker in thinkers]
    differing = [
        name
        for name in networks[0]
        if any(other.get(name) != networks[0][name] for other in networks[1:])
    ]
    if all(name.endswith("_steps") for name in differing):
        depths = [thinker.model.max_steps(training=False) for thinker in thinkers]
        return [counted(depth, "step") for depth in depths]
    return [", ".join(f"{name}={network[name]}" for name in differing) for network in networks]


def _same_symbols(first: Run, other: Run) -> bool:
    """Whether ids mean the same to both runs."""
    same = ("problem", "problem_args", "spec", "vocab_sha256")
    return all(getattr(first, name) == getattr(other, name) for name in same)


def _title(text: str, is_question: bool) -> str:
    """A short text of an example: its last line where that is the question, else its first."""
    lines = text.split("\n") or [""]
    line = lines[-1] if is_question else lines[0]
    line = line.partition("\t")[0] if is_question else line
    line = line.partition(" ")[2] if is_question and line.partition(" ")[0].isdigit() else line
    return line if len(line) <= _TITLE_LENGTH else f"{line[:_TITLE_LENGTH].rstrip()} …"
