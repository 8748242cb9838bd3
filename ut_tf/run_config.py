"""config.json of a run directory: read, checked and written.

::

    config = from_values(read_values(folder), folder)
    write_config(config, folder)

The file does not say where it is, so that a run directory can be moved. Files of version 0.4 are
read; hyperparameters that came later have the values by which 0.4 worked.
"""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from ut_tf import registry
from ut_tf.config.hparams import HParams, differences
from ut_tf.data.moved_files import where_same
from ut_tf.errors import UserError
from ut_tf.notices import warn
from ut_tf.problem_spec import ProblemSpec
from ut_tf.storage.files import read_bounded, write_bytes
from ut_tf.storage.json_lines import unique_keys
from ut_tf.storage.layout import CONFIG_FILE
from ut_tf.storage.model_folder import is_plain_name
from ut_tf.storage.typed_lines import typed
from ut_tf.version import __version__

R = TypeVar("R", bound="RunConfig")
FORMAT_VERSION = 1
DATA_VERSION = 2
"""Of the data that problems make: runs of version 0.4, whose configuration names none, have 1
(``Problem.earlier_arguments``).
"""
DIGEST = "sha256"
"""Name of the checksum in config.json."""
_ADVICE = "restore it, or train again in another `output_dir`"
_OF_DECAY = (
    ", which follows from the hyperparameter train_steps; the command's `train_steps` stops earlier"
    " and leaves it as it is"
)

# Fields that say how long and how often, not what is trained: a run may go on with other values of
# these.
RESUMABLE_FIELDS = frozenset({"train_steps", "eval_frequency", "keep_checkpoint_max"})

# What decides the figures of a run; where its folders lie does not.
_DECIDING = (
    "problem",
    "problem_args",
    "hparams_set",
    "model",
    "hparams",
    "asked",
    "overrides",
    "seed",
    "spec",
    "vocab_sha256",
    "trained",
)
# What decides them where it is there; files of earlier versions have checksums without it.
_DECIDING_IF_THERE = ("data_version",)


class _StoredHParams(TypedDict):
    """The hyperparameters in config.json."""

    model: str
    network: dict[str, Any]
    training: dict[str, Any]


class _Needed(TypedDict):
    """The values that config.json must hold, besides its version."""

    problem: str
    problem_args: dict[str, Any]
    hparams_set: str
    model: str
    hparams: _StoredHParams
    overrides: str
    seed: int
    data_dir: str
    tmp_dir: str
    usr_dir: str | None
    spec: dict[str, Any] | None


class _Stored(_Needed, total=False):
    """With those that files of earlier versions lack."""

    vocab_sha256: dict[str, str]
    asked: dict[str, str]
    data_version: int
    sha256: str


