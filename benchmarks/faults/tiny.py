"""The smallest run that has all that a run directory can have, trained in this process."""

from pathlib import Path

from frame import call_command

PROBLEM = "babi_sim_task1"
HPARAMS_SET = "ut_babi"
SIZES = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1"
HPARAMS = (
    f"{SIZES},batch_size=8,eval_frequency=2,keep_checkpoint_max=3,early_stopping_patience=0,"
    "train_steps=6"
)
PROBLEM_ARGS = "train_questions=40,test_questions=10"


def flags(folder: Path, output_dir: Path | None = None) -> list[str]:
    """The flags of ut-trainer for the run in `folder`, or for the same run in another place."""
    return [
        f"--problem={PROBLEM}",
        f"--hparams_set={HPARAMS_SET}",
        f"--hparams={HPARAMS}",
        f"--problem_args={PROBLEM_ARGS}",
        f"--output_dir={output_dir or folder / 'run'}",
        f"--data_dir={folder / 'data'}",
        f"--tmp_dir={folder / 'tmp'}",
        "--log_frequency=1",
    ]


def make(folder: Path) -> None:
    """Trains the run and evaluates it.

    Raises:
      RuntimeError: a command refused.
    """
    from ut_tf.bin import eval as eval_command
    from ut_tf.bin import trainer

    for call in (
        call_command(trainer.main, flags(folder), 300.0),
        call_command(eval_command.main, [f"--output_dir={folder / 'run'}"], 300.0),
    ):
        if call.status != 0:
            raise RuntimeError(call.errors)
