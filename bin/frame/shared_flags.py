"""The flags that several commands share, and the arguments of the library that they set.

The library's errors name arguments in backticks, "`seed`=-1: expected ..."; ``in_flags`` turns them
into what is typed, "--random_seed=-1: expected ...".
"""

import dataclasses
import re
from collections.abc import Collection

from ut_tf.bin.frame.flags import Flag

# Arguments whose flag has another name.
ARGUMENT_FLAGS = {
    "seed": "random_seed",
    "eval_frequency": "local_eval_frequency",
    "destination": "avg_dir",
}

_WHAT, _WHERE = "What", "Where"

PROBLEM = Flag("problem", "Registered name of the problem.", _WHAT, shown_default="needed")
PROBLEM_ARGS = Flag(
    "problem_args",
    "Arguments of the problem, name=value,name=value; several numbers are 1+2+3.",
    _WHAT,
    default="",
    shown_default="none",
)
HPARAMS_SET = Flag(
    "hparams_set", "Registered name of the hyperparameter set.", _WHAT, shown_default="needed"
)
HPARAMS = Flag(
    "hparams",
    "Overrides of the set, name=value,name=value.",
    _WHAT,
    default="",
    shown_default="none",
)
HPARAMS_IN_USE = Flag(
    "hparams",
    "Hyperparameters that may differ from training: depth, memory and positions in use, such as"
    " eval_num_steps=8, or eval_act_max_steps=8 of a model that halts.",
    _WHAT,
    default="",
    shown_default="the run's",
)
MODEL = Flag("model", "Registered name of the model.", _WHAT, shown_default="the set's")
RANDOM_SEED = Flag(
    "random_seed",
    "Decides initial weights, dropout and the order of the data.",
    _WHAT,
    "integer",
    default=0,
)
USR_DIR = Flag(
    "usr_dir",
    "Folder of your own Python package with registrations.",
    _WHERE,
    shown_default="none",
    aliases=("t2t_usr_dir",),
)
DATA_DIR = Flag(
    "data_dir",
    "The folder of prepared data.",
    _WHERE,
    shown_default="$UT_TF_DATA_DIR or ~/.cache/ut_tf/data",
)
TMP_DIR = Flag(
    "tmp_dir",
    "Where downloaded archives lie; put them there yourself without a network.",
    _WHERE,
    shown_default="~/.cache/ut_tf/downloads",
)
OUTPUT_DIR = Flag(
    "output_dir", "The run directory.", _WHERE, shown_default="./runs/<problem>-<hparams_set>"
)
RUN_DIR = Flag(
    "output_dir",
    "The run directory, as ut-trainer wrote it.",
    _WHERE,
    required=True,
    aliases=("model_dir",),
)
# Commands that only read a run take a saved model in its place (ut_tf.bin.frame.readable_run).
READ_RUN_DIR = dataclasses.replace(
    RUN_DIR, required=False, shown_default="this or --model is needed"
)
READ_RUN_DIRS = dataclasses.replace(
    READ_RUN_DIR,
    kind="words",
    help="The run directory, as ut-trainer wrote it; given several times, the probabilities of the"
    " runs are averaged, which must have one problem and one vocabulary.",
)
SAVED_MODEL = Flag(
    "model",
    "A saved model in place of a run directory: its folder, hf://user/model, or the name of one"
    " that comes with ut-tf.",
    _WHERE,
    shown_default="none",
)
# tensor2tensor's users name with every command what the run was made of.
RUN_PROBLEM = Flag(
    "problem",
    "The run's problem, which its directory names: another one is refused.",
    _WHERE,
    shown_default="the run's",
)
RUN_HPARAMS_SET = Flag(
    "hparams_set",
    "The run's hyperparameter set, which its directory names: another one is refused.",
    _WHERE,
    shown_default="the run's",
)
RUN_DATA_DIR = Flag("data_dir", "The folder of prepared data.", _WHERE, shown_default="the run's")
RUN_TMP_DIR = Flag("tmp_dir", "Where downloaded archives lie.", _WHERE, shown_default="the run's")
RUN_USR_DIR = Flag(
    "usr_dir",
    "Folder of your own Python package with registrations; a run that was trained with one needs"
    " it.",
    _WHERE,
    shown_default="none",
    aliases=("t2t_usr_dir",),
)
_TEXT = "Files of your own (translate_files, classify_files, lm_files, aligned_files, pairs_files)"
FILE_FLAGS = (
    Flag(
        "source_files",
        "Training text, one sentence or text a line, plain or gzip; several with commas between.",
        _TEXT,
        shown_default="none",
    ),
    Flag(
        "target_files",
        "Its translations or labels, line by line; without them the lines of the source files are"
        " source, tab, target, or label, tab, text.",
        _TEXT,
        shown_default="none",
    ),
    Flag(
        "dev_source_files",
        "Text for validation.",
        _TEXT,
        shown_default="some of the training text is held out",
    ),
    Flag("dev_target_files", "Its translations or labels.", _TEXT, shown_default="none"),
    Flag(
        "test_source_files",
        "Text that ut-eval uses.",
        _TEXT,
        shown_default="the text for validation",
    ),
    Flag("test_target_files", "Its translations or labels.", _TEXT, shown_default="none"),
    Flag(
        "vocab_file",
        "A sentencepiece model, or a vocabulary of tensor2tensor, to use instead of training one"
        " (any translate_ problem, classify_files, lm_files).",
        _TEXT,
        shown_default="none",
    ),
)
_FILE_ARGUMENTS = frozenset(flag.name for flag in FILE_FLAGS)
REGISTRY_HELP = Flag(
    "registry_help",
    "Lists the models, hyperparameter sets, problems and parts; --registry_help=babi lists all"
    " names with babi in them, --registry_help=halting the forms of halting; a problem's whole name"
    " shows its arguments, a set's its hyperparameters, a hyperparameter's what it is.",
    "Help",
    default="",
    alone="all",
)
DECODE_HPARAMS = Flag(
    "decode_hparams",
    "Options, name=value,name=value: beam_size (1: greedy), alpha, extra_length, max_length,"
    " min_length, n_best, wide_ends, write_beam_scores, sampling, temperature, top_k, top_p,"
    " strategy, batch_size, max_input_length.",
    "How",
    default="",
    shown_default=(
        "beam_size=4,alpha=0.6,extra_length=50,n_best=1,batch_size=32,max_input_length=1000"
    ),
)
CHECKPOINT = Flag(
    "checkpoint",
    "best (by validation), last, a step, or the path of a checkpoint.",
    "What",
    default="best",
    aliases=("checkpoint_path",),
)
BOTH = "both"
SCORE_FLAGS = (
    Flag("bleu_variant", "cased, uncased or both.", "How", default=BOTH),
    Flag("tokenize", "sacrebleu's tokeniser: 13a, intl, zh, char, none ...", "How", default="13a"),
    Flag("ter", "Also measures the translation edit rate.", "How", "boolean", default=False),
)
AVERAGE_FLAGS = (
    Flag(
        "n",
        "How many of the last checkpoints to average.",
        "What",
        "integer",
        shown_default="all there are, at most 8",
    ),
    Flag(
        "best",
        "How many of the best, by the metric that chooses checkpoints, instead of the last.",
        "What",
        "integer",
        shown_default="none",
    ),
    Flag(
        "checkpoints",
        "The steps of those to average, such as 1000,2000, instead of either.",
        "What",
        shown_default="none",
    ),
)


