"""A run: one problem, one resolved set of hyperparameters, and the directories it uses.

::

    run = Run.create("babi_qa", "ut_base", hparams="dropout=0.2")  # prepares data, writes files
    run = Run.load("runs/babi_qa-ut_base")  # all that a later command needs
    model, problem = run.make_model(), run.make_problem()

``create`` first checks all that can be checked without TensorFlow (``plan``), then prepares the
data and writes the run directory (``start``). A directory that holds a run goes on only with the
same problem, hyperparameters and seed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from ut_tf import registry
from ut_tf.argument_types import checked_types
from ut_tf.config.hparams import going_on
from ut_tf.config.overrides import parse_assignments
from ut_tf.config.processor import multiplies_bfloat16, policy_in_use
from ut_tf.data.arguments import (
    absolute_files,
    as_assignments,
    check_argument_names,
    name_problem_args,
)
from ut_tf.data.prepared import prepare_data
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError, check_arguments, file_errors
from ut_tf.factories import hparams_of, make_model, make_problem, parse_problem_args
from ut_tf.notices import note, warn
from ut_tf.paths import absolute
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run_config import (
    RunConfig,
    RunOptions,
    changes_of,
    check_code_is_here,
    check_portable,
    from_values,
    naming_code,
    read_values,
    warn_of_changes,
    with_stored_names,
    write_config,
)
from ut_tf.start_lines import without_start_lines
from ut_tf.storage import model_folder
from ut_tf.storage.checkpoints import stored_numbers
from ut_tf.storage.files import read_vocabulary, remove_leftovers, sha256_of, write_bytes
from ut_tf.storage.folders import (
    default_data_dir,
    default_tmp_dir,
    make_writable,
    no_empty_folders_left,
)
from ut_tf.storage.layout import CONFIG_FILE, START_LOCK_FILE, VOCAB_FOLDER, checkpoint_steps
from ut_tf.storage.locks import while_starting

if TYPE_CHECKING:
    from ut_tf.data.text.codec import TextCodec

LARGEST_SEED = 2**32 - 1
_TOLD_CHANGES = 5


@dataclass(frozen=True, kw_only=True, repr=False)
class Run(RunConfig):
    """One training: problem, hyperparameters and directories.

    Args:
      output_dir: the run directory; all others are those of ``RunConfig``.
      stored_folders: which of data_dir and tmp_dir are those that a config.json names, not given
        ones; others may have written that file. Not stored.
      notes: what whoever plans the run should know, such as a hyperparameter without effect;
        ``start`` warns of each. Not stored.
    """

    output_dir: Path
    stored_folders: tuple[str, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    @checked_types
    def create(
        cls,
        problem: str,
        hparams_set: str,
        hparams: str | Mapping[str, Any] = "",
        **options: Unpack[RunOptions],
    ) -> Self:
        """Makes a run, prepares its data and writes its directory.

        Where `output_dir` holds the run already, it goes on.

        Args:
          problem: registered name of the problem.
          hparams_set: registered name of the hyperparameter set.
          hparams: overrides of the set, "name=value,name=value" or a dictionary.
          **options: see ``RunOptions``.

        Raises:
          UserError: as for ``plan`` and ``start``.
        """
        return cls.plan(problem, hparams_set, hparams, **options).start()

    @classmethod
    @checked_types
    def plan(
        cls,
        problem: str,
        hparams_set: str,
        hparams: str | Mapping[str, Any] = "",
        **options: Unpack[RunOptions],
    ) -> Self:
        """Checks a run without beginning it; arguments as for ``create``.

        Nothing is written, and neither the problem nor TensorFlow is imported.

        Raises:
          UserError: an unknown name, an impossible hyperparameter or seed, or an `output_dir` that
            holds a run of another problem, of other hyperparameters or with another seed.
        """
        check_arguments("a run", options, RunOptions.__annotations__)
        hparams = as_assignments(hparams)
        usr_dir, seed = options.get("usr_dir"), options.get("seed", 0)
        if usr_dir:
            registry.import_user_code(usr_dir)
        registry.problems.check(problem)
        if not 0 <= seed <= LARGEST_SEED:
            raise UserError(f"`seed`={seed}: expected a whole number from 0 to {LARGEST_SEED}.")
        arguments = parse_problem_args(options.get("problem_args", ""))
        check_argument_names(problem, arguments)
        model = options.get("model")
        made, dropped = hparams_of(hparams_set, hparams, model)
        notes = made.notes_on(hparams)
        if dropped:
            lost = f"{hparams_set} sets {', '.join(dropped)}"
            notes = [f"{lost}, which the model {model} does not have", *notes]
        run = cls(
            problem=problem,
            problem_args=absolute_files(problem, arguments),
            hparams_set=hparams_set,
            hparams=made,
            notes=tuple(f"{sentence}." for sentence in notes),
            overrides=hparams,
            seed=seed,
            data_dir=absolute(options.get("data_dir") or default_data_dir()),
            tmp_dir=absolute(options.get("tmp_dir") or default_tmp_dir()),
            output_dir=absolute(
                options.get("output_dir") or Path("runs") / f"{problem}-{hparams_set}"
            ),
            usr_dir=str(absolute(usr_dir)) if usr_dir else None,
        )
        values = read_values(run.output_dir)
        if values is None and checkpoint_steps(run.output_dir):
            raise UserError(
                f"{run.output_dir} holds checkpoints of a run, but no {CONFIG_FILE} that says of"
                " which: put it back, or give another `output_dir`."
            )
        return run if values is None else run._going_on(from_values(values, run.output_dir))

    def start(self, on_accelerator: bool | None = None) -> Self:
        """Prepares the data, writes the run directory, warns of notes; returns the run with spec.

        Args:
          on_accelerator: whether a GPU or TPU computes; None: whether TensorFlow finds one.

        Raises:
          UserError: a directory that cannot be written, or data that cannot be had; no empty run
            directory is left behind.
        """
        run = self._suiting(on_accelerator)
        for sentence in run.notes:
            warn(sentence)
        problem = run.make_problem()
        with no_empty_folders_left(self.output_dir, START_LOCK_FILE):
            make_writable(self.output_dir)
            run = run.prepare(problem)
            with while_starting(self.output_dir) as is_free:
                # Another process may have begun a run there since this one was planned.
                values = read_values(self.output_dir)
                if values is not None:
                    self._going_on(from_values(values, self.output_dir))
                if is_free:
                    remove_leftovers(self.output_dir, CONFIG_FILE)
                    remove_leftovers(self.vocab_dir)
                # Where one trains, what lies there stays as it is: training will be refused, or
                # this process is one of several workers.
                return run._write() if is_free or values is None else run

    @classmethod
    @checked_types
    def load(
        cls,
        output_dir: str | Path,
        data_dir: str | Path | None = None,
        tmp_dir: str | Path | None = None,
        usr_dir: str | Path | None = None,
    ) -> Self:
        """Reads the run in `output_dir`, which may also be the folder of a saved model.

        A data or temporary directory that is not given is the one the run was made with or, where
        that is gone, the default.

        Code of the user's own is imported only from a `usr_dir` that is given here: others may have
        written the run directory.

        Raises:
          UserError: there is no run, it cannot be read, or it was made with code and no `usr_dir`
            is given.
        """
        folder = absolute(output_dir)
        if model_folder.holds_model(folder):
            model_folder.check_model_folder(folder)
        values = read_values(folder)
        if values is None:
            raise UserError(
                f"{folder} holds no run (no {CONFIG_FILE}): give an `output_dir` that ut-trainer"
                " wrote."
            )
        warn_of_changes(values, folder)
        if usr_dir:
            # The caller's own, which may register the run's problem.
            registry.import_user_code(usr_dir)
        with naming_code(values, usr_dir):
            if model_folder.holds_model(folder):
                check_portable(values, folder)
                # Its own say nothing about this machine.
                values = {**values, "data_dir": "", "tmp_dir": ""}
            elif not usr_dir:
                check_code_is_here(values, folder)
            config = from_values(values, folder)
        folders = {
            "data_dir": _given_or_stored(data_dir, values["data_dir"], default_data_dir),
            "tmp_dir": _given_or_stored(tmp_dir, values["tmp_dir"], default_tmp_dir),
            "output_dir": folder,
        }
        given = {"data_dir": data_dir, "tmp_dir": tmp_dir}
        own = {
            "usr_dir": str(usr_dir) if usr_dir else config.usr_dir,
            "stored_folders": tuple(name for name, folder in given.items() if not folder),
        }
        return cls(**{**vars(config), **folders, **own})

    @checked_types
    def in_use(self, overrides: str | Mapping[str, Any]) -> Self:
        """The run with another depth, memory or positions, "eval_num_steps=8" or a mapping.

        It can be evaluated, decoded with and exported.

        Raises:
          UserError: what ``HParams.override_in_use`` raises.
        """
        if not (overrides := as_assignments(overrides)):
            return self
        return dataclasses.replace(self, hparams=self.hparams.override_in_use(overrides))

    @property
    def is_saved_model(self) -> bool:
        """Whether it is a saved model (``ut_tf.save``), which can be used but not trained."""
        return model_folder.holds_model(self.output_dir)

    @property
    def vocab_dir(self) -> Path:
        """The run's copy of the problem's vocabulary files."""
        return self.output_dir / VOCAB_FOLDER

    def prepare(self, problem: Problem | None = None) -> Self:
        """Prepares the problem's data, where it is not there, and returns the run with its spec.

        Args:
          problem: the run's, where it has been made already.

        Raises:
          UserError: the data cannot be had, or it is not the data that the run was made with.
        """
        problem = self.make_problem() if problem is None else problem
        return self.with_folders_for(problem)._prepared(problem)

    def with_folders_for(self, problem: Problem) -> Self:
        """The run with folders in which a problem's data is, or may be prepared: a run directory
        does not say where files are written, nor which archives are read.

        Args:
          problem: the run's, or another.
        """
        if not self.stored_folders or problem.is_prepared(self.data_dir):
            return self
        return self._in_default_folders(problem)

    def _prepared(self, problem: Problem) -> Self:
        with name_problem_args(self.problem_args):
            prepare_data(problem, self.data_dir, self.tmp_dir)
        spec = problem.spec(self.data_dir)
        if self.spec is not None and spec != self.spec:
            raise UserError(
                f"the data in {self.data_dir} is not what {self.output_dir} was made with"
                f" ({_spec_changes(self.spec, spec)}): give the `data_dir` it was trained on, or"
                " train again in another `output_dir`."
            )
        self._check_vocabulary(problem)
        return dataclasses.replace(self, spec=spec)

    def _in_default_folders(self, problem: Problem) -> Self:
        """The run with the default directories in the place of those that config.json names."""
        defaults = {"data_dir": default_data_dir, "tmp_dir": default_tmp_dir}
        folders: dict[str, Any] = {name: absolute(defaults[name]()) for name in self.stored_folders}
        if self.data_dir != folders.get("data_dir", self.data_dir):
            note(
                f"{self.data_dir}, which {self.output_dir / CONFIG_FILE} names, lacks the data of"
                f" {problem.name or self.problem}: it is looked for, and otherwise prepared, in"
                f" {folders['data_dir']}; `data_dir` names another folder."
            )
        return dataclasses.replace(self, **folders, stored_folders=())

    def make_problem(self) -> Problem:
        """Makes the problem with its arguments; imports its module."""
        training, version = self.hparams.training, self.data_version
        return make_problem(self.problem, self.problem_args, training, version)

    def text_codec(self) -> TextCodec:
        """Makes the codec between the problem's texts and ids, from the run's own vocabulary.

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

    def make_model(self, most_parameters: int | None = None) -> Any:
        """Makes a newly initialised keras.Model for the problem; imports TensorFlow.

        What it draws, its initial weights and random halting at inference, follows from the run's
        seed.

        Args:
          most_parameters: numbers that its weights may have; None: as many as the run's checkpoints
            or saved weights can hold, and any where there are none yet.

        Raises:
          UserError: the data was never prepared, so that the sizes of the vocabularies are unknown,
            or the model is larger than what is stored.
        """
        if self.spec is None:
            raise UserError(
                f"the run in {self.output_dir} has no prepared data yet: train it with ut-trainer."
            )
        if most_parameters is None:
            # Others may have written them.
            count = model_folder.count_parameters if self.is_saved_model else stored_numbers
            most_parameters = count(self.output_dir)
        model = make_model(self.hparams, self.spec, self.seed, most_parameters)
        if getattr(self.hparams.network, "eval_select", None) == "verifier":
            model.verifier = self.make_problem().solves
        if model.sees_later_targets:
            _warn_sees_later_targets(self.output_dir)
        return model

    def _going_on(self, stored: RunConfig) -> Self:
        """The run, going on with the stored one.

        What an earlier version did not know, or had another default for, keeps the values by which
        it worked, unless it is overridden: hyperparameters and arguments of the problem.

        Raises:
          UserError: the stored run is another, or a saved model.
        """
        model_folder.refuse_training(self.output_dir)
        given = parse_assignments(self.overrides)[0]
        given_then = parse_assignments(stored.overrides)[0]
        hparams = going_on(self.hparams, stored.hparams, given, given_then)
        run = with_stored_names(stored, self)
        run = dataclasses.replace(run, hparams=hparams, data_version=stored.data_version)
        run, former = run._in_policy_of(stored, "dtype_policy" in given)
        if changes := changes_of(former, run):
            more = f" and {len(changes) - _TOLD_CHANGES} more" if changes[_TOLD_CHANGES:] else ""
            raise UserError(
                f"{self.output_dir} holds a run of {stored.problem} with {stored.hparams_set} that"
                f" differs ({'; '.join(changes[:_TOLD_CHANGES])}{more}): give another"
                " `output_dir`, or the run's own values to go on with it (ut-trainer's"
                f" `config`={self.output_dir / CONFIG_FILE})."
            )
        return run

    def _in_policy_of(self, stored: RunConfig, given: bool) -> tuple[Self, RunConfig]:
        """The run and the stored one with the same dtype policy, where the stored one used another
        than its set asks for.

        Args:
          stored: the run that it goes on with.
          given: whether the policy is overridden, which then counts.
        """
        policy, used = self.hparams.training.dtype_policy, stored.hparams.training.dtype_policy
        asked = stored.asked.get("dtype_policy")
        if asked is None or policy not in (asked, used):
            return self, stored
        if given:
            hparams = stored.hparams.change(dtype_policy=policy)
            return self, dataclasses.replace(stored, hparams=hparams)
        hparams = self.hparams.change(dtype_policy=used)
        return dataclasses.replace(self, hparams=hparams, asked=stored.asked), stored

    def _suiting(self, on_accelerator: bool | None) -> Self:
        """The run in float32 where its set asks for products in bfloat16 and whatever computes here
        would emulate them, and a note of it; an override of dtype_policy stays.
        """
        asked = self.hparams.training.dtype_policy
        used = policy_in_use(asked, multiplies_bfloat16())
        if used == asked or "dtype_policy" in parse_assignments(self.overrides)[0]:
            return self
        if _finds_accelerator() if on_accelerator is None else on_accelerator:
            return self
        note(
            f"training in {used}: this processor has no bfloat16 products, and {asked} would be"
            f" slow; `hparams`=dtype_policy={asked} uses it anyway."
        )
        return dataclasses.replace(
            self, hparams=self.hparams.change(dtype_policy=used), asked={"dtype_policy": asked}
        )

    def _check_vocabulary(self, problem: Problem) -> None:
        for source in problem.vocab_files(self.data_dir):
            kept = self.vocab_dir / source.name
            if kept.is_file() and read_vocabulary(kept) != read_vocabulary(source):
                raise UserError(
                    f"{source} differs from {kept}, the vocabulary that the run was made with: put"
                    " back the files it was trained on or give the `data_dir` of their data, or"
                    " begin a new run in another `output_dir`."
                )

    def write_where_missing(self) -> Self:
        """Writes the directory of the run again where no config.json is in it."""
        return self if (self.output_dir / CONFIG_FILE).exists() else self._write()

    def _write(self) -> Self:
        place = f"`output_dir`={self.output_dir}"
        with file_errors(place, "make room there or name another", "written"):
            for source in self.make_problem().vocab_files(self.data_dir):
                target = self.vocab_dir / source.name
                if not target.is_file():
                    write_bytes(target, read_vocabulary(source))
            files = sorted(self.vocab_dir.iterdir()) if self.vocab_dir.is_dir() else []
            digests = {path.name: sha256_of(path) for path in files if path.is_file()}
            run = dataclasses.replace(self, vocab_sha256=digests)
            write_config(run, self.output_dir)
        return run


def _finds_accelerator() -> bool:
    with without_start_lines():
        import tensorflow as tf

    return any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU"))


@functools.cache
def _warn_sees_later_targets(folder: Path) -> None:
    warn(
        f"the decoder of {folder} halts by the mean over all target symbols"
        " (global_mean=sequence), so with given targets each symbol's probability depends on later"
        " ones: its losses and perplexities are too good. Train with global_mean=past for right"
        " ones."
    )


def _given_or_stored(given: str | Path | None, stored: str, default: Callable[[], Path]) -> Path:
    if given:
        return absolute(given)
    if stored and Path(stored).is_dir():
        return Path(stored)
    try:
        return absolute(default())
    except UserError:
        # Without a home folder the stored one is named where data is needed.
        if stored:
            return Path(stored)
        raise


def _spec_changes(old: ProblemSpec, new: ProblemSpec) -> str:
    before, after = old.to_dict(), new.to_dict()
    return "; ".join(
        f"{name}: {before[name]} -> {after[name]}" for name in before if before[name] != after[name]
    )
