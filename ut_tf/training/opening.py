"""What a training says before its first update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ut_tf.notices import worded
from ut_tf.run import Run
from ut_tf.storage.layout import CHECKPOINTS_FOLDER, checkpoint_name
from ut_tf.training.hooks.hook import StoppedBy


@dataclass(frozen=True)
class Beginning:
    """What is known before the first update of a process.

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
    if step:
        checkpoint = run.output_dir / CHECKPOINTS_FOLDER / checkpoint_name(step)
        yield f"resuming from step {step}, {checkpoint}"
    if beginning.stage is not None:
        yield (
            f"step {step}: {beginning.stage}"
            if step
            else f"curriculum: {beginning.stage} to begin with"
        )


def nothing_to_do(beginning: Beginning, stopped_by: StoppedBy) -> str:
    """The line for a training that had ended before."""
    step, whole = beginning.step, beginning.run.hparams.training.train_steps
    folder = beginning.run.output_dir
    if stopped_by == "train_steps" and beginning.train_steps < step < whole:
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
