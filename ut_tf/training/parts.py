"""The parts of a training, made from its run."""

from dataclasses import dataclass
from typing import Any, Self

import keras

from ut_tf.data.problem import Problem
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.training.agreement import check_agreement, data_digest, facts_of
from ut_tf.training.curriculum import Curriculum
from ut_tf.training.distribution import Workers, check_same_precision
from ut_tf.training.hooks.hook import StoppedBy
from ut_tf.training.optimizer import Optimizer, make_optimizer
from ut_tf.training.progress import ProgressLine
from ut_tf.training.saver import Saver
from ut_tf.training.state_values import TrainingState
from ut_tf.training.train_state import TrainState
from ut_tf.training.warm_start import refuse_other_vocabulary


@dataclass(frozen=True)
class TrainingParts:
    """The parts of a training, the same for a new and a resumed one."""

    run: Run
    problem: Problem
    workers: Workers
    train_steps: int
    model: Any
    optimizer: Optimizer
    store: CheckpointStore
    saver: Saver
    train_state: TrainState
    curriculum: Curriculum | None
    evaluator: Evaluator
    progress: ProgressLine

    @classmethod
    def of(
        cls,
        run: Run,
        workers: Workers,
        train_steps: int | None,
        keep: int | None,
        warm_start: Run | None,
    ) -> Self:
        """Makes the parts of a run, restored from its newest checkpoint.

        Arguments as of ``train``.
        """
        training = run.hparams.training
        check_same_precision(workers, training.dtype_policy)
        steps = training.train_steps if train_steps is None else train_steps
        problem = run.make_problem()
        if workers.count > 1:
            digest = data_digest(problem, run.data_dir, run.seed)
            check_agreement(workers, facts_of(run, steps, digest))
        model, optimizer = _make_network(run, workers, warm_start)
        store = CheckpointStore(run.output_dir, keep or training.keep_checkpoint_max)
        train_state = TrainState(model, optimizer)
        saver = Saver(store, train_state, workers)
        state = saver.restore()
        curriculum = _make_curriculum(run, problem, workers, state)
        evaluator = Evaluator(model, problem, run.data_dir, vocab_dir=run.vocab_dir)
        evaluator.check(problem.validation_sets())
        unit = "examples" if problem.spec(run.data_dir).has_one_answer else "tokens"
        progress = ProgressLine(steps, unit, silent=not workers.is_chief)
        return cls(
            run,
            problem,
            workers,
            steps,
            model,
            optimizer,
            store,
            saver,
            train_state,
            curriculum,
            evaluator,
            progress,
        )

    @property
    def state(self) -> TrainingState:
        """The progress of training."""
        return self.train_state.progress

    @property
    def ended(self) -> StoppedBy | None:
        """Why nothing is left to be trained; None: something is."""
        if self.state.step >= self.train_steps:
            return "train_steps"
        patience = self.run.hparams.training.early_stopping_patience
        return "early_stopping" if self.state.out_of_patience(patience) else None


def _make_network(run: Run, workers: Workers, warm_start: Run | None) -> tuple[Any, Optimizer]:
    """The model, perhaps with the weights of another run, and the optimizer of its weights."""
    keras.utils.set_random_seed(run.seed)
    with workers.strategy.scope():
        model = run.make_model()
        if warm_start is not None:
            refuse_other_vocabulary(warm_start, run)
            restore_weights(model, warm_start)
            # The curriculum begins again, at whose end relaxed weights are to be tied.
            model.tie(False)
        return model, make_optimizer(model.trainable_variables, run.hparams, run.seed)


def _make_curriculum(
    run: Run, problem: Problem, workers: Workers, state: TrainingState
) -> Curriculum | None:
    training = run.hparams.training
    if training.curriculum == "none":
        return None
    curriculum = Curriculum(
        problem, run.data_dir, training, workers.replicas, run.seed, state.curriculum
    )
    if not state.step:
        curriculum.check_start()
    return curriculum
