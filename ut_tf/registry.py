"""Names of problems, hyperparameter sets, models and parts, and the objects behind them.

::

    factory = registry.problems.get("babi_qa")        # imports ut_tf.problems.babi.problem now
    names = registry.hparams_sets.names()             # imports no problem and no TensorFlow

    @registry.register_problem("my_problem")          # in user code
    class MyProblem(Problem): ...

A catalogue, ``name -> Entry(...)``, is read when its registry is first asked. A module is imported
when its name is looked up: a broken one breaks only its own names.
"""

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ut_tf.errors import UserError, did_you_mean
from ut_tf.loading import load_module, place
from ut_tf.paths import expanded

T = TypeVar("T")
_before_user_code: ContextVar[Callable[[], None]] = ContextVar("before_user_code")


@dataclass(frozen=True)
class Entry:
    """Where a name's object is found, and what is known of it without importing it.

    Args:
      target: ``"module:attribute"``.
      description: one line that says what it is.
      arguments: to call it with.
      group: the group that it is listed in (``Registry.groups``); empty: it stands alone.
      file_arguments: of a problem, ``Problem.file_arguments`` of its class.
      argument_names: of a problem, what it can be called with; None: that is not known.
      config: of a model, ``"module:attribute"`` of the class of its configuration.
      attributes: class attributes of the target that are asked for without importing it.
      row: what the row of a table calls it; empty: its name.
    """

    target: str
    description: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    file_arguments: Mapping[str, str] = field(default_factory=dict)
    argument_names: tuple[str, ...] | None = None
    config: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    row: str = ""


@dataclass(frozen=True)
class Group:
    """Names of one kind that are listed together, as one row of a table or under one heading.

    Args:
      name: of the group ("babi"); empty for the names that belong to none.
      description: one line about all of them; empty where the name is.
      names: in the order of the catalogue.
    """

    name: str
    description: str
    names: tuple[str, ...]