def in_flags(
    message: str, flags: Collection[str], hyperparameters: Collection[str] = frozenset()
) -> str:
    """A message of the library in a command's words.

    `` `name` `` becomes ``--name`` where the command has such a flag; `` `name`=value `` becomes
    ``--hparams=name=value`` for a hyperparameter, and `` `problem_args.name`=value `` becomes
    ``--problem_args=name=value``. All other names lose their backticks.

    Args:
      message: of a UserError or a warning.
      flags: names of the command's flags.
      hyperparameters: names that the command's --hparams takes; empty where it has no such flag.
    """

    def shown(match: re.Match[str]) -> str:
        of_problem, name, equals = match.groups()
        if of_problem:
            candidates = [name] if name in _FILE_ARGUMENTS else []
        else:
            candidates = [ARGUMENT_FLAGS.get(name, name), name]
        flag = next((candidate for candidate in candidates if candidate in flags), None)
        if flag is not None:
            return f"--{flag}{equals}"
        if equals and of_problem and "problem_args" in flags:
            return f"--problem_args={name}="
        if equals and not of_problem and name in hyperparameters:
            return f"--hparams={name}="
        return f"{name}{equals}"

    return re.sub(r"`(problem_args\.)?([a-z][a-z0-9_]*)`(=?)", shown, message)
