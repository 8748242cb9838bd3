"""The lines that a training prints before its first update."""

from collections.abc import Iterator
from dataclasses import dataclass

from ut_tf import registry
from ut_tf.notices import worded
from ut_tf.run import Run
from ut_tf.storage.layout import CHECKPOINTS_FOLDER, checkpoint_name
from ut_tf.training.hooks.hook import StoppedBy
from ut_tf.training.schedules import learning_rate

# Of a schedule's updates: a training that ends before is hardly meant to.
_EARLY = 0.5


@dataclass(frozen=True)
class Beginning:
    """The facts about a process before its first update.

    Args:
      run: that is trained.
      step: updates so far.
      train_steps: where this process ends.
      parameters: of the model.
      devices: that compute, in words.
      stage: where the curriculum stands; None: there is none.
    """

    run: Run
    step: int
    train_steps: int
    parameters: int
    devices: str
    stage: str | None


def opening_lines(beginning: Beginning) -> Iterator[str]:
    """Yields the lines for a training that begins or goes on."""
    run, step = beginning.run, beginning.step
    yield from _on_the_schedule(beginning)
    yield (
        f"training {run.hparams.model} ({beginning.parameters:,} parameters) on {beginning.devices}"
    )
    if not step:
        yield from _on_the_end(beginning)
    if step:
        checkpoint = run.output_dir / CHECKPOINTS_FOLDER / checkpoint_name(step)
        yield f"resuming from step {step}, {checkpoint}"
    if beginning.stage is not None:
        yield (
            f"step {step}: {beginning.stage}"
            if step
            else f"curriculum: {beginning.stage} to begin with"
        )


def long_training(run: Run, left: str) -> str:
    """The line for a training that has days to go: the recipe for this problem and for a machine
    like this one, if there is one.

    Args:
      run: that is trained.
      left: the time, in words.
    """
    smaller = next(
        (name for name in registry.sets_to_begin_with(run.problem) if _is_smaller(name, run)), None
    )
    advice = (
        "train on more or faster GPUs (`plan` says how long that takes), or take a smaller set"
        if smaller is None
        else f"to begin with, {run.problem} has the set {smaller}"
        f" ({registry.hparams_sets.describe(smaller)}): `hparams_set`={smaller}, in another"
        " `output_dir`"
    )
    return worded(f"note: training takes about {left} more on this machine; {advice}.")


def _is_smaller(hparams_set: str, run: Run) -> bool:
    """Whether a set is a recipe, not a paper's size, and narrower than the run's network."""
    width = registry.hparams_sets.get(hparams_set)().network.hidden_size
    is_recipe = registry.hparams_sets.group(hparams_set) != "sizes"
    return is_recipe and bool(width < getattr(run.hparams.network, "hidden_size", 0))


def nothing_to_do(beginning: Beginning, stopped_by: StoppedBy) -> str:
    """The line for a training that had ended before."""
    step, whole = beginning.step, beginning.run.hparams.training.train_steps
    folder = beginning.run.output_dir
    if stopped_by == "train_steps" and beginning.train_steps <= step < whole:
        return (
            f"{folder} is at step {step} of {whole} already, and"
            f" `train_steps`={beginning.train_steps} asks for no more: without it training goes on."
        )
    return f"{folder} is trained already, to step {step} ({stopped_by})."


def _on_the_schedule(beginning: Beginning) -> Iterator[str]:
    """Yields a warning where training does not go with the schedule of its learning rate."""
    training = beginning.run.hparams.training
    decay_steps = training.decay_steps or training.train_steps
    if training.schedule == "cosine" and beginning.train_steps > decay_steps:
        sentence = (
            f"`train_steps`={beginning.train_steps} is above `decay_steps`={decay_steps}, from"
            " which on the cosine schedule's learning rate is 0 and nothing is learned: set"
            f" `decay_steps`={beginning.train_steps}, in another `output_dir` if this one has a"
            " checkpoint."
        )
        yield f"warning: {worded(sentence)}"


def _on_the_end(beginning: Beginning) -> Iterator[str]:
    """Yields a note if training ends before its schedule does."""
    training, steps = beginning.run.hparams.training, beginning.train_steps
    decay_steps = training.decay_steps or training.train_steps
    faults, overrides = [], []
    if training.schedule == "cosine" and steps < _EARLY * decay_steps:
        faults.append(f"of a cosine schedule of {decay_steps} updates")
        overrides.append(f"train_steps={steps}")
        if decay_steps != training.train_steps:
            overrides.append(f"decay_steps={steps}")
    if steps <= training.warmup_steps:
        faults.append(f"within the warm-up of {training.warmup_steps} updates")
        overrides.append(f"warmup_steps={steps // 10}")
    if faults:
        rate = float(learning_rate(steps, training, beginning.run.hparams.network.hidden_size))
        sentence = (
            f"training ends at step {steps} {', '.join(faults)}, with the learning rate at"
            f" {rate:.3g}: a short training has a whole schedule with"
            f" `hparams`={','.join(overrides)}, in another `output_dir`."
        )
        yield f"note: {worded(sentence)}"
