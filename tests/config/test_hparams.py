"""Typed hyperparameters: overrides, JSON, resolution, and that every mistake is listed."""

from __future__ import annotations

import dataclasses
import inspect
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ut_tf.config.hparams import HParams, differences
from ut_tf.config.network import NetworkConfig
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.models.catalogue import MODELS

FIELDS = {
    item.name: typing.get_type_hints(kind)[item.name]
    for kind in (NetworkConfig, TrainingConfig)
    for item in dataclasses.fields(kind)
}


def _values(annotation: typing.Any) -> st.SearchStrategy[typing.Any]:
    options = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return st.sampled_from(options)
    if options:
        return st.one_of(st.none(), *(_values(one) for one in options if one is not type(None)))
    return {
        bool: st.booleans(),
        int: st.integers(-(10**9), 10**9),
        float: st.floats(allow_nan=False, allow_infinity=False),
    }[annotation]


CHANGES = st.fixed_dictionaries(
    {}, optional={name: _values(annotation) for name, annotation in FIELDS.items()}
)


def test_no_field_stands_in_both_sections():
    assert not {f.name for f in dataclasses.fields(NetworkConfig)} & {
        f.name for f in dataclasses.fields(TrainingConfig)
    }


@given(CHANGES)
def test_json_gives_back_what_was_written(changes):
    hparams = HParams().change(**changes)
    assert HParams.from_json(hparams.to_json()) == hparams


@given(CHANGES)
def test_overrides_as_text_are_the_same_as_values(changes):
    text = ",".join(f"{name}={value}" for name, value in changes.items())
    assert HParams().override(text) == HParams().change(**changes)


@given(CHANGES)
def test_differences_names_exactly_the_fields_that_differ(changes):
    changed = HParams().change(**changes)
    expected = {
        name
        for name, value in changes.items()
        if name != "train_steps" and value != getattr(_home(HParams(), name), name)
    }
    assert {text.partition(":")[0] for text in differences(HParams(), changed)} == expected


def _home(hparams: HParams, name: str) -> typing.Any:
    return hparams.network if hasattr(hparams.network, name) else hparams.training


def test_an_override_changes_only_its_field():
    hparams = HParams().override("dropout=0.25, shared_embedding=false,act_max_steps=7")
    assert differences(HParams(), hparams) == [
        "act_max_steps: None -> 7",
        "shared_embedding: True -> False",
        "dropout: 0.1 -> 0.25",
    ]


def test_an_empty_override_changes_nothing():
    assert HParams().override("") == HParams()


def test_all_mistakes_in_a_text_are_listed_at_once():
    with pytest.raises(UserError) as caught:
        HParams().override(
            "drpout=0.1,hidden_size=wide,norm=left,jit_compile=maybe,oops,dropout=0.1,dropout=0.2"
        )
    message = str(caught.value)
    for expected in (
        "did you mean dropout",
        "hidden_size=wide: expected a whole number",
        "norm=left: expected one of post, pre",
    ):
        assert expected in message
    for expected in (
        "jit_compile=maybe: expected true or false",
        "'oops' is no assignment",
        "'dropout' is set twice",
    ):
        assert expected in message


def test_a_name_of_tensor2tensor_points_to_ours():
    with pytest.raises(UserError, match=r"layer_prepostprocess_dropout.*here it is dropout"):
        HParams().override("layer_prepostprocess_dropout=0.1")


@pytest.mark.parametrize(
    "text",
    ["learning_rate=nan", "clip_norm=inf", "num_steps=2.5", "num_steps=true", "hidden_size="],
)
def test_values_that_no_field_can_hold_are_refused(text):
    with pytest.raises(UserError, match="expected a"):
        HParams().override(text)


@pytest.mark.parametrize(
    ("model", "override", "expected"),
    [
        (
            "transformer",
            "num_steps=4",
            "num_steps=4 has no effect on the model transformer, whose depth is num_layers",
        ),
        (
            "universal_transformer",
            "num_layers=4",
            (
                "num_layers=4 has no effect on the model universal_transformer, whose depth is"
                " num_steps"
            ),
        ),
        ("memn2n", "num_heads=2", "num_heads=2 has no effect on the model memn2n"),
        ("memn2n", "dropout=0.2", "dropout=0.2 has no effect on the model memn2n"),
        (
            "lstm",
            "eval_position_offset=9",
            "eval_position_offset=9 has no effect on the model lstm",
        ),
        (
            "universal_transformer",
            "halting=pondernet,halted_states=transform",
            (
                "halted_states=transform has no effect with halting=pondernet, only with basic or"
                " accumulated or global or random"
            ),
        ),
        (
            "universal_transformer",
            "lstm_forget_bias=2",
            "lstm_forget_bias=2.0 has no effect with recurrence=basic, only with lstm",
        ),
        (
            "universal_transformer",
            "halting=pondernet,act_loss_weight=0.1",
            (
                "act_loss_weight=0.1 has no effect with halting=pondernet, only with basic or"
                " accumulated or global or random"
            ),
        ),
        (
            "universal_transformer",
            "global_mean=past",
            "global_mean=past has no effect with halting=none, only with global",
        ),
        ("convs2s", "target_start=zeros", "target_start=zeros has no effect on the model convs2s"),
        (
            "neural_gpu",
            "curriculum_start=10",
            "curriculum_start=10 has no effect with curriculum=none, only with length",
        ),
    ],
)
def test_what_a_user_sets_without_effect_is_told(model, override, expected):
    hparams = HParams(model=model).override(override)
    assert hparams.without_effect(override) == [expected]