class Registry:
    """A table of names of one kind.

    Args:
      kind: what the names are, for messages: "problem", "hyperparameter set", "model".
      catalogue: "module:attribute" of the dictionary of built-in entries; read at the first
        look-up.
      groups: "module:attribute" of the dictionary from the groups' names to their descriptions;
        empty: there are none.
      check: "module:attribute" of a function of a name and what user code registers by it, which
        raises UserError where that cannot be; empty: everything can.
    """

    def __init__(self, kind: str, catalogue: str, groups: str = "", check: str = "") -> None:
        self.kind = kind
        self._catalogue = catalogue
        self._groups = groups
        self._check = check
        self._registered: dict[str, tuple[Any, str]] = {}

    @property
    def kinds(self) -> str:
        """The plural of ``kind``."""
        return f"{self.kind[:-1]}ies" if self.kind.endswith("y") else f"{self.kind}s"

    def names(self) -> list[str]:
        """Every name, sorted."""
        return sorted({*self._entries(), *self._registered})

    def describe(self, name: str) -> str:
        """The one line that says what `name` is (empty for user code without a docstring)."""
        if name in self._registered:
            documentation = self._registered[name][0].__doc__ or ""
            return documentation.strip().partition("\n")[0]
        return self._entry(name).description

    def group(self, name: str) -> str:
        """The group that `name` is listed in: its entry's, or the folder of its module."""
        if name in self._registered:
            return "own"
        entry = self._entry(name)
        folders = entry.target.partition(":")[0].split(".")[2:]
        return entry.group or (folders[0] if folders else self.kind)

    def is_own(self, name: str) -> bool:
        """Whether user code registered `name`."""
        return name in self._registered

    def groups(self) -> list[Group]:
        """Every name once, in groups: those of the catalogue in its order and, last, one without a
        name for built-in names without a group and for all names of user code.

        For listings such as --registry_help and the tables of the documentation; imports nothing
        behind the names.
        """
        descriptions: Mapping[str, str] = (
            _load(self._groups, f"the groups of {self.kinds}") if self._groups else {}
        )
        names: dict[str, list[str]] = {group: [] for group in descriptions}
        alone = sorted(self._registered)
        for name, entry in self._entries().items():
            names.get(entry.group, alone).append(name)
        grouped = [Group(name, descriptions[name], tuple(names[name])) for name in descriptions]
        return [*grouped, Group("", "", tuple(alone))] if alone else grouped

    def file_arguments(self, name: str) -> Mapping[str, str]:
        """``Problem.file_arguments`` of the problem `name`; imports nothing behind the name."""
        if name in self._registered:
            declared: Mapping[str, str] = getattr(self._registered[name][0], "file_arguments", {})
            return declared
        return self._entry(name).file_arguments

    def argument_names(self, name: str) -> tuple[str, ...] | None:
        """What the problem `name` can be called with; None where it is a user's, which says so when
        it is called. Imports nothing behind the name.
        """
        return None if name in self._registered else self._entry(name).argument_names

    def attribute(self, name: str, attribute: str, default: Any) -> Any:
        """A class attribute of what is behind `name`; imports nothing behind the name.

        Args:
          name: registered, or unknown.
          attribute: of the class; of a built-in name, as its entry gives it.
          default: where the name is unknown or the attribute is not given.
        """
        if name in self._registered:
            return getattr(self._registered[name][0], attribute, default)
        entry = self._entries().get(name)
        return default if entry is None else entry.attributes.get(attribute, default)

    def options(self, name: Any) -> Mapping[str, Any]:
        """The options that the part `name` declares (``ut_tf.config.part_options``)."""
        found: Mapping[str, Any] = self.attribute(str(name), "options", {})
        return found

    def row(self, name: str) -> str:
        """The name of `name` in the row of a table; empty where it has no other."""
        entry = None if name in self._registered else self._entries().get(name)
        return "" if entry is None else entry.row

    def check(self, name: str) -> None:
        """Raises UserError, with the near names, where `name` is unknown; imports nothing behind
        the name.
        """
        if name not in self._registered:
            self._entry(name)

    def get(self, name: str) -> Callable[..., Any]:
        """The factory behind `name`: a callable that needs no arguments, but takes those that its
        target takes.

        Raises:
          UserError: the name is unknown (the near names are in the message) or its module cannot be
            imported.
        """
        if name in self._registered:
            registered: Callable[..., Any] = self._registered[name][0]
            return registered
        entry = self._entry(name)
        factory = _load(entry.target, f"{self.kind} {name!r}")
        return functools.partial(factory, **entry.arguments)

    def config_class(self, name: str, default: str) -> Any:
        """The class of the configuration of `name`, whose own module is not imported.

        Args:
          name: built in, with the class in its entry, or registered, with an attribute
            ``config_class``.
          default: "module:attribute" of the class where none is given.

        Raises:
          UserError: the name is unknown; the near names are in the message.
        """
        if name in self._registered:
            own = getattr(self._registered[name][0], "config_class", None)
            return own or _load(default, f"{self.kind} {name!r}")
        return _load(self._entry(name).config or default, f"{self.kind} {name!r}")

    def register(self, name: str, value: T) -> T:
        """Adds `name` for `value` and returns the value.

        Raises:
          UserError: the name is taken, or the value cannot be registered.
        """
        source = place(value)
        taken = self._registered[name][1] if name in self._registered else None
        if taken is None and name in self._entries():
            taken = self._entries()[name].target
        if taken is not None:
            raise UserError(
                f"{self.kind} {name!r} is registered twice, in {taken} and in {source}: give one of"
                " them another name."
            )
        if self._check:
            _load(self._check, f"{self.kind} {name!r}")(name, value)
        self._registered[name] = (value, source)
        return value

    def _entries(self) -> Mapping[str, Entry]:
        entries: Mapping[str, Entry] = _load(self._catalogue, f"the list of {self.kinds}")
        return entries

    def _entry(self, name: str) -> Entry:
        entries = self._entries()
        if name not in entries:
            raise UserError(
                f"unknown {self.kind} {name!r}{did_you_mean(name, self.names()) or '.'}"
                f" ut-trainer's `registry_help` lists all {self.kinds}."
            )
        return entries[name]


