"""Options that parts declare: set as FIELD.OPTION, checked, stored, and given to the part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import pytest

from tests.stub_problems import create_run, register_stubs
from ut_tf import registry
from ut_tf.config.fields import option
from ut_tf.config.hparams import HParams, converted, differences, going_on
from ut_tf.errors import UserError
from ut_tf.layers import UniversalTransformerEncoder
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig as Config
from ut_tf.models.universal_transformer.exit_rules import StateDifference
from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic
from ut_tf.run import Run

PATIENT = "halting=patient,halting.first=3"


class Patient(Basic):
    """A position halts at a certain step, or later."""

    options: ClassVar[dict[str, Any]] = {
        "first": option(2, "the first step at which a position may halt", at_least=1),
        "rates": option((0.5,), "of each layer", kind=tuple[float, ...], above=0),
        "form": option(None, "how", kind=Literal["hard", "soft"] | None),
    }

    def __init__(self, first: int, rates: Any, form: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.first, self.rates, self.form = first, rates, form


class Hasty(Basic):
    """A form with an option of a similar name."""

    options: ClassVar[dict[str, Any]] = {"firs": option(1, "the first step")}

    def __init__(self, firs: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.firs = firs


class Window(StateDifference):
    """A rule that looks back."""

    options: ClassVar[dict[str, Any]] = {"window": option(2, "how many steps", at_least=1)}

    def __init__(self, window: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window = window


@pytest.fixture(autouse=True)
def own_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry.halting_forms, "_registered", {})
    monkeypatch.setattr(registry.exit_rules, "_registered", {})
    registry.register_halting("patient")(Patient)
    registry.register_halting("hasty")(Hasty)
    registry.register_exit_rule("window")(Window)
    yield


def test_options_are_set_by_their_types_and_have_defaults() -> None:
    options = HParams().override(f"{PATIENT},halting.form=soft").network.part_options
    assert options == {"halting.first": 3, "halting.rates": (0.5,), "halting.form": "soft"}
    options = HParams().override("halting.rates=0.1+1e-2,halting=patient").network.part_options
    assert options == {"halting.first": 2, "halting.rates": (0.1, 0.01), "halting.form": None}
    assert HParams().network.part_options == {}
    assert (
        Config(halting="patient", part_options={"halting.first": 9}).part_options["halting.first"]
        == 9
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("halting=patient,halting.first=0", "halting.first=0: expected at least 1"),
        ("halting=patient,halting.first=x", "halting.first=x: expected a whole number"),
        ("halting=patient,halting.frist=3", "did you mean halting.first"),
        ("halting=patient,halting.act_epsilon=0.1", "did you mean act_epsilon"),
        ("halting=basic,halting.first=3", "halting.first is an option of halting=patient, not of"),
        ("halting=patien,halting.first=3", "did you mean patient"),
        ("haltin.first=3", "unknown hyperparameter 'haltin.first' (did you mean halting"),
    ],
)
def test_what_cannot_be_is_refused(text: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        HParams().override(text)
    assert expected in str(caught.value)


def test_an_option_of_another_model_names_the_models_that_have_it() -> None:
    with pytest.raises(UserError, match=r"the model transformer does not have it; .*universal"):
        HParams("transformer").override("halting.first=3")


def test_another_part_begins_with_the_defaults_of_its_options() -> None:
    patient = HParams().override(PATIENT)
    assert patient.override("halting=basic").network.part_options == {}
    again = patient.override("halting=basic").override("halting=patient")
    assert again.network.part_options["halting.first"] == 2
    assert patient.override("halting=patient,dropout=0").network.part_options["halting.first"] == 3
    assert patient.change(halting="hasty").network.part_options == {"halting.firs": 1}


def test_options_are_stored_beside_the_fields_and_read_back() -> None:
    hparams = HParams().override(f"{PATIENT},halting.rates=1+2").resolve()
    stored = json.loads(hparams.to_json())
    assert stored["network"]["halting.first"] == 3 and "part_options" not in stored["network"]
    assert HParams.from_dict(stored) == hparams
    assert Config.from_dict(stored["network"]) == hparams.network
    # A part that has been given an option since, one that is not chosen, and one that is gone.
    del stored["network"]["halting.rates"]
    stored["network"]["halting.firs"] = 4
    read = HParams.from_dict(stored).network.part_options
    assert read["halting.rates"] == (0.5,) and "halting.firs" not in read
    stored["network"]["halting.gone"] = 4
    with pytest.raises(UserError, match=r"halting\.gone"):
        HParams.from_dict(stored)


def test_a_run_goes_on_with_an_option_that_is_new_as_it_was_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = HParams().override("halting=patient").resolve().to_dict()
    monkeypatch.setitem(Patient.options, "late", option(5, "new", absent=0))
    then, now = HParams.from_dict(stored), HParams().override("halting=patient").resolve()
    assert then.network.part_options["halting.late"] == 0
    assert now.network.part_options["halting.late"] == 5
    assert going_on(now, then, {"halting"}, {"halting"}) == then
    (changed,) = differences(then, going_on(now, then, {"halting.late"}, ()))
    assert changed == "halting.late: 0 -> 5"


def test_a_run_goes_on_with_the_same_options_only(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    register_stubs(monkeypatch)
    first = create_run(tmp_path, hparams=PATIENT)
    assert create_run(tmp_path, hparams={"halting": "patient", "halting.first": 3}) == first
    assert Run.load(first.output_dir).hparams == first.hparams
    with pytest.raises(UserError, match=r"halting\.first: 3 -> 2"):
        create_run(tmp_path, hparams="halting=patient")


def test_the_part_gets_its_options() -> None:
    layer = UniversalTransformerEncoder(
        hidden_size=8, num_heads=2, halting="patient", **{"halting.first": 4}
    )
    layer.build((None, None, 8))
    copy = UniversalTransformerEncoder.from_config(layer.get_config())
    for made in (layer, copy):
        assert made.network.part_options["halting.first"] == 4
    forms = [part for part in layer._flatten_layers() if isinstance(part, Patient)]
    assert [(form.first, form.rates, form.form) for form in forms] == [(4, (0.5,), None)]


def test_options_of_what_may_change_in_use_may_change() -> None:
    trained = HParams().resolve()
    used = trained.override_in_use("eval_exit=window,eval_exit.window=3")
    assert used.network.part_options == {"eval_exit.window": 3}
    with pytest.raises(UserError, match=r"halting\.first cannot change after training"):
        HParams().override(PATIENT).resolve().override_in_use("halting.first=4")


def test_another_model_takes_over_the_options_of_its_parts() -> None:
    conditional, dropped = converted(
        HParams().override(PATIENT), "conditional_universal_transformer"
    )
    assert conditional.network.part_options["halting.first"] == 3 and not dropped
    with pytest.raises(UserError, match="has no halting=patient"):
        converted(HParams().override(PATIENT), "transformer")


def test_options_that_cannot_be_set_are_refused_at_registration() -> None:
    refused = {
        "constructor does not take": {"late": option(1, "of no parameter")},
        "give its type": {"first": option(None, "of any type")},
        "expected at least 1": {"first": option(0, "out of bounds", at_least=1)},
        "expected 'first': option": {"first": 2},
        "expected a dictionary": ["first"],
    }
    for message, options in refused.items():
        part = type("Other", (Patient,), {"options": options})
        with pytest.raises(UserError, match=f"'other'.*{message}"):
            registry.register_halting("other")(part)
    assert "other" not in registry.halting_forms.names()
