"""A run judged on another problem's data.

Example::

    measured = measure_transfer(Run.load("runs/task1"), "babi_sim_task1")
    measured.metrics["error"], measured.intervals["error"]

The run's codec makes ids of the other problem's texts, so that an id means the word that it meant
in training; answers are compared as text, capitals and blanks at the ends aside. Metrics: error,
percent of the answers that differ, and error/<group> where the other problem groups its examples,
with Wilson's intervals. An example that the run cannot read counts as wrong.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.data.prepared import prepare_data
from ut_tf.data.problem import Problem
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError, counted
from ut_tf.evaluation.measurement import CheckpointMeasurement
from ut_tf.evaluation.selection import selection_of
from ut_tf.factories import make_problem
from ut_tf.inference.example_reader import ExampleReader, Texts
from ut_tf.inference.translator import Translator, check_vocabulary
from ut_tf.inference.unknown_words import UnknownWords
from ut_tf.metrics.intervals import Interval, wilson
from ut_tf.metrics.sums import Group, group_name
from ut_tf.notices import warn
from ut_tf.run import Run
from ut_tf.run_weights import load_checkpoint
from ut_tf.search.config import DecodeConfig
from ut_tf.storage.processes import training_minutes

_BLOCK = 1000
_NAMED = 50
_DECODE = DecodeConfig(beam_size=1, batch_size=128)


def measure_transfer(
    run: Run,
    test_problem: str,
    test_problem_args: dict[str, Any] | None = None,
    checkpoint: str = "best",
    split: str | None = None,
) -> CheckpointMeasurement:
    """The errors of a run's checkpoint on the data of another problem; the run's own data
    is not needed.

    Args:
      run: a trained run whose problem has a text form.
      test_problem: registered name of the other problem; it has text pairs.
      test_problem_args: arguments of its factory.
      checkpoint: "best", "last", or a checkpoint's path.
      split: "test", the default, or "validation".

    Raises:
      UserError: one of the problems has no text form, their texts are not of the same fields, there
        is no such split or checkpoint, or the data cannot be had.
    """
    other = make_problem(test_problem, test_problem_args or {})
    split = split or "test"
    allowed = [name for name in other.splits if name != "train"]
    if split not in allowed:
        raise UserError(
            f"`split`={split}: of another problem, {test_problem}, {' or '.join(allowed)} is"
            " judged; name one of them."
        )
    # What the run itself cannot do is refused before the other problem's data is fetched.
    codec = _codec(run)
    loaded = load_checkpoint(run, checkpoint)
    run = run.with_folders_for(other)
    prepare_data(other, run.data_dir, run.tmp_dir)
    sources, answers = other.text_pairs(split, run.data_dir)
    texts = _columns(sources, codec, test_problem)
    UnknownWords(codec, test_problem).see(texts)
    _warn_of_answers(codec, answers, test_problem, run)
    refusals = _refusals(loaded.model, codec, texts, test_problem)
    translator = Translator(loaded.model, codec, _DECODE)
    read = (text for text, refusal in zip(texts, refusals, strict=True) if not refusal)
    answered = translator.translate(read, name=None)
    written = [None if refusal else next(answered)[0].text for refusal in refusals]
    right = [
        text is not None and _plain(text) == _plain(answer)
        for text, answer in zip(written, answers, strict=True)
    ]
    feature = next((part.group_by for part in other.evaluation_sets() if part.group_by), None)
    groups = _groups(other, feature, split, run.data_dir)
    metrics, intervals = _errors(right, groups)
    return CheckpointMeasurement(
        metrics,
        intervals,
        {"": len(right)},
        groups={
            value: Group(feature or "", value, count)
            for value, count in Counter(groups or ()).items()
        },
        step=loaded.step,
        split=split,
        parameters=loaded.model.count_params(),
        data_note=_data_note(other.data_note(run.data_dir), refusals),
        training_minutes=training_minutes(run.output_dir, loaded.step),
        selection=selection_of(run.make_problem(), loaded.state),
    )


def _refusals(model: Any, codec: TextCodec, texts: Sequence[Texts], problem: str) -> list[str]:
    """Why the run's codec cannot read each example; "" where it can. Warns of them, and of those
    that are not read whole.
    """
    reader = ExampleReader(codec, model.spec, _DECODE)
    read = [
        (row.error, row.warning)
        for first in range(0, len(texts), _BLOCK)
        for row in reader.read({n: (text, None) for n, text in enumerate(texts[first:][:_BLOCK])})
    ]
    if wrong := [error for error, _ in read if error]:
        warn(f"{_refused(len(wrong))}, the first one since {wrong[0]}.")
    if cut := [warning for _, warning in read if warning]:
        told = f"{counted(len(cut), 'example')} not read whole: the first one {cut[0]}"
        warn(f"{problem} has {told}.")
    return [error for error, _ in read]


def _refused(count: int) -> str:
    verb = "counts" if count == 1 else "count"
    return f"{counted(count, 'example')} that the run cannot read {verb} as wrong"


def _data_note(note: str, refusals: Sequence[str]) -> str:
    """What a report says of the data."""
    count = sum(map(bool, refusals))
    return "; ".join(filter(None, [note, _refused(count) if count else ""]))


def _codec(run: Run) -> TextCodec:
    """The run's codec; raises UserError where the run has none that reads a text and gives
    an answer.
    """
    codec = run.text_codec()
    if run.spec is not None and run.spec.inputs == "none":
        raise UserError(
            f"`test_problem`: {run.problem} in {run.output_dir} is a language model, which answers"
            " no texts; leave it out."
        )
    check_vocabulary(codec, run)
    return codec


def _columns(sources: Sequence[str], codec: TextCodec, problem: str) -> list[Texts]:
    """The texts of each example, one for each of the codec's fields."""
    fields = codec.fields
    texts = [
        (
            (source,)
            if len(fields) == 1
            else tuple(column.replace("\\n", "\n") for column in source.split("\t"))
        )
        for source in sources
    ]
    if wrong := next((columns for columns in texts if len(columns) != len(fields)), None):
        raise UserError(
            f"`test_problem`={problem}: its examples have {len(wrong)}"
            f" text{'s' * (len(wrong) != 1)} each, the run reads {' and '.join(fields)}: name a"
            " problem of the run's kind."
        )
    if not texts:
        raise UserError(f"`test_problem`={problem}: this split is empty; name another `split`.")
    return texts


