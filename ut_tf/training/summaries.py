"""The hyperparameters of a training, for TensorBoard's HParams page."""

from pathlib import Path

from ut_tf.config.fields import without_effect
from ut_tf.config.part_options import values_of
from ut_tf.run import Run


def trial_name(run: Run) -> str:
    """The run's folder, as it is called from the working folder if it lies there."""
    try:
        return str(run.output_dir.relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):
        return str(run.output_dir)


def flat_hparams(run: Run) -> dict[str, bool | int | float | str]:
    """Problem, set, model, seed and every hyperparameter that is read, by name; other values as
    text.
    """
    names = {"problem": run.problem, "hparams_set": run.hparams_set, "seed": run.seed}
    read = {
        name: value
        for section in (run.hparams.network, run.hparams.training)
        for name, value in values_of(section).items()
        if without_effect(section, name) is None
    }
    flat = {**names, "model": run.hparams.model, **read}
    return {
        name: value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in flat.items()
    }
