"""Configurations of user models: which types of fields --hparams sets, and which are refused."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from ut_tf import registry
from ut_tf.config.fields import option
from ut_tf.config.groups import SizeConfig
from ut_tf.config.hparams import HParams
from ut_tf.config.processor import describe_processor, multiplies_bfloat16
from ut_tf.errors import UserError


@dataclass(frozen=True, kw_only=True)
class OwnConfig(SizeConfig):
    """Fields of every type that is supported."""

    note: str = option("plain")
    label: str | None = option(None)
    rates: tuple[float, ...] = option((0.5,), at_least=0)
    sizes: tuple[int, ...] = dataclasses.field(default_factory=lambda: (1, 2))
    span: tuple[int, int] | None = option(None)
    kinds: tuple[Literal["a", "b"], ...] = option(("a",))
    level: Literal[1, 2] = option(1)


class OwnModel:
    """A model of a user's own."""

    config_class: Any = OwnConfig


@pytest.fixture(autouse=True)
def own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.models, "_registered", {})
    registry.register_model("own")(OwnModel)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("note=any text", "any text"),
        ("label=named", "named"),
        ("label=None", None),
        ("rates=1e+2+0.25", (100.0, 0.25)),
        ("sizes=3", (3,)),
        ("sizes=", ()),
        ("span=3+4", (3, 4)),
        ("kinds=b+a", ("b", "a")),
        ("level=2", 2),
    ],
)
def test_fields_of_a_user_model_are_set_by_their_types(text: str, value: Any) -> None:
    hparams = HParams("own").override(text)
    assert getattr(hparams.network, text.partition("=")[0]) == value
    assert HParams.from_json(hparams.to_json()) == hparams


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rates=0.5+x", "rates=0.5+x: expected several values with + between them, each a finite"),
        ("rates=0.5+-1", "rates=0.5+-1: expected at least 0"),
        ("span=3", "span=3: expected 2 values, with + between them"),
        ("kinds=c", "kinds=c: expected several values with + between them, each one of a, b"),
        ("level=3", "level=3: expected one of 1, 2"),
    ],
)
def test_values_of_another_type_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        HParams("own").override(text)
    assert message in str(caught.value)


def test_fields_that_cannot_be_set_are_refused_at_registration() -> None:
    @dataclass(frozen=True, kw_only=True)
    class WithTable(SizeConfig):
        table: dict[str, int] = dataclasses.field(default_factory=dict)

    @dataclass(frozen=True, kw_only=True)
    class Undecided(SizeConfig):
        depth: int | str = 1

    @dataclass(frozen=True, kw_only=True)
    class Demanding(SizeConfig):
        depth: int

    class Plain:
        """No dataclass."""

    refused = {
        WithTable: r"'other': its `config_class` WithTable has the field table of type dict",
        Undecided: r"has the field depth of type int \| str: expected bool, int",
        Demanding: "has the field depth without a default: give it one",
        Plain: "Plain is no frozen dataclass",
    }
    for config_class, message in refused.items():
        model = type("Other", (), {"config_class": config_class})
        with pytest.raises(UserError, match=message):
            registry.register_model("other")(model)
    assert registry.models._registered.keys() == {"own"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx512f amx_bf16 amx_tile\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", True),
        ("processor\t: 0\n", None),
    ],
)
def test_bfloat16_in_hardware(tmp_path: Path, text: str, expected: bool | None) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert multiplies_bfloat16(tmp_path / "cpuinfo") is expected


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert multiplies_bfloat16(tmp_path / "absent") is None


def test_a_record_names_model_and_flags_that_decide_speed(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(
        "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t\t: sse avx2 amx_int8 avx512f\n"
    )
    described = describe_processor(tmp_path / "cpuinfo")
    assert described["model"] == "Some CPU @ 2.0GHz"
    assert described["flags"] == ["avx2", "avx512f", "amx_int8"]
    assert described["cores"] >= 1
