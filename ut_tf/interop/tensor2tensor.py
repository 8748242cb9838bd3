"""Networks and runs of tensor2tensor's universal_transformer and transformer, brought over with the
same outputs.

Example::

    # then ut-eval or ut-trainer
    run = import_run("t2t_run", "runs/imported", problem="algorithmic_reverse_decimal40")
    # arrays by tensor2tensor's variable names
    model = model_from_variables(variables, hparams, target_space_id=11)

The variables of both sides must match completely (``tensor2tensor_variables.py``).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams, parse_problem_args
from ut_tf.interop.imported_run import check_is_new, save_imported, with_data
from ut_tf.interop.tensor2tensor_files import (
    named_problem,
    read_checkpoint,
    read_hparams,
    trained_target_space,
)
from ut_tf.interop.tensor2tensor_hparams import (
    assignments,
    hparams_from_hparams,
    network_from_hparams,
)
from ut_tf.interop.tensor2tensor_variables import as_trained, matched, normalized, root_of
from ut_tf.interop.tensor2tensor_vocabulary import TEXT_PROBLEM, find_vocabulary, named_vocabulary
from ut_tf.notices import note, report
from ut_tf.paths import expanded
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.training.optimizer import Optimizer

__all__ = [
    "assign_variables",
    "hparams_from_hparams",
    "import_run",
    "model_from_variables",
    "network_from_hparams",
]

_REFERENCE_TARGET_SPACE = 1
# By the number of its symbols, the problem that tensor2tensor trains on where nothing else is said
# of it.
_PROBLEMS_OF_SYMBOLS = {4: "algorithmic_reverse_binary40", 12: "algorithmic_reverse_decimal40"}
_VOCABULARY = re.compile(r"symbol_modality_(\d+)_\d+/(\w+)$")
_CLASSES = re.compile(r"class_label_modality_(\d+)_\d+/")


def model_from_variables(
    variables: Mapping[str, Any],
    hparams: Mapping[str, Any],
    target_space_id: int | None = None,
    spec: ProblemSpec | None = None,
) -> Any:
    """A keras.Model with the variables of tensor2tensor's universal_transformer or transformer, or
    of the encoder of one.

    Args:
      variables: tensor2tensor's variable names, with or without "var/" before them, and their
        arrays. Arrays by other names, outside "universal_transformer/" for one, are not looked at.
      hparams: the content of the run's hparams.json.
      target_space_id: which row of the target space embedding the network's problem used
        (tensor2tensor's SpaceID); None: the number in `variables` under "target_space_id", or 1
        where there is none, as in the reference outputs.
      spec: what the problem is made of; None: symbols to symbols, symbols to a class, or symbols
        alone (a language model), with the vocabulary that the variables' names tell.

    Raises:
      UserError: we do not support the network, or the variables are not exactly those of such a
        network.
    """
    root = root_of(variables)
    theirs = normalized(variables, root)
    ours = hparams_from_hparams(as_trained(hparams, theirs), root)
    spec = spec or _spec(theirs)
    model = registry.models.get(ours.model)(ours.network, spec)
    if target_space_id is None:
        target_space_id = int(variables.get("target_space_id", _REFERENCE_TARGET_SPACE))
    assign_variables(model, variables, hparams, target_space_id)
    return model


def assign_variables(
    model: Any, variables: Mapping[str, Any], hparams: Mapping[str, Any], target_space_id: int
) -> None:
    """Sets all variables of `model`, built for `hparams`, from tensor2tensor's; arguments as for
    ``model_from_variables``.
    """
    theirs = normalized(variables, root_of(variables))
    for variable, value in matched(model, theirs, hparams, target_space_id):
        variable.assign(value)


def import_run(
    t2t_dir: str | Path,
    output_dir: str | Path,
    problem: str | None = None,
    checkpoint: str | Path | None = None,
    target_space_id: int | None = None,
    data_dir: str | Path | None = None,
    tmp_dir: str | Path | None = None,
    problem_args: str = "",
    usr_dir: str | Path | None = None,
    vocab: str | Path | None = None,
) -> Run:
    """Makes a run directory of ours from one of tensor2tensor, ready to be evaluated or trained
    further.

    Args:
      t2t_dir: holds hparams.json and the checkpoints.
      output_dir: of our run.
      problem: our name of the problem it was trained on; None: the one that the directory names or,
        where it names none, the reversal of digits with as many symbols, of which a line on
        standard error tells.
      checkpoint: its path, without the endings .index and .data; None: the newest in `t2t_dir`.
      target_space_id: row of the target space embedding; None: the one that was trained, by the
        optimizer's variables.
      data_dir, tmp_dir, problem_args, usr_dir: as for ``RunOptions``.
      vocab: the file vocab.* with the network's subwords; the run then translates text, without
        data to train on unless `problem` is given. None: without `problem` the one in `t2t_dir` or
        `data_dir` that has as many subwords as the network, if there is one.

    Raises:
      UserError: a file is missing or unreadable, the network is not supported, its variables or
        vocabulary don't fit the problem, or `output_dir` has checkpoints already. Nothing is
        written there in any of these.
    """
    folder = expanded(t2t_dir)
    hparams = read_hparams(folder)
    if usr_dir:
        registry.import_user_code(usr_dir)
    check_is_new(output_dir)
    tensors = read_checkpoint(folder, checkpoint)
    root = root_of(tensors)
    theirs = normalized(tensors, root)
    ours = hparams_from_hparams(as_trained(hparams, theirs), root)
    spec = _spec(theirs)
    arguments = parse_problem_args(problem_args)
    searched = [] if problem else [folder, *([expanded(data_dir)] if data_dir else [])]
    vocabulary = named_vocabulary(vocab, spec) if vocab else find_vocabulary(searched, spec)
    if vocabulary is not None:
        if not problem:
            problem = TEXT_PROBLEM
            note(f"the run translates with the subwords of {vocabulary}, as {TEXT_PROBLEM}.")
        arguments["vocab_file"] = str(vocabulary)
    problem = problem or named_problem(folder) or _problem_of_symbols(folder, tensors)
    registry.problems.check(problem)
    base = _nearest_set(ours)
    plan = Run.plan(
        problem,
        base,
        hparams=assignments(ours, make_hparams(base)),
        output_dir=output_dir,
        data_dir=data_dir,
        tmp_dir=tmp_dir,
        problem_args=arguments,
        usr_dir=usr_dir,
    )
    run = _with_data(plan, spec)
    keras.utils.set_random_seed(run.seed)
    model = run.make_model(sum(array.size for array in tensors.values()))
    space = trained_target_space(tensors) if target_space_id is None else target_space_id
    assign_variables(model, tensors, hparams, space)
    run = run.start()
    if hparams.get("position_start_index") == "random":
        note(
            "tensor2tensor draws a start of the positions at every step, at inference too; this"
            " run draws one for each example in training, and starts at 0 at inference."
        )
    _save(model, run, tensors, hparams, space)
    return run


def _problem_of_symbols(folder: Path, tensors: Mapping[str, Any]) -> str:
    """The problem that the vocabulary's size tells, and says so on standard error."""
    sizes = {
        int(match[1])
        for match in (re.search(r"/symbol_modality_(\d+)_\d+/", name) for name in tensors)
        if match
    }
    size = sizes.pop() if len(sizes) == 1 else 0
    if size not in _PROBLEMS_OF_SYMBOLS:
        raise UserError(f"{folder} does not say which problem it was trained on: give `problem`.")
    problem = _PROBLEMS_OF_SYMBOLS[size]
    report(
        f"{folder} names no problem; its {size} symbols fit {problem}, which is taken: name the"
        " problem if it was another."
    )
    return problem


def _with_data(plan: Run, spec: ProblemSpec) -> Run:
    """The run with its problem's data prepared, after checking that it has inputs and targets as
    the network does.
    """
    run = with_data(plan)
    assert run.spec is not None
    if (run.spec.inputs, run.spec.targets) != (spec.inputs, spec.targets):
        raise UserError(
            f"problem {run.problem} has inputs={run.spec.inputs} and targets={run.spec.targets},"
            f" and the network has inputs={spec.inputs} and targets={spec.targets}: give the"
            " `problem` that the network was trained on."
        )
    return run


def _spec(theirs: Mapping[str, Any]) -> ProblemSpec:
    """What the names of the variables tell of the problem.

    Args:
      theirs: from ``normalized``.

    Raises:
      UserError: the network does not read symbols.
    """
    sizes = {(match[2], int(match[1])) for match in map(_VOCABULARY.match, theirs) if match}
    if not sizes:
        raise UserError(
            "the variables hold no embedding of symbols (symbol_modality_…): only networks over"
            " symbols can be imported."
        )
    largest = max(size for _, size in sizes)
    named = dict(sorted(sizes))
    inputs, targets = named.get("input_emb", largest), named.get("target_emb", largest)
    if not any(name.startswith("body/encoder/") for name in theirs):
        return ProblemSpec("none", "tokens", 0, targets)
    classes = {int(match[1]) for match in map(_CLASSES.match, theirs) if match}
    if classes:
        return ProblemSpec("tokens", "class", inputs, classes.pop())
    return ProblemSpec("tokens", "tokens", inputs, targets, shared_vocab="shared" in named)


def _nearest_set(hparams: HParams) -> str:
    """The name of the model's set from which the fewest fields differ, so that the run's overrides
    stay few.
    """
    counts: dict[str, int] = {}
    for name in registry.hparams_sets.names():
        try:
            candidate = make_hparams(name)
        except UserError:
            continue  # A name that only says that its network does not exist yet.
        if candidate.model == hparams.model:
            counts[name] = assignments(hparams, candidate).count("=")
    return min(counts, key=lambda name: (counts[name], name))


def _save(
    model: Any,
    run: Run,
    tensors: Mapping[str, Any],
    hparams: Mapping[str, Any],
    target_space_id: int,
) -> None:
    """Writes the checkpoint that a trainer of ours would have written at this step, with Adam's
    moments where there are any.
    """
    step, root = int(tensors.get("global_step", 0)), root_of(tensors)
    optimizer = Optimizer(
        model.trainable_variables, run.hparams.training, run.hparams.network.hidden_size
    )
    place = {id(variable): index for index, variable in enumerate(model.trainable_variables)}
    for moments, ending in (
        (optimizer.first_moments, "/Adam"),
        (optimizer.second_moments, "/Adam_1"),
    ):
        slots = {
            name.removeprefix("training/").removesuffix(ending): value
            for name, value in tensors.items()
            if name.endswith(ending)
        }
        if not slots:
            continue
        for variable, value in matched(model, normalized(slots, root), hparams, target_space_id):
            moments[place[id(variable)]].assign(value)
    save_imported(run, model, optimizer, step)