def _load(target: str, what: str) -> Any:
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(load_module(module_name), attribute)
    except ImportError as error:
        raise UserError(
            f"{what} needs {module_name}, which cannot be imported: {error}."
        ) from error


_RECURRENCE = "ut_tf.models.universal_transformer.catalogue"
_CHECK_PART = "ut_tf.config.registration:check_part"

problems = Registry(
    "problem",
    "ut_tf.problems.catalogue:PROBLEMS",
    groups="ut_tf.problems.catalogue:GROUPS",
    check="ut_tf.config.registration:check_problem",
)
hparams_sets = Registry("hyperparameter set", "ut_tf.hparams.catalogue:HPARAMS_SETS")
models = Registry(
    "model", "ut_tf.models.catalogue:MODELS", check="ut_tf.config.registration:check_model"
)
cells = Registry("recurrence", f"{_RECURRENCE}:CELLS", check=_CHECK_PART)
halting_forms = Registry("halting form", f"{_RECURRENCE}:HALTING_FORMS", check=_CHECK_PART)
exit_rules = Registry("exit rule", f"{_RECURRENCE}:EXIT_RULES", check=_CHECK_PART)
train_depths = Registry("training depth", f"{_RECURRENCE}:TRAIN_DEPTHS", check=_CHECK_PART)
input_injections = Registry("input injection", f"{_RECURRENCE}:INPUT_INJECTIONS", check=_CHECK_PART)
initial_states = Registry("initial state", f"{_RECURRENCE}:INITIAL_STATES", check=_CHECK_PART)
supervisions = Registry("supervision", "ut_tf.training.catalogue:SUPERVISIONS")
transitions = Registry("transition", "ut_tf.layers.catalogue:TRANSITIONS", check=_CHECK_PART)
positions = Registry("position encoding", "ut_tf.layers.catalogue:POSITIONS", check=_CHECK_PART)
strategies = Registry("search strategy", "ut_tf.search.catalogue:STRATEGIES", check=_CHECK_PART)
evaluation_methods = Registry("evaluation method", "ut_tf.evaluation.catalogue:METHODS")


def sets_to_begin_with(problem: str) -> tuple[str, ...]:
    """Names of the recipes that were made for a problem; none for one of a user's."""
    if problem not in problems.names() or problems.is_own(problem):
        return ()
    found: tuple[str, ...] = _load("ut_tf.hparams.first_sets:first_sets", "the first sets")(problem)
    return found


def register_problem(name: str) -> Callable[[T], T]:
    """Decorator: registers what makes a Problem when called without arguments."""
    return lambda value: problems.register(name, value)


def register_hparams(name: str) -> Callable[[T], T]:
    """Decorator: registers a function that returns HParams when called without arguments."""
    return lambda value: hparams_sets.register(name, value)


def register_model(name: str) -> Callable[[T], T]:
    """Decorator: registers a keras.Model class, called with a configuration and a ProblemSpec.

    Its attribute ``config_class`` is the class of the configuration, a frozen dataclass; without it
    that is a ``UniversalTransformerConfig``.
    """
    return lambda value: models.register(name, value)


def register_cell(name: str) -> Callable[[T], T]:
    """Decorator: registers a cell of the recurrence, chosen by ``recurrence=name``."""
    return lambda value: cells.register(name, value)


def register_halting(name: str) -> Callable[[T], T]:
    """Decorator: registers a form of dynamic halting, chosen by ``halting=name``."""
    return lambda value: halting_forms.register(name, value)


def register_exit_rule(name: str) -> Callable[[T], T]:
    """Decorator: registers a rule by which positions exit at inference: ``eval_exit=name``."""
    return lambda value: exit_rules.register(name, value)


