"""Registries: look-up without import, near names, user code, and names that are taken."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.registry import Entry, Group, Registry


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


def test_groups_hold_every_name_once(things):
    module = sys.modules["stub_catalogue"]
    module.ENTRIES["triple"] = Entry(f"{__name__}:_add", "three", group="numbers")
    module.GROUPS = {"numbers": "numbers of things"}
    things.register("mine", _add)
    assert things.groups() == [Group("", "", ("mine", "pair", "broken", "triple"))]
    grouped = Registry("thing", "stub_catalogue:ENTRIES", groups="stub_catalogue:GROUPS")
    assert grouped.groups() == [
        Group("numbers", "numbers of things", ("triple",)),
        Group("", "", ("pair", "broken")),
    ]


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