def _plain(text: str) -> str:
    return text.strip().lower()


def _errors(
    right: Sequence[bool], groups: Sequence[str] | None
) -> tuple[dict[str, float], dict[str, Interval]]:
    judged: dict[str, list[bool]] = defaultdict(list)
    judged["error"] += right
    for group, is_right in zip(groups or [], right, strict=groups is not None):
        judged[f"error/{group}"].append(is_right)
    metrics = {
        name: 100.0 * of_group.count(False) / len(of_group) for name, of_group in judged.items()
    }
    bounds = {
        name: wilson(of_group.count(False), len(of_group)) for name, of_group in judged.items()
    }
    return metrics, {name: (100.0 * low, 100.0 * high) for name, (low, high) in bounds.items()}


def _groups(problem: Problem, feature: str | None, split: str, data_dir: Path) -> list[str] | None:
    """The group of each example, its `feature`, in the order of the problem's text pairs; None
    where `feature` is None.
    """
    if feature is None:
        return None
    table = problem.examples(split, data_dir)
    blocks = (
        tf.range(first, min(first + _BLOCK, len(table))) for first in range(0, len(table), _BLOCK)
    )
    return [group_name(value) for block in blocks for value in table.batch(block)[feature].numpy()]


def _warn_of_answers(codec: TextCodec, answers: Sequence[str], problem: str, run: Run) -> None:
    """Warns of answers that the run cannot give."""
    assert run.spec is not None
    if run.spec.targets == "class":
        distinct = sorted({*map(_plain, answers)})
        classes = codec.encode_targets(tf.constant(distinct)).numpy()
        never = [answer for answer, number in zip(distinct, classes, strict=True) if number < 0]
        if never:
            count = sum(_plain(answer) in {*never} for answer in answers)
            more = f" and {len(never) - _NAMED} more" if len(never) > _NAMED else ""
            warn(
                f"{problem} has {len(never)} answers that {run.output_dir} cannot give, in {count}"
                f" examples: {', '.join(never[:_NAMED])}{more}."
            )
