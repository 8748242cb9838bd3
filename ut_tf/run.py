"""A run: one problem, one resolved set of hyperparameters, the directories it uses, written to
``<output_dir>/config.json``.

How it is used::

    # checks, prepares the data, writes config.json
    run = Run.create("babi_qa", "ut_base", hparams="dropout=0.2")
    run = Run.load("runs/babi_qa-ut_base")                          # all that a later command needs
    model = run.make_model(); problem = run.make_problem()

How it works: ``create`` first checks all that can be checked without TensorFlow (``plan``), then
prepares the data (``start``) and keeps what the problem says of itself (its spec) and its
vocabulary files in the run directory. An output directory that holds a run goes on only with the
same problem, hyperparameters and seed. The run directory does not store its own place, so it can be
moved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import os
import platform
import random
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ut_tf import registry
from ut_tf.config.hparams import HParams, differences
from ut_tf.config.network import BEFORE_0_5
from ut_tf.config.overrides import parse_assignments
from ut_tf.config.training import TrainingConfig
from ut_tf.data.arguments import absolute_files, checked_arguments, hyperparameter_arguments
from ut_tf.data.prepared import prepare_data
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.storage.files import sha256_of, write_bytes
from ut_tf.storage.layout import CONFIG_FILE, VOCAB_FOLDER
from ut_tf.version import __version__

if TYPE_CHECKING:
    from ut_tf.data.text.codec import TextCodec

FORMAT_VERSION = 1
LARGEST_SEED = 2**32 - 1

# Fields that say how long and how often, not what is trained: a run may go on with other values of
# these.
RESUMABLE_FIELDS = frozenset({"train_steps", "eval_frequency", "keep_checkpoint_max"})

# What config.json must hold, besides its version.
_CONFIG_TYPES: dict[str, type | tuple[type, ...]] = {
    "problem": str,
    "problem_args": dict,
    "hparams_set": str,
    "model": str,
    "hparams": dict,
    "overrides": str,
    "seed": int,
    "data_dir": str,
    "tmp_dir": str,
    "usr_dir": (str, type(None)),
    "spec": (dict, type(None)),
}


@dataclass(frozen=True)
class Run:
    """What is trained, on what, how, and where.

    Args:
      problem: registered name of the problem.
      problem_args: arguments of the problem's factory.
      hparams_set: registered name of the hyperparameter set.
      hparams: the set with its overrides, resolved.
      overrides: the overrides as they were given, "name=value,name=value".
      seed: decides initial weights, dropout and the order of the data.
      data_dir: where prepared data lies.
      tmp_dir: where downloaded archives lie.
      output_dir: the run directory.
      usr_dir: folder of the user's own registrations, if any.
      spec: what the problem says of itself; None until its data is prepared.
      vocab_sha256: checksums of the run's vocabulary files, by name, once they are written.
    """

    problem: str
    problem_args: dict[str, Any]
    hparams_set: str
    hparams: HParams
    overrides: str
    seed: int
    data_dir: Path
    tmp_dir: Path
    output_dir: Path
    usr_dir: str | None = None
    spec: ProblemSpec | None = None
    vocab_sha256: dict[str, str] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        problem: str,
        hparams_set: str,
        hparams: str = "",
        output_dir: str | Path | None = None,
        data_dir: str | Path | None = None,
        tmp_dir: str | Path | None = None,
        seed: int = 0,
        problem_args: str | dict[str, Any] = "",
        usr_dir: str | None = None,
        model: str | None = None,
    ) -> Self:
        """Returns a run whose data is prepared and whose directory is written; goes on with the run
        that lies in `output_dir`.

        Raises:
          UserError: as for ``plan`` and ``start``.
        """
        return cls.plan(
            problem,
            hparams_set,
            hparams,
            output_dir,
            data_dir,
            tmp_dir,
            seed,
            problem_args,
            usr_dir,
            model,
        ).start()

    @classmethod
    def plan(
        cls,
        problem: str,
        hparams_set: str,
        hparams: str = "",
        output_dir: str | Path | None = None,
        data_dir: str | Path | None = None,
        tmp_dir: str | Path | None = None,
        seed: int = 0,
        problem_args: str | dict[str, Any] = "",
        usr_dir: str | None = None,
        model: str | None = None,
    ) -> Self:
        """Returns a run that is checked but not begun: nothing is written, and neither the problem
        nor TensorFlow is imported.

        Raises:
          UserError: an unknown name, an impossible hyperparameter or seed, or an `output_dir` that
            holds a run of another problem, of other hyperparameters or with another seed.
        """
        if usr_dir:
            registry.import_user_code(usr_dir)
        registry.problems.check(problem)
        if not 0 <= seed <= LARGEST_SEED:
            raise UserError(
                f"--random_seed={seed}: expected a whole number from 0 to {LARGEST_SEED}."
            )
        run = cls(
            problem=problem,
            problem_args=absolute_files(problem, parse_problem_args(problem_args)),
            hparams_set=hparams_set,
            hparams=make_hparams(hparams_set, hparams, model),
            overrides=hparams,
            seed=seed,
            data_dir=_absolute(data_dir or default_data_dir()),
            tmp_dir=_absolute(tmp_dir or default_tmp_dir()),
            output_dir=_absolute(output_dir or Path("runs") / f"{problem}-{hparams_set}"),
            usr_dir=str(_absolute(usr_dir)) if usr_dir else None,
        )
        run = run._as_stored()
        run._refuse_another()
        return run

    def start(self) -> Self:
        """Makes the run directory, prepares the data, writes the run directory, and returns the run
        with the problem's spec.

        Raises:
          UserError: a directory that cannot be written, or data that cannot be had; no empty run
            directory is left behind.
        """
        was_there = self.output_dir.exists()
        _make_writable(self.output_dir)
        try:
            return self.prepare()._write()
        except BaseException:
            if not was_there:
                with contextlib.suppress(
                    OSError
                ):  # It is not empty: something was written, and stays.
                    self.output_dir.rmdir()
            raise

    @classmethod
    def load(
        cls,
        output_dir: str | Path,
        data_dir: str | Path | None = None,
        tmp_dir: str | Path | None = None,
        usr_dir: str | None = None,
    ) -> Self:
        """Returns the run that lies in `output_dir`.

        A data or temporary directory that is not given is the one the run was made with or, where
        that is gone, the default.

        Raises:
          UserError: there is no run, or it cannot be read.
        """
        folder = _absolute(output_dir)
        values = _read_config(folder)
        if values is None:
            raise UserError(
                f"{folder} holds no run (no {CONFIG_FILE}): give the --output_dir of a ut-trainer"
                " command."
            )
        usr_dir = usr_dir or values["usr_dir"]
        if usr_dir:
            registry.import_user_code(usr_dir)
        return cls(
            problem=values["problem"],
            problem_args=values["problem_args"],
            hparams_set=values["hparams_set"],
            hparams=_hparams_from(values, folder),
            overrides=values["overrides"],
            seed=values["seed"],
            data_dir=_given_or_stored(data_dir, values["data_dir"], default_data_dir()),
            tmp_dir=_given_or_stored(tmp_dir, values["tmp_dir"], default_tmp_dir()),
            output_dir=folder,
            usr_dir=usr_dir,
            spec=_spec_from(values, folder),
            vocab_sha256=values.get("vocab_sha256", {}),
        )

    def in_use(self, overrides: str) -> Self:
        """Returns the run with another depth, memory or positions in use, "eval_num_steps=8": for
        evaluation, decoding and export.

        Raises:
          UserError: what ``HParams.override_in_use`` raises.
        """
        return (
            dataclasses.replace(self, hparams=self.hparams.override_in_use(overrides))
            if overrides
            else self
        )

    @property
    def vocab_dir(self) -> Path:
        """The run's copy of the problem's vocabulary files."""
        return self.output_dir / VOCAB_FOLDER

    def prepare(self) -> Self:
        """Prepares the problem's data (at once where it is there) and returns the run with the
        problem's spec.

        Raises:
          UserError: the data cannot be had, or it is not the data that the run was made with.
        """
        problem = self.make_problem()
        prepare_data(problem, self.data_dir, self.tmp_dir)
        spec = problem.spec(self.data_dir)
        if self.spec is not None and spec != self.spec:
            raise UserError(
                f"the data in {self.data_dir} is not what {self.output_dir} was made with"
                f" ({_spec_changes(self.spec, spec)}): give --data_dir of the data it was trained"
                " on, or train anew in another --output_dir."
            )
        self._check_vocabulary(problem)
        return dataclasses.replace(self, spec=spec)

    def make_problem(self) -> Problem:
        """Returns the problem, made with its arguments; imports its module, and with it what that
        needs.
        """
        return make_problem(self.problem, self.problem_args, self.hparams.training)

    def text_codec(self) -> TextCodec:
        """Returns what turns the problem's text into ids and back, from the run's own vocabulary.

        Raises:
          UserError: the problem has no text form, or a vocabulary file is missing or not as it was
            written.
        """
        for name, digest in self.vocab_sha256.items():
            path = self.vocab_dir / name
            if path.is_file() and sha256_of(path) != digest:
                raise UserError(
                    f"{path} is not the vocabulary that the run was trained with: put back what"
                    " ut-trainer wrote there."
                )
        return self.make_problem().text_codec(self.vocab_dir)

    def make_model(self) -> Any:
        """Returns a newly initialised keras.Model for the problem; imports TensorFlow.

        What it draws, its initial weights and random halting in use, follows from the run's seed.

        Raises:
          UserError: the data was never prepared, so that nobody knows how large the vocabularies
            are.
        """
        if self.spec is None:
            raise UserError(
                f"the run in {self.output_dir} has no prepared data yet: run ut-trainer with"
                f" --output_dir={self.output_dir}."
            )
        import keras

        factory = registry.models.get(self.hparams.model)
        network = self.hparams.network
        if (
            network.halting == "global"
            and network.global_mean == "sequence"
            and self.spec.targets == "tokens"
        ):
            _warn_of_the_future(self.output_dir)
        before, state = keras.config.dtype_policy(), random.getstate()
        keras.config.set_dtype_policy(self.hparams.training.dtype_policy)
        random.seed(
            self.seed
        )  # Keras draws the seeds of initializers and of random layers from here.
        try:
            return factory(network, self.spec)
        finally:
            random.setstate(state)
            keras.config.set_dtype_policy(before)

    def _as_stored(self) -> Self:
        """Returns the run with its directory's values of what an earlier version, which had no such
        hyperparameter, did in its own way.

        A run that it began so goes on with the command that began it; an override says otherwise,
        and is refused.
        """
        values = _read_config(self.output_dir)
        if values is None:
            return self
        stored = vars(_hparams_from(values, self.output_dir).network)
        given = parse_assignments(self.overrides)[0]
        kept = {name: stored[name] for name in BEFORE_0_5 if name not in given}
        return dataclasses.replace(self, hparams=self.hparams.change(**kept))

    def _refuse_another(self) -> None:
        values = _read_config(self.output_dir)
        if values is None:
            return
        found = [
            f"{name}: {_shown(values[name])} -> {_shown(getattr(self, name))}"
            for name in ("problem", "problem_args", "seed")
            if values[name] != getattr(self, name)
        ]
        # Only the cosine reads decay_steps, which follows from train_steps where a set does not
        # give it.
        unread = (
            frozenset()
            if self.hparams.training.schedule == "cosine"
            else frozenset({"decay_steps"})
        )
        found += differences(
            _hparams_from(values, self.output_dir), self.hparams, RESUMABLE_FIELDS | unread
        )
        if found:
            raise UserError(
                f"{self.output_dir} holds a run of {values['problem']} with {values['hparams_set']}"
                f" that differs ({'; '.join(found)}): give another --output_dir, or the run's own"
                " values to go on with it."
            )

    def _check_vocabulary(self, problem: Problem) -> None:
        for source in problem.vocab_files(self.data_dir):
            kept = self.vocab_dir / source.name
            if kept.is_file() and kept.read_bytes() != source.read_bytes():
                raise UserError(
                    f"{source} differs from {kept}, the vocabulary that the run was made with: put"
                    " back the files it was trained on or give --data_dir of their data, or begin"
                    " a new run in another --output_dir."
                )

    def _write(self) -> Self:
        try:
            for source in self.make_problem().vocab_files(self.data_dir):
                target = self.vocab_dir / source.name
                if not target.is_file():
                    write_bytes(target, source.read_bytes())
            files = sorted(self.vocab_dir.iterdir()) if self.vocab_dir.is_dir() else []
            run = dataclasses.replace(
                self, vocab_sha256={path.name: sha256_of(path) for path in files if path.is_file()}
            )
            write_bytes(
                self.output_dir / CONFIG_FILE, json.dumps(run._to_dict(), indent=2).encode() + b"\n"
            )
        except OSError as error:
            raise UserError(
                f"--output_dir={self.output_dir} cannot be written: {error.strerror or error}; free"
                " or name another."
            ) from error
        return run

    def _to_dict(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "problem": self.problem,
            "problem_args": self.problem_args,
            "hparams_set": self.hparams_set,
            "model": self.hparams.model,
            "hparams": self.hparams.to_dict(),
            "overrides": self.overrides,
            "seed": self.seed,
            "data_dir": str(self.data_dir),
            "tmp_dir": str(self.tmp_dir),
            "usr_dir": self.usr_dir,
            "spec": None if self.spec is None else self.spec.to_dict(),
            "vocab_sha256": self.vocab_sha256,
            "versions": installed_versions(),
        }


def make_hparams(hparams_set: str, overrides: str = "", model: str | None = None) -> HParams:
    """Returns the named set with its overrides and perhaps another model, resolved.

    Raises:
      UserError: an unknown name, or every hyperparameter that cannot be.
    """
    hparams = registry.hparams_sets.get(hparams_set)()
    if not isinstance(hparams, HParams):
        raise UserError(
            f"hyperparameter set {hparams_set!r} returned {type(hparams).__name__}: its function"
            " must return HParams."
        )
    if model:
        hparams = dataclasses.replace(hparams, model=model)
    registry.models.check(hparams.model)
    return hparams.override(overrides).resolve()


def make_problem(
    name: str, arguments: dict[str, Any], training: TrainingConfig | None = None
) -> Problem:
    """Returns the named problem, made with its arguments and, where these do not say otherwise, the
    hyperparameters of its data.

    Raises:
      UserError: the name or an argument is unknown, or a value is of the wrong type.
    """
    factory = registry.problems.get(name)
    if training is not None:
        arguments = {**hyperparameter_arguments(name, factory, training), **arguments}
    problem: Problem = factory(**checked_arguments(name, factory, arguments))
    return problem


def parse_problem_args(
    text: str | dict[str, Any], name_of_flag: str = "problem_args"
) -> dict[str, Any]:
    """Returns the arguments in "name=value,name=value": numbers, true, false and null as in JSON,
    all else as text.

    1+2+3 is a list of whole numbers. A tuple in a dictionary becomes a list, as it comes back from
    config.json.

    Raises:
      UserError: a part is no assignment, or a name is set twice.
    """
    if not isinstance(text, str):
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in text.items()
        }
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UserError(
                f"{name_of_flag}: {part!r} is no assignment: expected name=value,name=value."
            )
        if name in values:
            raise UserError(f"{name_of_flag}: {name!r} is set twice: leave one of the two out.")
        values[name] = _literal(value)
    return values


def default_data_dir() -> Path:
    """Returns $UT_TF_DATA_DIR or, where it is not set, ~/.cache/ut_tf/data."""
    return Path(os.environ.get("UT_TF_DATA_DIR") or "~/.cache/ut_tf/data").expanduser()


def default_tmp_dir() -> Path:
    """Returns ~/.cache/ut_tf/downloads."""
    return Path("~/.cache/ut_tf/downloads").expanduser()


def installed_versions() -> dict[str, str]:
    """Returns the versions of python, tensorflow, keras and ut_tf, without importing them."""
    versions = {"python": platform.python_version(), "ut_tf": __version__}
    for package in ("tensorflow", "keras"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = (
                "unknown"  # TensorFlow under another package name, as some vendors build it.
            )
    return versions


@functools.cache
def _warn_of_the_future(folder: Path) -> None:
    print(
        f"warning: the decoder of {folder} halts by the mean over all target symbols"
        " (global_mean=sequence), so with given targets each symbol's probability depends on later"
        " ones: its losses and perplexities are too good. Train with global_mean=past for right"
        " ones.",
        file=sys.stderr,
        flush=True,
    )


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(Path(path).expanduser()))


def _given_or_stored(given: str | Path | None, stored: str, default: Path) -> Path:
    if given:
        return _absolute(given)
    return Path(stored) if Path(stored).is_dir() else _absolute(default)


def _make_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written: {error.strerror or error}; name another directory or"
            " change its rights."
        ) from error


def _read_config(folder: Path) -> dict[str, Any] | None:
    """Returns what config.json says, or None where there is none."""
    path = folder / CONFIG_FILE
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({error}): restore it, or train anew in another --output_dir."
        ) from error
    version = values.get("format_version") if isinstance(values, dict) else None
    if version != FORMAT_VERSION:
        raise UserError(
            f"{path} has format version {version}, this ut_tf {__version__} reads {FORMAT_VERSION}:"
            " use the ut_tf that wrote it."
        )
    absent = [name for name in _CONFIG_TYPES if name not in values]
    if absent:
        raise UserError(
            f"{path} lacks {', '.join(absent)}: restore it, or train anew in another --output_dir."
        )
    wrong = [name for name, kind in _CONFIG_TYPES.items() if not isinstance(values[name], kind)]
    if wrong:
        raise _wrong_type(path, f"{wrong[0]} is {values[wrong[0]]!r}")
    return values


def _wrong_type(path: Path, what: object) -> UserError:
    return UserError(
        f"{path} holds a value of a wrong type ({what}): restore it, or train anew in another"
        " --output_dir."
    )


def _hparams_from(values: dict[str, Any], folder: Path) -> HParams:
    try:
        return HParams.from_dict(values["hparams"])
    except UserError as error:
        raise UserError(f"{folder / CONFIG_FILE}: {error}") from error
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise _wrong_type(folder / CONFIG_FILE, error) from error


def _spec_from(values: dict[str, Any], folder: Path) -> ProblemSpec | None:
    try:
        return None if values["spec"] is None else ProblemSpec.from_dict(values["spec"])
    except TypeError as error:
        raise _wrong_type(folder / CONFIG_FILE, error) from error


def _literal(text: str) -> Any:
    if re.fullmatch(r"\d+(\+\d+)+", text):
        return [int(number) for number in text.split("+")]
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, list | dict) else value


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items()) or "none"
    return str(value)


def _spec_changes(old: ProblemSpec, new: ProblemSpec) -> str:
    before, after = old.to_dict(), new.to_dict()
    return "; ".join(
        f"{name}: {before[name]} -> {after[name]}" for name in before if before[name] != after[name]
    )