class RunOptions(TypedDict, total=False):
    """The keyword arguments of ``Run.create`` and ``Run.plan``.

    Args:
      output_dir: the run directory; without it runs/<problem>-<hparams_set>.
      data_dir: folder of prepared data; without it ``default_data_dir()``.
      tmp_dir: folder of downloaded archives; without it ``default_tmp_dir()``.
      seed: decides initial weights, dropout and the order of the data; 0 without it.
      problem_args: arguments of the problem, "name=value,name=value" or a dictionary.
      usr_dir: folder of the user's own registrations.
      model: registered name of the model; without it the set's.
    """

    output_dir: str | Path | None
    data_dir: str | Path | None
    tmp_dir: str | Path | None
    seed: int
    problem_args: str | dict[str, Any]
    usr_dir: str | Path | None
    model: str | None


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The stored configuration of a run: problem, hyperparameters and data.

    Args:
      problem: registered name of the problem.
      problem_args: arguments of the problem's factory.
      hparams_set: registered name of the hyperparameter set.
      hparams: the set with its overrides, resolved.
      overrides: the overrides as they were given, "name=value,name=value".
      seed: decides initial weights, dropout and the order of the data.
      data_dir: folder of prepared data.
      tmp_dir: folder of downloaded archives.
      usr_dir: folder of the user's own registrations, if any.
      spec: what the model must know of the problem; None until its data is prepared.
      vocab_sha256: checksums of the run's vocabulary files, by name, once they are written.
      asked: what the set asks for in place of a value in `hparams` that suits the processor, by
        name.
      data_version: of the data that its problem makes.
    """

    problem: str
    problem_args: dict[str, Any]
    hparams_set: str
    hparams: HParams
    overrides: str
    seed: int
    data_dir: Path
    tmp_dir: Path
    usr_dir: str | None = None
    spec: ProblemSpec | None = None
    vocab_sha256: dict[str, str] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    data_version: int = DATA_VERSION

    def __repr__(self) -> str:
        changes = f", {self.overrides}" if self.overrides else ""
        return (
            f"{type(self).__name__}({self.problem}, {self.hparams_set}{changes}, seed {self.seed})"
        )


def read_values(folder: Path) -> dict[str, Any] | None:
    """Reads the values of config.json as they stand there; None: there is no such file.

    Raises:
      UserError: the file cannot be read, is of another version, or lacks a value.
    """
    path = folder / CONFIG_FILE
    try:
        values: dict[str, Any] = json.loads(read_bounded(path), object_pairs_hook=unique_keys)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read ({error}): {_ADVICE}.") from error
    version = values.get("format_version") if isinstance(values, dict) else None
    if version != FORMAT_VERSION:
        raise UserError(
            f"{path} has format version {version}, this ut_tf {__version__} reads {FORMAT_VERSION}:"
            " use the ut_tf that wrote it."
        )
    try:
        checked: dict[str, Any] = typed(values, _Stored)
        return checked
    except ValueError as error:
        raise UserError(f"{path} is no configuration of a run ({error}): {_ADVICE}.") from error


def with_digest(values: dict[str, Any]) -> dict[str, Any]:
    """The values of config.json with the checksum of those that decide a run's figures."""
    return {**values, DIGEST: _digest(values)}


def warn_of_changes(values: dict[str, Any], folder: Path) -> None:
    """Warns where the values that ``read_values`` read in `folder` are not those that were
    written.
    """
    if values.get(DIGEST, _digest(values)) != _digest(values):
        warn(
            f"{folder / CONFIG_FILE} is not as it was written, so that figures may be of another"
            f' run: restore it, or remove "{DIGEST}" from it if you changed it on purpose.'
        )


def _digest(values: dict[str, Any]) -> str:
    # As JSON has them, keys are texts and tuples are lists.
    names = [*_DECIDING, *(name for name in _DECIDING_IF_THERE if name in values)]
    deciding = json.loads(json.dumps({name: values.get(name) for name in names}))
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()


def check_portable(values: dict[str, Any], folder: Path) -> None:
    """Raises UserError where the values of a saved model's config.json name code or another place.

    Others may have written them: a model's folder brings no code, and its names stay inside it.
    """
    if values["usr_dir"] is not None:
        raise UserError(
            f"{folder / CONFIG_FILE} names a folder of code (usr_dir={values['usr_dir']!r}), which"
            " no saved model may: set it to null, and give a `usr_dir` that you trust yourself."
        )
    declared = registry.problems.file_arguments(values["problem"])
    arguments = [value for name, value in values["problem_args"].items() if name in declared]
    files = [
        file for value in arguments for file in (value if isinstance(value, list) else [value])
    ]
    for name in [*values.get("vocab_sha256", {}), *files]:
        if name is not None and not is_plain_name(str(name)):
            raise UserError(
                f"{folder / CONFIG_FILE} names {name!r}, and a saved model names files without"
                " folders: it was not written by ut_tf."
            )


@contextlib.contextmanager
def naming_code(values: dict[str, Any], usr_dir: object) -> Iterator[None]:
    """Adds to the error of a saved model that it may lack the code of whom it is from."""
    try:
        yield
    except UserError as error:
        if usr_dir or not values.get("own_code"):
            raise
        raise UserError(
            f"{error} The model may need code of its author, which is not in its folder: add"
            " `usr_dir`=FOLDER, the folder of that code, if you trust it."
        ) from None


def check_code_is_here(values: dict[str, Any], folder: Path) -> None:
    """Raises UserError where a run was made with code of the user's own that this process has not
    imported: what lies in a run directory does not decide what is executed.
    """
    usr_dir = values["usr_dir"]
    if usr_dir is not None and not registry.has_imported(usr_dir):
        raise UserError(
            f"the run in {folder} was made with code of your own, which is not executed unasked:"
            f" add `usr_dir`={usr_dir}, if you trust what lies there."
        )


