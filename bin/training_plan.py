"""ut-trainer --plan: what a training would take on this machine, without beginning it.

The model is built and one update runs (``ut_tf.training.plan``), on random symbols. Their lengths
are those of the data that is there. Without data the problem says how large its vocabulary usually
is, and all examples are as long as max_length.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ut_tf.bin.frame.command import stdout_to_stderr
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.run_config import read_values

if TYPE_CHECKING:
    from ut_tf.training.plan import BatchShape, TrainingPlan

_NO_LENGTHS = "assumed: every example is {} long, as the longest that is trained on (max_length)"
_NO_DATA = "assumed: vocabularies of {} and {} symbols, since there is no data in {}"
_POOLED = "lengths: those of the first of {} pools of the text"
_ALL_STEPS = "counted: all steps of every position; those that halt take fewer"
_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def plan_text(run: Run, values: Any, strategy: Any) -> str:
    """Measures the plan of a run; returns it in lines.

    Args:
      run: checked, perhaps without data.
      values: of the command's flags.
      strategy: tf.distribute strategy, on whose devices an update runs.

    Raises:
      UserError: the model cannot be made, or nothing is known of the problem's data.
    """
    from ut_tf.training.plan import largest_batch, make_plan

    training = run.hparams.training
    notes: list[str] = []
    with stdout_to_stderr():
        spec, lengths = _data(run, notes)
        longest = max(lengths, default=training.max_length)
        largest = largest_batch(training, spec, longest)
        batches = _batches(run, spec, lengths) if lengths else [largest]
        if not lengths:
            notes.append(_NO_LENGTHS.format(longest))
        plan = make_plan(run.hparams, spec, batches, largest, strategy)
        notes += [_ALL_STEPS] * plan.halts
    updates = training.train_steps if values.train_steps is None else values.train_steps
    title = f"{run.hparams.model} of {run.hparams_set} on {run.problem}: a plan, nothing is trained"
    return "\n".join([title, "", *_lines(plan, updates), *notes])


def _lines(plan: TrainingPlan, updates: int) -> list[str]:
    parts = ", ".join(f"{name} {count:,}" for name, count in plan.parameters.items())
    how = "measured"
    if plan.measured != plan.typical:
        how = f"from one of {plan.measured.examples} examples, by operations"
    memory = "not counted" if plan.memory is None else f"{_amount(plan.memory)}B"
    rows = [
        ("parameters", f"{sum(plan.parameters.values()):,}", parts),
        ("an update", f"{_amount(plan.flop)}FLOP", f"of {_shape(plan.typical)}"),
        ("memory", memory, f"at {_shape(plan.largest)}"),
        ("  of it kept", f"{_amount(plan.kept)}B", "weights, moments, averages"),
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    table = [f"{name:<{widths[0]}}  {value:<{widths[1]}}  {text}" for name, value, text in rows]
    whole = duration(updates * plan.seconds)
    speed = f"{duration(plan.seconds)} per update ({how}), {whole} for {updates:,} updates"
    return [*table, f"this machine: {speed}"]


def _shape(batch: BatchShape) -> str:
    sizes = " and ".join(str(size) for size in (batch.length, batch.target_length) if size)
    return f"{batch.examples} examples" + (f" of {sizes} positions" if sizes else "")


def _amount(number: float) -> str:
    """Returns a number with three digits and its SI prefix, "1.23 G"."""
    for size, prefix in _UNITS:
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return f"{number:.3g} "


def duration(seconds: float) -> str:
    """Returns a time in the unit that suits it, with three digits."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.3g}'):,g} {unit}"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _data(run: Run, notes: list[str]) -> tuple[ProblemSpec, Counter[int]]:
    """Returns the spec, and how many examples have which length, as far as it is known; notes what
    was assumed.
    """
    from ut_tf.data.prepared import NotPreparedError

    problem = run.make_problem()
    try:
        spec = problem.spec(run.data_dir)
        pools = problem.example_pools(run.data_dir, run.seed, 0)
        table = pools.pool(0) if pools else problem.examples("train", run.data_dir, run.seed)
    except NotPreparedError as error:
        return _without_data(run, problem, notes, error), Counter()
    if pools and pools.count > 1:
        notes.append(_POOLED.format(pools.count))
    fitting = table.lengths[table.lengths <= run.hparams.training.max_length]
    return spec, Counter(map(int, fitting))


def _without_data(run: Run, problem: Any, notes: list[str], error: UserError) -> ProblemSpec:
    """Returns the spec in the run's directory, if it is there, or the problem's usual one."""
    stored = read_values(run.output_dir)
    if stored and stored["spec"]:
        return ProblemSpec.from_dict(stored["spec"])
    spec: ProblemSpec | None = problem.usual_spec()
    if spec is None:
        raise UserError(
            f"{run.problem} has no data in {run.data_dir} to plan with: prepare it with ut-datagen."
        ) from error
    notes.append(_NO_DATA.format(spec.input_vocab_size, spec.target_vocab_size, run.data_dir))
    return spec


def _batches(run: Run, spec: ProblemSpec, lengths: Counter[int]) -> list[BatchShape]:
    """Returns the batches of an epoch on one device, as training makes them."""
    import numpy as np

    from ut_tf.data.batch_plan import batch_sizes, bucket_bounds, plan_batches
    from ut_tf.training.plan import batch_of

    training = run.hparams.training
    ordered = np.sort(np.fromiter(lengths.elements(), np.int32))
    bounds = bucket_bounds(
        training.min_length_bucket, training.length_bucket_step, training.max_length
    )
    planned = plan_batches(ordered, bounds, batch_sizes(bounds, training, 1))
    return [batch_of(len(numbers), int(ordered[numbers].max()), spec) for numbers in planned]
