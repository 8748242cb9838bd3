"""Networks and runs of tensor2tensor's universal_transformer, brought over with the same outputs.

Example::

    # then ut-eval or ut-trainer
    run = import_run("t2t_run", "runs/imported", problem="algorithmic_reverse_decimal40")
    # arrays by tensor2tensor's variable names
    model = model_from_variables(variables, hparams, target_space_id=11)

``_pairs`` names the variable of tensor2tensor for every variable of our model; the two sides must
match completely. Axes of length 1 are dropped, shards of an embedding are joined, and of the table
of target spaces the run's own row is taken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams
from ut_tf.interop.tensor2tensor_files import (
    TARGET_SPACE,
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
from ut_tf.layers.transition import SeparableConv
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.disk_errors import readable_disk_errors
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.saver import training_checkpoint
from ut_tf.training.state import TrainingState

__all__ = [
    "assign_variables",
    "hparams_from_hparams",
    "import_run",
    "model_from_variables",
    "network_from_hparams",
]

_ROOT = "universal_transformer/"
_REFERENCE_TARGET_SPACE = 1
_SHARD = re.compile(r"(symbol_modality_\d+_\d+/\w+)/weights_(\d+)$")
# By the number of its symbols, the problem that tensor2tensor trains on where nothing else is said
# of it.
_PROBLEMS_OF_SYMBOLS = {4: "algorithmic_reverse_binary40", 12: "algorithmic_reverse_decimal40"}
_VOCABULARY = re.compile(r"symbol_modality_(\d+)_\d+/(\w+)$")
_NORM = {"scale": "layer_norm/layer_norm_scale", "bias": "layer_norm/layer_norm_bias"}
_LSTM_GATES = {
    "input": "input",
    "forget": "forget",
    "output": "output",
    "modulation": "input_modulation",
}


def model_from_variables(
    variables: Mapping[str, Any],
    hparams: Mapping[str, Any],
    target_space_id: int | None = None,
    spec: ProblemSpec | None = None,
) -> Any:
    """A keras.Model with the variables of a tensor2tensor universal_transformer.

    Args:
      variables: tensor2tensor's variable names, with or without "var/" before them, and their
        arrays. Arrays by other names, outside "universal_transformer/", are not looked at.
      hparams: the content of the run's hparams.json.
      target_space_id: which row of the target space embedding the network's problem used
        (tensor2tensor's SpaceID); None: the number in `variables` under "target_space_id", or 1
        where there is none, as in the reference outputs.
      spec: what the problem is made of; None: symbols to symbols, with the vocabulary that the
        variables' names tell.

    Raises:
      UserError: we do not support the network, or the variables are not exactly those of such a
        network.
    """
    theirs = _normalized(variables)
    hparams_of_ours = hparams_from_hparams(hparams)
    model = registry.models.get(hparams_of_ours.model)(
        hparams_of_ours.network, spec or _spec(theirs)
    )
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
    for variable, value in _matched(model, _normalized(variables), hparams, target_space_id):
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
    usr_dir: str | None = None,
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

    Raises:
      UserError: a file is missing or unreadable, the network is not supported, its variables or
        vocabulary don't fit the problem, the problem is not one of symbols to symbols, or
        `output_dir` has checkpoints already. Nothing is written there in any of these.
    """
    folder = Path(t2t_dir)
    hparams = read_hparams(folder)
    if usr_dir:
        registry.import_user_code(usr_dir)
    if CheckpointStore(Path(output_dir)).steps():
        raise UserError(
            f"{output_dir} already holds checkpoints: import into an output directory that is new"
            " or empty."
        )
    ours = hparams_from_hparams(hparams)
    tensors = read_checkpoint(folder, checkpoint)
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
        problem_args=problem_args,
        usr_dir=usr_dir,
    )
    run = _with_data(plan)
    keras.utils.set_random_seed(run.seed)
    model = run.make_model()
    space = trained_target_space(tensors) if target_space_id is None else target_space_id
    assign_variables(model, tensors, hparams, space)
    run = run.start()
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
    print(
        f"{folder} names no problem; its {size} symbols fit {problem}, which is taken: name the"
        " problem if it was another.",
        file=sys.stderr,
    )
    return problem


