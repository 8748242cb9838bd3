"""ut-trainer --plan: what a training would need, without beginning it.

What a model must know of the problem comes from --plan_args or from the problem itself, which alone
imports TensorFlow; where its data are gone, from the run in the output directory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ut_tf.bin.frame.command import import_tensorflow, stdout_to_stderr
from ut_tf.bin.frame.flags import FlagError
from ut_tf.errors import UserError, did_you_mean
from ut_tf.planning.accelerators import ACCELERATORS, Accelerator, accelerator
from ut_tf.planning.communication import Network
from ut_tf.planning.operations import BatchShape
from ut_tf.planning.plan import Setting, batch_of, largest_batch, make_plan
from ut_tf.planning.rendering import render
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.run_config import read_values

_SIZES = ("vocab_size", "input_vocab_size", "target_vocab_size", "max_words")
_KINDS = ("inputs", "targets")


def plan_text(run: Run, values: Any) -> str:
    """The plan of a run in lines.

    Args:
      run: checked, perhaps without data.
      values: of the command's flags.

    Raises:
      FlagError: --plan_args cannot be read.
      UserError: the model is not known, fits nowhere, or nothing is known of the problem's data.
    """
    arguments = _arguments(values.plan_args)
    setting = _setting(arguments)
    training = run.hparams.training
    spec, lengths, pools = _data(run, arguments)
    longest = arguments.get("longest", max(lengths, default=training.max_length))
    _check_lengths(arguments.get("length"), longest, training.max_length)
    largest = largest_batch(training, spec, longest)
    if "length" in arguments:
        batches = [largest_batch(training, spec, arguments["length"])]
    elif lengths:
        batches = _batches(run, spec, lengths)
    else:
        batches = [largest]
    plan = make_plan(run.hparams, spec, batches, largest, setting, values.train_steps)
    title = f"{run.hparams.model} of {run.hparams_set} on {run.problem}: a plan, nothing is trained"
    note = "" if lengths or "length" in arguments else _NO_LENGTHS.format(longest)
    note = _POOLED.format(pools) if pools > 1 else note
    return "\n".join([title, "", render(plan, setting), *([note] if note else [])])


_NO_LENGTHS = (
    "assumed: every example is {} long, the longest that is trained on; give"
    " --plan_args=length=MEAN,longest=MOST for a better estimate"
)
_POOLED = (
    "lengths: those of the first of {} pools of the text; where another has a longer example, give"
    " --plan_args=longest=MOST"
)


def _arguments(text: str) -> dict[str, Any]:
    """The assignments of --plan_args, each as its type."""
    arguments: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in _READERS:
            near = did_you_mean(name, _READERS) or f"; expected {', '.join(_READERS)}."
            raise FlagError(f"--plan_args={text}: unknown name {name!r}{near}")
        try:
            arguments[name] = _READERS[name](value)
        except ValueError:
            raise FlagError(
                f"--plan_args={text}: {name}={value}: expected {_EXPECTED[_READERS[name]]}."
            ) from None
    return arguments


def _check_lengths(length: int | None, longest: int, max_length: int) -> None:
    if longest > max_length:
        raise FlagError(
            f"--plan_args=longest={longest}: training leaves out what is longer than max_length;"
            f" give at most {max_length}, or raise --hparams=max_length={max_length}."
        )
    if length is not None and length > longest:
        raise FlagError(
            f"--plan_args=length={length}: a typical example is at most as long as the longest,"
            f" {longest}: lower length, or raise longest."
        )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def _share(text: str) -> float:
    number = _positive(text)
    if number > 1:
        raise ValueError
    return number


def _gpus(text: str) -> tuple[Accelerator, ...]:
    return tuple(accelerator(name) for name in text.split("+"))


_READERS: Mapping[str, Callable[[str], Any]] = {
    "gpus": _gpus,
    "devices": _count,
    "devices_per_machine": _count,
    "utilisation": _share,
    "gigabytes_per_second": _positive,
    "price": _positive,
    "length": _count,
    "longest": _count,
    "steps": _positive,
    **dict.fromkeys(_SIZES, _count),
    **dict.fromkeys(_KINDS, str),
}
_EXPECTED: Mapping[Callable[[str], Any], str] = {
    _count: "a whole number from 1",
    _positive: "a number above 0",
    _share: "a number above 0 and at most 1",
}


def _setting(arguments: dict[str, Any]) -> Setting:
    network = Network()
    network = Network(
        devices_per_machine=arguments.get("devices_per_machine", network.devices_per_machine),
        between=arguments.get("gigabytes_per_second", network.between / 1e9) * 1e9,
    )
    names = ("gpus", "devices", "utilisation", "price", "steps")
    given = {name: arguments[name] for name in names if name in arguments}
    return Setting(**{"gpus": tuple(ACCELERATORS.values()), **given, "network": network})


def _given_spec(arguments: dict[str, Any]) -> ProblemSpec | None:
    """The spec that the arguments describe; None: they name no size of a vocabulary."""
    if not any(name in arguments for name in _SIZES):
        kinds = [f"{name}={arguments[name]}" for name in _KINDS if name in arguments]
        if kinds:
            raise FlagError(
                f"--plan_args={','.join(kinds)}: kinds are read with the size of a vocabulary: give"
                " vocab_size, too, or leave them out to plan with the problem's data."
            )
        return None
    size = arguments.get("vocab_size", 0)
    inputs, targets = arguments.get("inputs", "tokens"), arguments.get("targets", "tokens")
    sizes = {
        "input_vocab_size": arguments.get("input_vocab_size", size if inputs != "none" else 0),
        "target_vocab_size": arguments.get("target_vocab_size", size),
    }
    for name, count in sizes.items():
        if not count and (name, inputs) != ("input_vocab_size", "none"):
            raise FlagError(f"--plan_args: {name} is missing: give it, or vocab_size for both.")
    shared = inputs == "tokens" and len(set(sizes.values())) == 1
    return ProblemSpec(
        inputs, targets, **sizes, max_words=arguments.get("max_words", 0), shared_vocab=shared
    )


def _data(run: Run, arguments: dict[str, Any]) -> tuple[ProblemSpec, Counter[int], int]:
    """The spec, and what ``_of_problem`` says of lengths, where the arguments do not say it."""
    spec, stored = _given_spec(arguments), _stored_spec(run)
    if spec is None and "length" in arguments:
        spec = stored
    if spec is not None:
        return spec, Counter(), 0
    try:
        return _of_problem(run)
    except UserError:
        if stored is None:
            raise
        return stored, Counter(), 0


def _stored_spec(run: Run) -> ProblemSpec | None:
    """The spec in the run's directory, if it is there."""
    stored = read_values(run.output_dir)
    return ProblemSpec.from_dict(stored["spec"]) if stored and stored["spec"] else None


