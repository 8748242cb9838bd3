"""The model card, README.md of a saved model: Markdown with the front matter of the Hugging Face
hub.

::

    model_card(run, Stored("babi", step=5000, parameters=208_699, dtype="float32"))

It is written from what the run directory knows: its configuration, what validation measured and
what ut-eval found.
"""

import dataclasses
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.evaluation.records import Record, latest, read_records
from ut_tf.markdown import as_block, as_code, as_prose, one_line
from ut_tf.metrics.sums import Group
from ut_tf.paths import absolute
from ut_tf.run import Run
from ut_tf.run_config import from_values, portable_arguments, read_values
from ut_tf.storage.processes import training_minutes
from ut_tf.tables.evaluation_table import metrics_table
from ut_tf.version import __version__

_SIZES = (
    "hidden_size",
    "filter_size",
    "num_heads",
    "head_size",
    "num_steps",
    "num_layers",
    "recurrence",
    "transition",
    "position",
    "halting",
)
_HALTING = ("act_max_steps", "act_epsilon", "act_loss_weight")
_EXITS = ("eval_exit", "eval_exit_threshold", "train_exit")
_PONDERNET = ("act_max_steps", "ponder_prior", "ponder_kl_weight", "ponder_threshold")


@dataclass(frozen=True)
class Stored:
    """What is stored beside the card.

    Args:
      name: of the model.
      step: after which the weights were saved.
      parameters: numbers in the weights.
      dtype: in which they are stored.
      license: of the weights, as the hub names it; None: not said.
      versions: of the packages that trained it.
      fields: names of the texts of one example; empty: the problem has no text form.
      validated: what validation measured at that step.
    """

    name: str
    step: int
    parameters: int
    dtype: str
    license: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    validated: Mapping[str, float] = field(default_factory=dict)


def model_card(run: Run, stored: Stored) -> str:
    """The text of the card."""
    record = _record(run, stored.step)
    sections = [
        _front_matter(run, stored, record),
        f"# {stored.name}\n\n{_what_it_is(run, stored)}",
        f"## Use\n\n{_use(run, stored)}",
        f"## Task and data\n\n{_task(run, record)}",
        f"## Training\n\n{_training(run, stored)}",
        f"## Score\n\n{_score(run, stored, record)}",
        f"## Hyperparameters\n\n{_hyperparameters(run)}",
        f"## Versions\n\n{_versions(stored)}",
    ]
    return "\n\n".join(sections) + "\n"


def _record(run: Run, step: int) -> Record | None:
    """What ut-eval measured last of that step, with the run's hyperparameters and on its own
    problem.
    """
    trained = _as_trained(run)
    own = [
        record
        for record in latest(read_records(run.output_dir))
        if record.step == step
        and not record.test_problem
        and record.used_with == record.hparams
        and _is_use(trained, record.hparams, run)
    ]
    return own[-1] if own else None


def _is_use(trained: Run, hparams: str, run: Run) -> bool:
    """Whether `trained` with these hyperparameters is `run`; not with what no run takes."""
    try:
        return trained.in_use(hparams).hparams == run.hparams
    except UserError:
        return False


def _as_trained(run: Run) -> Run:
    """The run without what was changed for its use."""
    values = read_values(run.output_dir)
    if values is None:
        return run
    return dataclasses.replace(run, hparams=from_values(values, run.output_dir).hparams)