def register_train_depth(name: str) -> Callable[[T], T]:
    """Decorator: registers what draws the depth of an update, chosen by ``train_depth=name``."""
    return lambda value: train_depths.register(name, value)


def register_input_injection(name: str) -> Callable[[T], T]:
    """Decorator: registers an ``InputInjection``, chosen by ``input_injection=name``."""
    return lambda value: input_injections.register(name, value)


def register_initial_state(name: str) -> Callable[[T], T]:
    """Decorator: registers an ``InitialState``, chosen by ``initial_state=name``."""
    return lambda value: initial_states.register(name, value)


def register_supervision(name: str) -> Callable[[T], T]:
    """Decorator: registers a function of (model, hparams, shares) that returns a ``Supervision``,
    chosen by ``supervision=name``.
    """
    return lambda value: supervisions.register(name, value)


def register_transition(name: str) -> Callable[[T], T]:
    """Decorator: registers a transition function, chosen by ``transition=name``."""
    return lambda value: transitions.register(name, value)


def register_position(name: str) -> Callable[[T], T]:
    """Decorator: registers a form of positions, chosen by ``position=name``."""
    return lambda value: positions.register(name, value)


def register_strategy(name: str) -> Callable[[T], T]:
    """Decorator: registers a search strategy, chosen by ``strategy=name`` when decoding."""
    return lambda value: strategies.register(name, value)


def register_evaluation_method(name: str) -> Callable[[T], T]:
    """Decorator: registers an evaluation method, named by a problem's evaluation sets."""
    return lambda value: evaluation_methods.register(name, value)


@contextmanager
def before_user_code(action: Callable[[], None]) -> Iterator[None]:
    """Calls `action` before each import of user code in the body of the ``with`` statement."""
    token = _before_user_code.set(action)
    try:
        yield
    finally:
        _before_user_code.reset(token)


def has_imported(usr_dir: str | Path) -> bool:
    """Whether the package in the folder `usr_dir` has been imported by this process."""
    folder = Path(os.path.realpath(os.path.expanduser(usr_dir)))
    loaded = sys.modules.get(folder.name)
    return loaded is not None and getattr(loaded, "__file__", None) == str(folder / "__init__.py")


def import_user_code(usr_dir: str | Path) -> None:
    """Imports the package in the folder `usr_dir`, whose modules register the user's own names; the
    second time does nothing.

    Raises:
      UserError: the folder or its ``__init__.py`` does not exist, its name is taken by another
        module, or importing it fails.
    """
    # Path.resolve raises RuntimeError where links lead to each other.
    folder = Path(os.path.realpath(expanded(usr_dir)))
    source = folder / "__init__.py"
    if not source.is_file():
        raise UserError(
            f"`usr_dir`={usr_dir}: there is no file {source}; make one that imports the modules"
            " with your registrations."
        )
    if has_imported(usr_dir):
        return
    if folder.name in sys.modules:
        raise UserError(
            f"`usr_dir`={usr_dir}: {folder.name!r} is the name of another Python module: rename the"
            " folder."
        )
    spec = importlib.util.spec_from_file_location(
        folder.name, source, submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise UserError(
            f"`usr_dir`={usr_dir}: Python cannot import {source}; the folder's name must be a"
            " Python identifier."
        )
    # By default nothing: a program that uses the library sees what TensorFlow says.
    _before_user_code.get(lambda: None)()
    module = importlib.util.module_from_spec(spec)
    sys.modules[folder.name] = module
    try:
        spec.loader.exec_module(module)
    except UserError:
        del sys.modules[folder.name]
        raise
    except (Exception, SystemExit) as error:
        # A module that ends the program would end the command without a word.
        del sys.modules[folder.name]
        raise UserError(
            f"`usr_dir`={usr_dir}: importing it failed with {type(error).__name__}: {error}."
        ) from error
