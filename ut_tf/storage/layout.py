"""Every name inside a run directory, once.

runs/babi_qa-ut_base/
  config.json          the run (``ut_tf.run_config``)
  vocab/               the vocabulary files it was trained with
  checkpoints/         best.json and step-00000100/{variables.*, state.json, manifest.json}
  metrics.jsonl        one line per log point and per validation
  tensorboard/         the same for TensorBoard
  processes.jsonl      one line per process that trained: machine, versions, commit, minutes
  evaluations.jsonl    what ut-eval measured
  exit_sweep.json      metrics, steps and time under each exit rule; the same in exit_sweep.csv
  depth_sweep.json     the same at each depth (ut-eval --depth_sweep), and depth_sweep.csv
  compute.json         metrics against FLOP and time (--compute), and compute.csv
  by_difficulty.json   steps beside those of an algorithm (--by_difficulty), and by_difficulty.csv
  figures/             what ut-eval --figures drew

and inside a saved model:

models/babi/
  config.json          the run, without the folders of the machine that trained it
  model.safetensors    the weights
  vocab/               the vocabulary files
  README.md            the model card
"""

from pathlib import Path

CONFIG_FILE = "config.json"
VOCAB_FOLDER = "vocab"
SUBWORDS_FILE = "subwords.model"
PROCESSES_FILE = "processes.jsonl"
METRICS_FILE = "metrics.jsonl"
EVENTS_FOLDER = "tensorboard"
RECORDS_FILE = "evaluations.jsonl"
# Sweeps: the names of a table in JSON and CSV and of its figure, without their ends.
EXIT_SWEEP = "exit_sweep"
DEPTH_SWEEP = "depth_sweep"
COMPUTE = "compute"
BY_DIFFICULTY = "by_difficulty"
SWEEPS = (EXIT_SWEEP, DEPTH_SWEEP, COMPUTE, BY_DIFFICULTY)
EXPORT_FOLDER = "export"
LITERT_FOLDER = "litert"
LOCK_FILE = ".lock"
START_LOCK_FILE = ".start.lock"

WEIGHTS_FILE = "model.safetensors"
CARD_FILE = "README.md"

CHECKPOINTS_FOLDER = "checkpoints"
BEST_FILE = "best.json"
STEP_PREFIX = "step-"
TEMPORARY_PREFIX = "tmp-"
CORRUPT_PREFIX = "corrupt-"
VARIABLES_FILE = "variables"
STATE_FILE = "state.json"
MANIFEST_FILE = "manifest.json"

# In the folder of a sweep, and in each run directory below it.
SWEEP_FILE = "sweep.json"
SWEEP_LOG_FILE = "sweep.log"
# In the folder of a search alone.
STUDY_FILE = "optuna.journal"
_MOST_DIGITS = 18


def checkpoint_name(step: int) -> str:
    """The folder of the checkpoint of a step, ``step-00000100``."""
    return f"{STEP_PREFIX}{step:08d}"


def step_of(name: str) -> int | None:
    """The step in the name of a checkpoint's folder; None for other names."""
    return step_in(name.removeprefix(STEP_PREFIX)) if name.startswith(STEP_PREFIX) else None


def step_in(digits: str) -> int | None:
    """The step that digits say; None for other texts, and for more digits than a step has."""
    is_step = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
    return int(digits) if is_step else None


def checkpoint_steps(output_dir: Path) -> list[int]:
    """The steps of a run's checkpoints, ascending; the checkpoints may be damaged."""
    folder = output_dir / CHECKPOINTS_FOLDER
    folders = [entry for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
    return sorted(step for entry in folders if (step := step_of(entry.name)) is not None)
