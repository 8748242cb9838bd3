"""Runs made from checkpoints of HRM, TRM and Huginn, to be evaluated, shown or trained on.

::

    run = import_checkpoint("trm", "step_65104.pth", "all_config.yaml", "runs/imported",
                            problem="puzzle_folder", problem_args="folder=data/sudoku-extreme")

A file of weights holds no moments of an optimizer: training goes on with new ones, from update 0.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras

from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError, did_you_mean
from ut_tf.factories import make_hparams, parse_problem_args
from ut_tf.interop import hrm_trm, huginn
from ut_tf.interop.source import Source
from ut_tf.interop.tensor2tensor_hparams import assignments
from ut_tf.paths import expanded
from ut_tf.run import Run
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.training.optimizer import Optimizer, make_optimizer
from ut_tf.training.state_values import TrainingState
from ut_tf.training.train_state import TrainState


class Kind(NamedTuple):
    """A kind of checkpoints.

    Fields:
      read: makes a ``Source`` of the files of weights and of the configuration.
      hparams_set: whose values are those that the configuration does not name.
    """

    read: Callable[[str | Path, str | Path], Source]
    hparams_set: str


KINDS: Mapping[str, Kind] = {
    "trm": Kind(hrm_trm.read_source, "ut_trm_sudoku6"),
    "hrm": Kind(hrm_trm.read_source, "ut_hrm_sudoku6"),
    "huginn": Kind(huginn.read_source, "huginn_tiny"),
}


def import_checkpoint(
    kind: str,
    checkpoint: str | Path,
    config: str | Path,
    output_dir: str | Path,
    problem: str,
    problem_args: str | dict[str, Any] = "",
    data_dir: str | Path | None = None,
    tmp_dir: str | Path | None = None,
    usr_dir: str | Path | None = None,
) -> Run:
    """Makes a run directory from a checkpoint.

    Args:
      kind: "trm", "hrm" or "huginn".
      checkpoint: file of the weights.
      config: file of the configuration.
      output_dir: of the run, new or empty.
      problem: registered name of a problem with the checkpoint's vocabulary and length.
      problem_args, data_dir, tmp_dir, usr_dir: as for ``RunOptions``.

    Raises:
      UserError: a file cannot be read, the problem does not fit, or `output_dir` has checkpoints.
        No checkpoint is written in any of these.
    """
    if kind not in KINDS:
        known = did_you_mean(kind, KINDS) or f": expected one of {', '.join(KINDS)}."
        raise UserError(f"`kind`={kind} is none of an imported checkpoint{known}")
    if usr_dir:
        registry.import_user_code(usr_dir)
    check_is_new(output_dir)
    source = KINDS[kind].read(checkpoint, config)
    if source.kind != kind:
        raise UserError(f"{config} is of {source.kind}, not of {kind}: import it as that.")
    base_set = KINDS[kind].hparams_set
    base = make_hparams(base_set)
    training = base.training if not source.training else base.change(**source.training).training
    ours = HParams(base.model, source.network, training).resolve()
    arguments = parse_problem_args(problem_args)
    if problem == "puzzle_folder":
        # These networks attend to their padding.
        arguments.setdefault("keep_padding", True)
    plan = Run.plan(
        problem,
        base_set,
        hparams=assignments(ours, base),
        output_dir=output_dir,
        data_dir=data_dir,
        tmp_dir=tmp_dir,
        problem_args=arguments,
        usr_dir=usr_dir,
    )
    run = with_data(plan)
    _check_fit(run, source)
    keras.utils.set_random_seed(run.seed)
    model = run.make_model(source.numbers)
    source.assign(model)
    run = run.start()
    optimizer = make_optimizer(model.trainable_variables, run.hparams, run.seed)
    save_imported(run, model, optimizer)
    return run


def check_is_new(output_dir: str | Path) -> None:
    """Raises UserError where a directory holds checkpoints."""
    if CheckpointStore(expanded(output_dir)).steps():
        raise UserError(
            f"{output_dir} already holds checkpoints: import into an output directory that is new"
            " or empty."
        )


def with_data(plan: Run) -> Run:
    """Returns the run with its problem's data prepared."""
    for folder in (plan.data_dir, plan.tmp_dir):
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
    return plan.prepare()


def save_imported(run: Run, model: Any, optimizer: Optimizer, step: int = 0) -> None:
    """Writes the checkpoint that a trainer would have written at a step."""
    optimizer.iterations.assign(step)
    state = {**TrainingState(step=step).to_dict(), "averaged": bool(optimizer.averages)}
    CheckpointStore(run.output_dir).save(step, TrainState(model, optimizer).checkpoint(), state)


def _check_fit(run: Run, source: Source) -> None:
    """Raises UserError where the run's problem is not like that of the checkpoint."""
    found, expected, problem = run.spec, source.spec, run.make_problem()
    assert found is not None
    if (found.inputs, found.targets) != (expected.inputs, expected.targets):
        raise UserError(
            f"problem {run.problem} has inputs={found.inputs} and targets={found.targets}, and the"
            f" checkpoint inputs={expected.inputs} and targets={expected.targets}: give a"
            " `problem` like the one that it was trained on."
        )
    sizes = [
        (spec.input_vocab_size if spec.inputs != "none" else 0, spec.target_vocab_size)
        for spec in (found, expected)
    ]
    if sizes[0] != sizes[1]:
        raise UserError(
            f"problem {run.problem} has {found.target_vocab_size} ids, padding and end among them,"
            f" and the checkpoint {expected.target_vocab_size}: give the data that it was trained"
            " on, with its vocabulary."
        )
    if source.length is not None:
        lengths = problem.examples("train", run.data_dir, run.seed).lengths
        if (lengths != source.length).any():
            other = int(lengths[lengths != source.length][0])
            raise UserError(
                f"an example of problem {run.problem} has {other} positions, and the checkpoint"
                f" reads {source.length} (seq_len): give data of that length."
            )
    puzzles, most = getattr(problem, "num_puzzles", 0), getattr(source.network, "num_puzzles", 0)
    if puzzles > most > 0:
        raise UserError(
            f"problem {run.problem} has {puzzles} identifiers of puzzles, and the checkpoint"
            f" vectors of {most}: give the data that it was trained on."
        )
