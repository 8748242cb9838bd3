"""Registries: look-up without import, near names, user code, and names that are taken."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import keras
import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from ut_tf import registry
from ut_tf.argument_types import is_of
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.factories import make_model
from ut_tf.models.training_contract import TrainableModel
from ut_tf.problem_spec import ProblemSpec
from ut_tf.registry import Entry, Registry


def _add(first: int = 0, second: int = 0) -> tuple[int, int]:
    """Pairs two numbers."""
    return first, second


@pytest.fixture
def things(monkeypatch):
    module = types.ModuleType("stub_catalogue")
    module.ENTRIES = {
        "pair": Entry(f"{__name__}:_add", "a pair", {"first": 1}),
        "broken": Entry("no_such_module_anywhere:x", "cannot be imported"),
    }
    monkeypatch.setitem(sys.modules, "stub_catalogue", module)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    return Registry("thing", "stub_catalogue:ENTRIES")


def test_get_passes_the_entry_s_arguments_and_those_of_the_caller(things):
    assert things.get("pair")() == (1, 0)
    assert things.get("pair")(second=5) == (1, 5)


def test_a_broken_module_breaks_only_its_own_name(things):
    assert things.names() == ["broken", "pair"]
    things.check("broken")
    with pytest.raises(UserError, match="'broken' needs no_such_module_anywhere"):
        things.get("broken")
    assert things.get("pair")() == (1, 0)


@pytest.mark.parametrize("method", ["get", "check", "describe"])
@pytest.mark.parametrize("name", ["pear", "PAIR"])
def test_an_unknown_name_offers_the_near_ones_in_any_case(things, method, name):
    with pytest.raises(UserError, match=f"unknown thing '{name}'; did you mean pair"):
        getattr(things, method)(name)


def test_user_code_adds_names(things):
    things.register("mine", _add)
    assert things.names() == ["broken", "mine", "pair"]
    assert things.describe("mine") == "Pairs two numbers."
    assert things.get("mine")(first=2) == (2, 0)


@pytest.mark.parametrize("name", ["pair", "mine"])
def test_a_name_taken_twice_names_both_places(things, name):
    things.register("mine", _add)

    def other() -> None: ...

    with pytest.raises(UserError) as caught:
        things.register(name, other)
    assert "registered twice" in str(caught.value)
    assert __file__ in str(caught.value)
    assert things.get("mine") is _add


def _write_package(folder, text):
    folder.mkdir()
    (folder / "__init__.py").write_text(text)
    return str(folder)


def test_user_code_is_imported_once(tmp_path, monkeypatch):
    folder = _write_package(tmp_path / "ut_tf_user_code_once", "from .sets import narrow\n")
    (tmp_path / "ut_tf_user_code_once" / "sets.py").write_text(
        "from ut_tf.config.hparams import HParams\nfrom ut_tf.registry import"
        " register_hparams\n\n@register_hparams('narrow_of_the_user')\ndef narrow():\n    return"
        " HParams().change(hidden_size=16)\n"
    )
    monkeypatch.setattr(
        registry,
        "hparams_sets",
        Registry("hyperparameter set", "ut_tf.hparams.catalogue:HPARAMS_SETS"),
    )
    registry.import_user_code(folder)
    registry.import_user_code(folder)
    assert registry.hparams_sets.get("narrow_of_the_user")().network.hidden_size == 16


def test_mistakes_in_user_code_are_told(tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        registry.import_user_code(str(tmp_path / "nowhere"))
    broken = _write_package(tmp_path / "ut_tf_user_code_broken", "1 / 0\n")
    for _ in range(2):
        with pytest.raises(UserError, match="ZeroDivisionError"):
            registry.import_user_code(broken)
    taken = _write_package(tmp_path / "json", "")
    with pytest.raises(UserError, match="name of another Python module"):
        registry.import_user_code(taken)


def test_listing_names_imports_no_tensorflow():
    script = (
        "import sys\nfrom ut_tf import registry, run\n"
        "kinds = [one for one in vars(registry).values() if isinstance(one, registry.Registry)]\n"
        "assert len(kinds) == 14\n"
        "for kind in kinds:\n"
        "    assert kind.names(), kind.kind\n    [kind.describe(name) for name in kind.names()]\n"
        "assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


SPEC = ProblemSpec("tokens", "tokens", 7, 7, shared_vocab=True)


class Plain(keras.Model):  # type: ignore[misc]
    """Can be called, and says nothing of training."""

    def __init__(self, network: Any, spec: ProblemSpec, built: bool = True) -> None:
        super().__init__()
        self.embedding = keras.layers.Embedding(spec.target_vocab_size, network.hidden_size)
        if built:
            self({"targets": tf.zeros([1, 2], tf.int32)})

    def call(self, features: dict[str, Any]) -> Any:
        return self.embedding(features["targets"])


class Trainable(Plain, TrainableModel):
    """Plain, with the defaults of fixed depth."""


class Unbuilt(Trainable):
    """Has no weights yet."""

    def __init__(self, network: Any, spec: ProblemSpec) -> None:
        super().__init__(network, spec, built=False)


def _made(factory: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(registry.models, "_registered", {})
    registry.register_model("own")(factory)
    return make_model(HParams("own"), SPEC, seed=0)


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (Plain, r"the model 'own' makes a .*Plain, .* expects .* TrainableModel .*: derive"),
        (lambda *_: None, r"the model 'own' makes a builtins.NoneType, .*: derive"),
        (Unbuilt, r"'own' makes a .*Unbuilt without weights, .*: call it there once"),
    ],
    ids=["plain", "nothing", "unbuilt"],
)
def test_a_model_that_cannot_be_trained_is_refused_when_it_is_made(
    factory: Any, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=expected):
        _made(factory, monkeypatch)


def test_a_keras_model_with_the_training_interface_has_a_fixed_depth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = _made(Trainable, monkeypatch)
    assert isinstance(model, Trainable)
    assert (model.ponder_weight, model.expects_scores, model.sees_later_targets) == (
        None,
        False,
        False,
    )


def test_every_mistake_of_a_spec_is_listed() -> None:
    with pytest.raises(UserError) as caught:
        ProblemSpec("text", "clas", -1, 2.5)  # type: ignore[arg-type]
    for expected in (
        "inputs='text': expected one of tokens, facts, none",
        "targets='clas': expected one of tokens, aligned, class, word; did you mean class?",
        "input_vocab_size=-1: expected a whole number from 2",
        "target_vocab_size=2.5: expected a whole number from 2",
    ):
        assert expected in str(caught.value)


def test_a_spec_is_read_as_it_was_written() -> None:
    spec = ProblemSpec("facts", "class", 12, 5, max_words=3)
    assert ProblemSpec.from_dict(spec.to_dict()) == spec


def test_the_former_configuration_names_the_new_ones() -> None:
    with pytest.raises(AttributeError, match="NetworkConfig is now UniversalTransformerConfig"):
        _ = ut_tf.NetworkConfig


CALLS: dict[str, Any] = {
    "`run`=runs/babi: expected a Run, not str; Run.load reads one.": [
        lambda: ut_tf.train("runs/babi"),  # type: ignore[arg-type]
        lambda: ut_tf.inspect_run("runs/babi"),  # type: ignore[arg-type]
        lambda: ut_tf.load_model("runs/babi"),  # type: ignore[arg-type]
        lambda: ut_tf.save("runs/babi", "models/babi"),  # type: ignore[arg-type]
        lambda: ut_tf.evaluate("runs/babi"),  # type: ignore[arg-type]
    ],
    "`place`=3: expected a text or a Path, not int.": [lambda: ut_tf.load(3)],
    "`place`=None: expected a text or a Path, not NoneType.": [lambda: ut_tf.load(None)],
    "`output_dir`=b'runs': expected a text or a Path, not bytes.": [
        lambda: ut_tf.Run.load(b"runs")
    ],
    "`seed`=1: expected a whole number, not str.": [
        lambda: ut_tf.Run.create("babi_sim", "ut_demo", seed="1")
    ],
    "`hparams`=['dropout=0']: expected a text or a Mapping, not list.": [
        lambda: ut_tf.Run.create("babi_sim", "ut_demo", ["dropout=0"])
    ],
    "`problem`=None: expected a text, not NoneType.": [lambda: ut_tf.Run.create(None, "ut_demo")],
}


@pytest.mark.parametrize(
    ("sentence", "call"), [(told, call) for told, calls in CALLS.items() for call in calls]
)
def test_the_sentence_says_what_was_expected(sentence: str, call: Any) -> None:
    with pytest.raises(UserError) as raised:
        call()
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("value", "hint", "fits"),
    [
        (np.int64(3), int, True),
        (3, float, True),
        (3.0, int, False),
        ("a", str | Sequence[str], True),
        (["a", 1], str | Sequence[str], False),
        ({"a": 1}, str | Mapping[str, Any], True),
        (["a"], dict[str, Any], False),
        ("ab", Collection[str], False),
        ([1, 2], Iterable[int], True),
        ([1, "2"], Iterable[int], False),
        (400, Iterable[int], False),
        ("float32", Literal["float32", "float16"], True),
        ("float64", Literal["float32", "float16"], True),  # Its sentence is the function's own.
        (object(), Any, True),
    ],
)
def test_what_fits_a_hint(value: Any, hint: Any, fits: bool) -> None:
    assert is_of(value, hint) is fits
