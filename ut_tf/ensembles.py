"""Runs that are used together: their probabilities are averaged.

Example::

    runs = [Run.load("runs/first"), Run.load("runs/second")]
    check_one_vocabulary(runs)
    model, steps = load_members(runs, "best")

Nothing here imports TensorFlow before weights are loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ut_tf.errors import UserError

if TYPE_CHECKING:
    from ut_tf.run import Run

_SAME = {"problem": "their problem", "spec": "their ids", "vocab_sha256": "their vocabulary"}
# Of problems that have no vocabulary of their own, what ids mean follows from the arguments.
_SAME_WITHOUT_VOCABULARY = {**_SAME, "problem_args": "the arguments of their problem"}


def check_one_vocabulary(runs: Sequence[Run]) -> None:
    """Checks that ids mean the same to all runs.

    Raises:
      UserError: two have other problems or other vocabularies.
    """
    first, *others = runs
    for other in others:
        same = _SAME if first.vocab_sha256 else _SAME_WITHOUT_VOCABULARY
        for name, what in same.items():
            if getattr(other, name) != getattr(first, name):
                names = f" ({first.problem}, {other.problem})" if name == "problem" else ""
                raise UserError(
                    f"{first.output_dir} and {other.output_dir} differ in {what}{names}: the"
                    " probabilities of runs can be averaged if they have one problem and one"
                    " vocabulary; give others of the same data."
                )


def load_members(runs: Sequence[Run], which: str = "best") -> tuple[Any, list[int]]:
    """The model of the runs, and the step of each one's checkpoint: of one run its own model, of
    several an ``Ensemble``.

    Args:
      runs: as ``Run.load`` gives them.
      which: as for ``find_checkpoint``, of each run.

    Raises:
      UserError: as ``check_one_vocabulary`` and ``restore_weights``.
    """
    from ut_tf.run_weights import restore_weights

    first, *others = runs
    model = first.make_model()
    step = restore_weights(model, first, which)
    model, steps = averaged_with(model, first, others, which)
    return model, [step, *steps]


def averaged_with(
    model: Any, run: Run, others: Sequence[Run], which: str = "best"
) -> tuple[Any, list[int]]:
    """The ensemble of a run's model and those of other runs, and the steps of theirs; without
    others the model.

    Args:
      model: of `run`, with its weights.
      run: whose problem and vocabulary the others must have.
      others: as ``Run.load`` gives them.
      which: as for ``find_checkpoint``, of each other run.

    Raises:
      UserError: as of ``load_members``.
    """
    if not others:
        return model, []
    from ut_tf.run_weights import restore_weights
    from ut_tf.search.ensemble import Ensemble

    check_one_vocabulary([run, *others])
    models = [other.make_model() for other in others]
    steps = [restore_weights(one, other, which) for one, other in zip(models, others, strict=True)]
    return Ensemble([model, *models]), steps