def _of_problem(run: Run) -> tuple[ProblemSpec, Counter[int], int]:
    """What the problem says of its prepared data: the spec, how many examples have which length,
    and the number of pools, of which the first is counted; 0: the data is not in pools.
    """
    import_tensorflow()
    with stdout_to_stderr():
        problem = run.make_problem()
        try:
            spec = problem.spec(run.data_dir)
        except UserError as error:
            raise UserError(
                f"{run.problem} has no data in {run.data_dir} to plan with: prepare it with"
                " ut-datagen, or give --plan_args=vocab_size=SIZE,length=MEAN,longest=MOST (and"
                " inputs=none or targets=class where they are no tokens)."
            ) from error
        pools = problem.example_pools(run.data_dir, run.seed, 0)
        table = pools.pool(0) if pools else problem.examples("train", run.data_dir, run.seed)
    lengths = table.lengths
    fitting = lengths[lengths <= run.hparams.training.max_length]
    return spec, Counter(map(int, fitting)), pools.count if pools else 0


def _batches(run: Run, spec: ProblemSpec, lengths: Counter[int]) -> list[BatchShape]:
    """The batches of an epoch on one device, by the plan that training makes."""
    import numpy as np

    from ut_tf.data.batch_plan import batch_sizes, bucket_bounds, plan_batches

    training = run.hparams.training
    ordered = np.sort(np.fromiter(lengths.elements(), np.int32))
    bounds = bucket_bounds(
        training.min_length_bucket, training.length_bucket_step, training.max_length
    )
    planned = plan_batches(ordered, bounds, batch_sizes(bounds, training, 1))
    return [batch_of(len(numbers), int(ordered[numbers].max()), spec) for numbers in planned]