def _front_matter(run: Run, stored: Stored, record: Record | None) -> str:
    """YAML between two lines of dashes; JSON's texts, lists and objects are YAML's too."""
    tags = ["universal-transformer", "tensorflow", "keras", run.hparams.model, run.problem]
    if getattr(run.hparams.network, "halting", "none") != "none":
        tags.insert(1, "adaptive-computation-time")
    values: dict[str, Any] = {"license": stored.license} if stored.license else {}
    values |= {"library_name": "ut-tf", "tags": list(dict.fromkeys(tags))}
    if record is not None:
        names = [name for name in _headlines(record) if name in record.metrics]
        metrics = [{"type": name, "value": round(record.metrics[name], 6)} for name in names]
        dataset = {"type": run.problem, "name": run.problem, "split": record.split}
        result = {"task": {"type": run.problem}, "dataset": dataset, "metrics": metrics}
        values["model-index"] = [{"name": stored.name, "results": [result]}]
    lines = [f"{name}: {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(["---", *lines, "---"])


def _headlines(record: Record) -> list[str]:
    """The metrics of the record that say most, or all of them where it does not tell."""
    kept = [name for name in record.metrics if name.rpartition("/")[2] in record.headlines]
    grouped = [name for name in record.metrics if name.partition("/")[0] in record.headlines]
    return list(dict.fromkeys([*kept, *grouped])) or list(record.metrics)


def _what_it_is(run: Run, stored: Stored) -> str:
    halting = getattr(run.hparams.network, "halting", "none")
    halts = f" Positions halt dynamically (`halting={halting}`)." if halting != "none" else ""
    return (
        f"A `{run.hparams.model}` with {stored.parameters:,} parameters, trained on"
        f" `{run.problem}` with [ut-tf](https://github.com/ut-tf/ut-tf).{halts}"
    )


def _use(run: Run, stored: Stored) -> str:
    folder, usr_dir = f"models/{stored.name}", _code_folder(run)
    flags = {"model": folder, "usr_dir": usr_dir}
    commands = [_command(name, flags) for name in ("ut-eval", "ut-decoder")]
    code = f', usr_dir="{usr_dir}"' if usr_dir else ""
    load = f'model = ut_tf.load("{folder}"{code})  # or hf://<user>/{stored.name}'
    lines = ["import ut_tf", "", load]
    if stored.fields:
        lines.append(f"print(model.answer({', '.join(stored.fields)}))  # texts")
    else:
        commands.pop()
    lines.append("model.model  # the keras.Model")
    return "\n".join(["```python", *lines, "```", "", "```sh", *commands, "```"])


def _code_folder(run: Run) -> str:
    """The name of the folder of code that the run needs; empty: none."""
    return absolute(run.usr_dir).name if run.usr_dir else ""


def _task(run: Run, record: Record | None) -> str:
    lines = [f"- problem: `{run.problem}`, {registry.problems.describe(run.problem)}"]
    if run.problem_args:
        arguments = portable_arguments(run.problem, run.problem_args)
        lines.append(f"- arguments: {_code(arguments.items())}")
    if record is not None and record.data_note:
        note = as_prose(record.data_note)
        lines.append(f"- the data differs from the published benchmark's: {note}")
    if run.spec is not None:
        lines.append(
            f"- inputs: {run.spec.inputs}, {run.spec.input_vocab_size} ids; targets:"
            f" {run.spec.targets}, {run.spec.target_vocab_size}"
        )
    return "\n".join(lines)


def _training(run: Run, stored: Stored) -> str:
    portable = portable_arguments(run.problem, run.problem_args)
    arguments = ",".join(f"{name}={_plain(value)}" for name, value in portable.items())
    model_of_set = registry.hparams_sets.get(run.hparams_set)().model
    flags = {
        "usr_dir": _code_folder(run),
        "problem": run.problem,
        "problem_args": arguments,
        "hparams_set": run.hparams_set,
        "model": "" if run.hparams.model == model_of_set else run.hparams.model,
        "hparams": run.overrides,
        "random_seed": run.seed or "",
        "output_dir": f"runs/{stored.name}",
    }
    minutes = training_minutes(run.output_dir, stored.step)
    took = "" if minutes is None else f", {minutes:.1f} minutes with validation"
    return (
        f"```sh\n{_command('ut-trainer', flags)}\n```\n\n"
        f"Seed {run.seed}; the weights are of step {stored.step}{took}. They are stored as"
        f" {stored.dtype}.{_used_with(run)}"
    )


def _used_with(run: Run) -> str:
    """The hyperparameters that are not those of the training, as a sentence."""
    trained, used = (vars(each.hparams.network) for each in (_as_trained(run), run))
    changed = [f"{name}={used[name]}" for name in used if used[name] != trained[name]]
    return f" They are used with `{','.join(changed)}`." if changed else ""


def _score(run: Run, stored: Stored, record: Record | None) -> str:
    """What was measured, as ut-eval prints it."""
    if record is not None:
        judged = sum(record.examples.values())
        examples = f"{judged:,} examples of " if judged else ""
        origin = (
            f"Measured by ut-eval on {examples}the {as_prose(record.split)} split; brackets hold"
            " 95% intervals, which cover the choice of the examples."
        )
        groups = {name: Group(**group) for name, group in record.groups.items()}
        metrics = record.metrics
        table = metrics_table(metrics, record.intervals, record.examples, groups, record.headlines)
    elif stored.validated:
        origin = "Of validation, during training; ut-eval has not evaluated this checkpoint."
        metrics = dict(stored.validated)
        table = metrics_table(metrics)
    else:
        return "It has not been evaluated."
    if stored.dtype != "float32":
        origin += f" Measured before the weights were rounded to {stored.dtype}."
    return "\n\n".join(filter(None, [origin, as_block(table), _pondering(run, metrics)]))


def _pondering(run: Run, metrics: Iterable[str]) -> str:
    """What the ponder times among the metrics are, and what stops the positions; empty without
    such.
    """
    kinds = {part for name in metrics for part in name.split("/")}
    if "ponder_time" not in kinds:
        return ""
    network = vars(run.hparams.network)
    form = network.get("halting", "none")
    names = {"pondernet": _PONDERNET, "none": _EXITS}.get(form, _HALTING)
    known = [(name, network[name]) for name in names if name in network]
    # ut-eval does not measure it in slots that refill.
    share = ", `compute_share` the share of full depth that was computed"
    return (
        f"`ponder_time` are recurrent steps per position{share if 'compute_share' in kinds else ''}"
        f". {'Exits' if form == 'none' else 'Halting'}: {_code(known)}."
    )


def _hyperparameters(run: Run) -> str:
    network = vars(run.hparams.network)
    unread = "num_steps" if network.get("halting", "none") != "none" else ""
    # A head_size of 0 is hidden_size / num_heads.
    sizes = [
        (name, network[name])
        for name in _SIZES
        if name in network and name != unread and (name != "head_size" or network[name])
    ]
    changed = f" with {as_code(run.overrides)}" if run.overrides else ""
    return f"Set {as_code(run.hparams_set)}{changed}: {_code(sizes)}. config.json has all of them."


def _versions(stored: Stored) -> str:
    named = (f"{name} {version}" for name, version in stored.versions.items())
    trained = as_prose(", ".join(named))
    return f"Trained with {trained or 'unknown versions'}; saved by ut_tf {__version__}."


def _command(name: str, flags: Mapping[str, Any]) -> str:
    given = [f"--{flag}={value}" for flag, value in flags.items() if value not in ("", None)]
    return one_line(shlex.join([name, *given]))


def _code(pairs: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(as_code(f"{name}={_plain(value)}") for name, value in pairs)


def _plain(value: Any) -> str:
    """A value as a flag takes it."""
    if isinstance(value, list):
        return "+".join(map(str, value))
    return json.dumps(value) if isinstance(value, bool) or value is None else str(value)