@pytest.mark.parametrize("model", MODELS)
def test_each_model_has_one_of_the_two_depths(model):
    assert len(HParams(model=model).without_effect("num_steps=3,num_layers=3")) == 1


def test_a_model_among_the_overrides_is_pointed_to_its_flag():
    with pytest.raises(UserError, match="it has a flag of its own: --model"):
        HParams().override("model=lstm")


def test_in_use_only_what_the_weights_do_not_settle_may_change():
    trained = HParams().change(num_steps=3).resolve()
    assert differences(trained, trained.override_in_use("eval_num_steps=8")) == [
        "eval_num_steps: 3 -> 8"
    ]
    ponders = trained.change(halting="pondernet").resolve()
    assert differences(ponders, ponders.override_in_use("ponder_threshold=0.9")) == [
        "ponder_threshold: 0.5 -> 0.9"
    ]
    for text in ("num_steps=8", "eval_frequency=10", "eval_num_steps=8,hidden_size=64"):
        with pytest.raises(
            UserError, match="cannot change after training: expected some of eval_act_max_steps"
        ):
            trained.override_in_use(text)
    with pytest.raises(UserError, match=r"ponder_threshold=0\.9 has no effect with halting=none"):
        trained.override_in_use("ponder_threshold=0.9")
    with pytest.raises(UserError, match="did you mean eval_num_steps"):
        trained.override_in_use("eval_num_step=8")
    with pytest.raises(UserError, match="eval_act_max_steps"):
        trained.override_in_use("eval_act_max_steps=8")


def test_resolve_fills_every_field_in():
    resolved = (
        HParams()
        .change(num_steps=3, hidden_size=64, train_steps=70, dtype_policy="mixed_float16")
        .resolve()
    )
    assert None not in vars(resolved.network).values()
    assert None not in vars(resolved.training).values()
    assert (
        resolved.network.act_max_steps,
        resolved.network.eval_act_max_steps,
        resolved.network.eval_num_steps,
    ) == (6, 6, 3)
    assert (
        resolved.network.embedding_stddev,
        resolved.training.decay_steps,
        resolved.training.loss_scale,
    ) == (0.125, 70, "dynamic")
    assert resolved.resolve() == resolved


def test_resolve_uses_the_overridden_number_of_steps():
    assert HParams().override("num_steps=5").resolve().network.act_max_steps == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hidden_size=0", "hidden_size=0: expected at least 1"),
        ("hidden_size=130,num_heads=4", "hidden_size=130 is not a multiple of num_heads=4"),
        ("hidden_size=15,num_heads=5", "expected an even number"),
        ("hidden_size=20,num_heads=4,position=rotary", "even size per head, not 5"),
        ("dropout=1.0", "dropout=1.0: expected at least 0 and below 1"),
        ("act_epsilon=0", "act_epsilon=0.0"),
        ("halting=basic,recurrence=gru", "halting=basic needs recurrence=basic"),
        ("halting=basic,steps_per_position=0.1", "steps_per_position"),
        ("position_offset=random", "max_position_offset above 0"),
        (
            "step_encoding=learned,num_steps=4,eval_num_steps=5",
            "eval_num_steps=5 is more than num_steps=4",
        ),
        (
            "step_encoding=learned,halting=basic,act_max_steps=4,eval_act_max_steps=5",
            "eval_act_max_steps=5",
        ),
        (
            "position=learned,learned_positions=256,max_length=256,eval_position_offset=10",
            "learned_positions=256",
        ),
        ("halting=basic,eval_num_steps=9", "eval_num_steps=9 is a fixed depth"),
        ("eval_act_max_steps=9", "eval_act_max_steps=9 bounds dynamic halting"),
        ("couple_carry_transform_gates=false", "needs recurrence=highway or skip, not basic"),
        (
            "use_memory_as_final_state=true,recurrence=gru",
            "needs recurrence=lstm with halting=none, not gru with none",
        ),
        ("position_separator=5,position_from=end", "position_from=end has none of"),
        ("position_separator=5,position=none", "position=none"),
        ("length_bucket_step=1", "expected above 1"),
        ("attention_scale_length=1", "expected at least 2"),
        (
            "train_steps=0,decay_steps=9,learning_rate=0",
            "train_steps=0: expected at least 1; learning_rate=0.0: expected above 0",
        ),
    ],
)
def test_what_cannot_be_is_refused(text, expected):
    with pytest.raises(UserError) as caught:
        HParams().override(text).resolve()
    assert expected in str(caught.value)


def test_a_sinusoid_of_the_step_may_go_deeper_at_evaluation():
    assert HParams().override("num_steps=4,eval_num_steps=9").resolve().network.eval_num_steps == 9


def test_hyperparameters_cannot_be_mutated():
    with pytest.raises(dataclasses.FrozenInstanceError):
        HParams().network.hidden_size = 3


def test_every_field_is_documented():
    sources = [inspect.getsource(one) for one in (NetworkConfig, TrainingConfig)]
    lines = [line.strip() for source in sources for line in source.splitlines()]
    for name in FIELDS:
        (place,) = [
            number
            for number, line in enumerate(lines)
            if line.startswith(f"{name}: ") and "=" in line
        ]
        assert lines[place + 1].startswith('"""'), name


def test_what_an_earlier_version_wrote_keeps_what_it_did():
    values = HParams().resolve().to_dict()
    assert (values["network"].pop("target_start"), values["network"].pop("global_mean")) == (
        "learned",
        "past",
    )
    for network in (HParams.from_dict(values).network, NetworkConfig.from_dict(values["network"])):
        assert (network.target_start, network.global_mean) == ("zeros", "sequence")