def _with_data(plan: Run) -> Run:
    """The run with its problem's data prepared, after checking that it is one of symbols to
    symbols.
    """
    for folder in (plan.data_dir, plan.tmp_dir):
        with readable_disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
    run = plan.prepare()
    assert run.spec is not None
    if (run.spec.inputs, run.spec.targets) != ("tokens", "tokens"):
        raise UserError(
            f"problem {run.problem} has inputs={run.spec.inputs} and targets={run.spec.targets}:"
            " only networks from tokens to tokens can be imported; give the `problem` that the"
            " network was trained on, of sequences to sequences."
        )
    return run


def _pairs(model: Any, recurrence_type: str) -> Iterator[tuple[str, Any]]:
    """Yields (tensor2tensor's name without "universal_transformer/", our variable), for every
    variable.
    """
    yield from _embedding_pairs(model)
    if model.target_space is not None:
        yield TARGET_SPACE, model.target_space
    for side, recurrence in (("encoder", model.encoder), ("decoder", model.decoder)):
        prefix = f"body/{side}/universal_transformer_{recurrence_type}/"
        yield from _norm_pairs(f"body/{side}/layer_prepostprocess/", recurrence.final_norm)
        yield from _block_pairs(
            prefix + ("" if recurrence_type in ("gru", "lstm") else "rec_layer_0/"),
            recurrence.block,
        )
        yield from _cell_pairs(prefix, recurrence_type, recurrence.cell)
        if recurrence.coordinates.step_table is not None:
            yield prefix + "layer_embedding", recurrence.coordinates.step_table
        if recurrence.halting_unit.dynamic:
            yield from _linear_pairs(
                prefix + "sigmoid_activation_for_pondering/dense/", recurrence.halting_unit.linear
            )


def _embedding_pairs(model: Any) -> Iterator[tuple[str, Any]]:
    sizes = (
        f"{model.spec.input_vocab_size}_{model.network.hidden_size}",
        f"{model.spec.target_vocab_size}_{model.network.hidden_size}",
    )
    inputs, targets = (f"symbol_modality_{size}/" for size in sizes)
    if model.network.shared_embedding:
        yield inputs + "shared", model.input_embedding.table
        if model.target_embedding is not model.input_embedding:
            yield targets + "shared", model.target_embedding.table
    else:
        yield inputs + "input_emb", model.input_embedding.table
        yield targets + "target_emb", model.target_embedding.table
        yield targets + "softmax", model.output_projection.kernel


def _block_pairs(prefix: str, block: Any) -> Iterator[tuple[str, Any]]:
    for theirs, ours in (
        ("self_attention", "self_attention"),
        ("encdec_attention", "memory_attention"),
    ):
        attention = getattr(block, ours)
        if attention is None:
            continue
        yield from _norm_pairs(
            f"{prefix}{theirs}/layer_prepostprocess/", getattr(block, f"{ours}_norm")
        )
        projections = f"{prefix}{theirs}/multihead_attention/"
        yield projections + "q/kernel", attention.query_kernel
        yield projections + "k/kernel", attention.key_kernel
        yield projections + "v/kernel", attention.value_kernel
        yield projections + "output_transform/kernel", attention.output_transform.kernel
    transition = block.transition
    if transition is None:
        return
    yield from _norm_pairs(f"{prefix}ffn/layer_prepostprocess/", block.transition_norm)
    for number, layer in (("1", transition.inner), ("2", transition.outer)):
        if isinstance(layer, SeparableConv):
            convolution = f"{prefix}ffn/sepconv_relu_sepconv/conv{number}_single/"
            yield convolution + "depthwise_kernel", layer.depthwise_kernel
            yield convolution + "pointwise_kernel", layer.pointwise.kernel
            yield convolution + "bias", layer.pointwise.bias
        else:
            yield from _linear_pairs(f"{prefix}ffn/conv{number}/", layer)


def _cell_pairs(prefix: str, recurrence_type: str, cell: Any) -> Iterator[tuple[str, Any]]:
    if recurrence_type not in ("gru", "lstm"):
        return
    yield from _norm_pairs(prefix + "layer_prepostprocess/", cell.before_norm)
    yield from _norm_pairs(prefix + "layer_prepostprocess_1/", cell.after_norm)
    for name in cell.gates:
        yield from _linear_pairs(
            f"{prefix}{recurrence_type}/{_LSTM_GATES.get(name, name)}/",
            getattr(cell, f"{name}_gate"),
        )