def from_values(values: dict[str, Any], folder: Path) -> RunConfig:
    """Makes the configuration from the values that ``read_values`` read in `folder`.

    User code that the run needs must be imported before.

    Raises:
      UserError: a hyperparameter that cannot be, or a value of a wrong type.
    """
    path = folder / CONFIG_FILE
    try:
        hparams = HParams.from_dict(values["hparams"])
        spec = None if values["spec"] is None else ProblemSpec.from_dict(values["spec"])
    except UserError as error:
        raise UserError(f"{path}: {error}") from error.__cause__
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise UserError(f"{path} is no configuration of a run ({error}): {_ADVICE}.") from error
    version = values.get("data_version", 1)
    if not 1 <= version <= DATA_VERSION:
        raise UserError(
            f"{path} has data of version {version}, this ut_tf {__version__} makes 1 to"
            f" {DATA_VERSION}: use the ut_tf that wrote it."
        )
    plain = ("problem", "problem_args", "hparams_set", "overrides", "seed", "usr_dir")
    return RunConfig(
        **{name: values[name] for name in plain},
        hparams=hparams,
        spec=spec,
        data_dir=Path(values["data_dir"]),
        tmp_dir=Path(values["tmp_dir"]),
        vocab_sha256=values.get("vocab_sha256", {}),
        asked=values.get("asked", {}),
        data_version=version,
    )


def write_config(config: RunConfig, folder: Path) -> None:
    """Writes config.json, whole or not at all."""
    values = {
        "format_version": FORMAT_VERSION,
        "problem": config.problem,
        "problem_args": config.problem_args,
        "hparams_set": config.hparams_set,
        "model": config.hparams.model,
        "hparams": config.hparams.to_dict(),
        "asked": config.asked,
        "overrides": config.overrides,
        "seed": config.seed,
        "data_dir": str(config.data_dir),
        "tmp_dir": str(config.tmp_dir),
        "usr_dir": config.usr_dir,
        "spec": None if config.spec is None else config.spec.to_dict(),
        "vocab_sha256": config.vocab_sha256,
        "versions": installed_versions(),
    }
    if config.data_version > 1:
        values["data_version"] = config.data_version
    content = json.dumps(with_digest(values), indent=2).encode() + b"\n"
    write_bytes(folder / CONFIG_FILE, content)


def changes_of(stored: RunConfig, run: RunConfig) -> list[str]:
    """The differences that make `run` another run than the stored one, "name: old -> new"."""
    changes = [
        f"{name}: {_shown(getattr(stored, name))} -> {_shown(getattr(run, name))}"
        for name in ("problem", "problem_args", "seed")
        if getattr(stored, name) != getattr(run, name)
    ]
    # Only the cosine reads decay_steps, which follows from train_steps where a set does not give
    # it.
    unread = set() if run.hparams.training.schedule == "cosine" else {"decay_steps"}
    changes += differences(stored.hparams, run.hparams, RESUMABLE_FIELDS | unread)
    training = run.hparams.training
    follows = training.decay_steps == training.train_steps
    return [
        text + _OF_DECAY if follows and text.startswith("decay_steps:") else text
        for text in changes
    ]


def installed_versions() -> dict[str, str]:
    """The versions of python, tensorflow, keras and ut_tf; none of them is imported for it."""
    versions = {"python": platform.python_version(), "ut_tf": __version__}
    for package in ("tensorflow", "keras"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            # TensorFlow under another package name, as some vendors build it.
            versions[package] = "unknown"
    return versions


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={argument}" for name, argument in value.items()) or "none"
    return str(value)


def with_stored_names(stored: RunConfig, run: R) -> R:
    """The run with the stored names of those files of its problem that have been moved since their
    data was prepared.
    """
    folders = (run.data_dir, stored.data_dir)
    arguments = where_same(run.problem, stored.problem_args, run.problem_args, folders)
    return dataclasses.replace(run, problem_args=arguments)


def portable_arguments(problem: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a problem without the folders of this machine: of files their names."""
    declared = registry.problems.file_arguments(problem)
    return {
        name: _file_names(value) if name in declared else value for name, value in arguments.items()
    }


def _file_names(value: Any) -> Any:
    if isinstance(value, list):
        return [Path(file).name for file in value]
    return Path(value).name if isinstance(value, str) else value