def _norm_pairs(prefix: str, norm: Any) -> Iterator[tuple[str, Any]]:
    for ours, theirs in _NORM.items():
        yield prefix + theirs, getattr(norm, ours)


def _linear_pairs(prefix: str, linear: Any) -> Iterator[tuple[str, Any]]:
    yield prefix + "kernel", linear.kernel
    yield prefix + "bias", linear.bias


def _normalized(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The network's arrays by their names without "var/", ":0" and
    "universal_transformer/", shards joined.
    """
    arrays: dict[str, Any] = {}
    shards: dict[str, dict[int, Any]] = {}
    for name, value in variables.items():
        plain = name.removeprefix("var/").removesuffix(":0")
        if not plain.startswith(_ROOT):
            continue
        plain = plain.removeprefix(_ROOT)
        shard = _SHARD.match(plain)
        if shard:
            shards.setdefault(shard[1], {})[int(shard[2])] = np.asarray(value)
        else:
            arrays[plain] = np.asarray(value)
    joined = {
        name: np.concatenate([parts[index] for index in sorted(parts)])
        for name, parts in shards.items()
    }
    return {**arrays, **joined}


def _spec(theirs: Mapping[str, Any]) -> ProblemSpec:
    """Symbols to symbols with the vocabularies that the names of the embeddings tell."""
    sizes = {match[2]: int(match[1]) for match in map(_VOCABULARY.match, theirs) if match}
    if not sizes:
        raise UserError(
            "the variables hold no embedding of symbols (symbol_modality_…): only networks over"
            " symbols can be imported."
        )
    size = max(sizes.values())
    inputs, targets = sizes.get("input_emb", size), sizes.get("target_emb", size)
    return ProblemSpec("tokens", "tokens", inputs, targets, shared_vocab="shared" in sizes)


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


def _matched(
    model: Any, theirs: Mapping[str, Any], hparams: Mapping[str, Any], target_space_id: int
) -> list[tuple[Any, Any]]:
    """(our variable, its value) for all trainable variables of `model`."""
    pairs = dict(_pairs(model, str(hparams.get("recurrence_type", "basic"))))
    paired = {id(variable) for variable in pairs.values()}
    problems = [f"{name} is missing" for name in pairs if name not in theirs]
    problems += [f"{name} has no place here" for name in theirs if name not in pairs]
    problems += [
        f"nothing sets {variable.path}"
        for variable in model.trainable_variables
        if id(variable) not in paired
    ]
    matched = []
    for name in sorted(pairs.keys() & theirs.keys()):
        value = theirs[name][target_space_id] if name == TARGET_SPACE else theirs[name]
        fitting = _reshaped(
            value.T if name.endswith("/softmax") else value, tuple(pairs[name].shape)
        )
        if fitting is None:
            problems.append(
                f"{name} has shape {list(value.shape)} instead of {list(pairs[name].shape)}"
            )
        matched.append((pairs[name], fitting))
    if problems:
        raise UserError(
            "the variables are not those of the network in hparams.json:"
            f" {'; '.join(sorted(problems))}; give the hparams.json and the problem of the run that"
            " the checkpoint is from."
        )
    return matched


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
    step = int(tensors.get("global_step", 0))
    optimizer = Optimizer(
        model.trainable_variables, run.hparams.training, run.hparams.network.hidden_size
    )
    optimizer.iterations.assign(step)
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
        for variable, value in (
            _matched(model, _normalized(slots), hparams, target_space_id) if slots else ()
        ):
            moments[place[id(variable)]].assign(value)
    state = {**TrainingState(step=step).to_dict(), "averaged": False}
    CheckpointStore(run.output_dir).save(step, training_checkpoint(model, optimizer), state)


def _reshaped(value: Any, shape: tuple[int, ...]) -> Any | None:
    """`value` without the axes of length 1 that our shape does not have, or None where it
    does not fit.
    """
    if [size for size in value.shape if size != 1] != [size for size in shape if size != 1]:
        return None
    return value.reshape(shape)
