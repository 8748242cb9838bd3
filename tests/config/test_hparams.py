"""Typed hyperparameters: overrides, JSON, resolution, and that every mistake is listed."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf import registry
from ut_tf.config.families import config_class
from ut_tf.config.fields import choices, declaration, fields_of, option, types_of
from ut_tf.config.hparams import HParams, converted, differences, going_on
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.factories import hparams_of
from ut_tf.models.catalogue import MODELS
from ut_tf.models.encoder_decoder import EncoderDecoder
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig

UNIVERSAL = UniversalTransformerConfig
UNTIMED = settings(deadline=None, max_examples=12)
# Single values that no other field forbids: pairs have rules of their own.
FREE = (
    *("dropout", "word_dropout", "attention_dropout", "relu_dropout", "word_mask_stddev"),
    *("filter_size", "num_steps", "num_layers", "norm", "transition", "embedding_scale", "summary"),
    *("attention_bias", "shared_embedding", "kernel_init", "norm_epsilon", "relative_bias"),
    *("memory_size", "lstm_attention", "lstm_direction", "hop_tying", "image_width", "gate_cutoff"),
    *("conv_kernel", "max_dilation", "source_stretch", "act_epsilon", "halted_states"),
    *fields_of(TrainingConfig),
)


def values_of(config: type, name: str) -> st.SearchStrategy[typing.Any]:
    """Every value that the field can have."""
    declared, annotation = declaration(fields_of(config)[name]), types_of(config)[name]
    if options := choices(config, name):
        return st.sampled_from(options)
    kind = next(part for part in typing.get_args(annotation) or (annotation,) if part is not None)
    if kind is bool:
        return st.booleans()
    low = declared.at_least if declared.at_least is not None else declared.above
    high = declared.at_most if declared.at_most is not None else declared.below
    found = (
        st.integers(low, high or 10**9)
        if kind is int
        else st.floats(low, high, allow_nan=False, allow_infinity=False)
    ).filter(lambda value: declared.expectation(value) is None)
    if name == "conv_kernel":
        return st.integers(0, 9).map(lambda half: 2 * half + 1)
    if name == "max_dilation":
        return st.integers(0, 9).map(lambda power: 2**power)
    return found


def changes_of(model: str) -> st.SearchStrategy[dict[str, typing.Any]]:
    """Some fields of a model and of training, with other values."""
    network = type(HParams(model).network)
    homes = {name: TrainingConfig for name in FREE if name in fields_of(TrainingConfig)}
    homes |= {name: network for name in FREE if name in fields_of(network)}
    return st.fixed_dictionaries(
        {}, optional={name: values_of(home, name) for name, home in homes.items()}
    )


CHANGED = st.sampled_from(sorted(MODELS)).flatmap(
    lambda model: st.tuples(st.just(model), changes_of(model))
)


@UNTIMED
@given(CHANGED)
def test_json_gives_back_what_was_written(changed):
    model, changes = changed
    hparams = HParams(model).change(**changes)
    assert HParams.from_json(hparams.to_json()) == hparams
    resolved = dataclasses.replace(
        hparams, network=hparams.network.resolved(), training=hparams.training.resolved()
    )
    assert HParams.from_json(resolved.to_json()) == resolved


@UNTIMED
@given(CHANGED)
def test_overrides_as_text_are_the_same_as_values(changed):
    model, changes = changed
    text = ",".join(f"{name}={value}" for name, value in changes.items())
    assert HParams(model).override(text) == HParams(model).change(**changes)


@UNTIMED
@given(CHANGED)
def test_differences_names_exactly_the_fields_that_differ(changed):
    model, changes = changed
    before = HParams(model)
    expected = {
        name
        for name, value in changes.items()
        if name != "train_steps"
        and value != {**vars(before.network), **vars(before.training)}[name]
    }
    found = differences(before, before.change(**changes))
    assert {text.partition(":")[0] for text in found} == expected


@UNTIMED
@given(CHANGED)
def test_what_0_4_stored_is_read(changed):
    """It stored the fields of all models with each."""
    model, changes = changed
    written = HParams(model).change(**changes).to_dict()
    everything = {
        name: value for other in MODELS for name, value in HParams(other).network.to_dict().items()
    }
    for new in ("target_start", "global_mean"):
        everything.pop(new)
    written["network"] = {**everything, **written["network"]}
    assert HParams.from_dict(written) == HParams(model).change(**changes)


def test_all_mistakes_in_a_text_are_listed_at_once():
    with pytest.raises(UserError) as caught:
        HParams().override(
            "drpout=0.1,hidden_size=wide,norm=left,jit_compile=maybe,oops,dropout=0.1,dropout=0.2"
        )
    message = str(caught.value)
    for expected in (
        "did you mean dropout",
        "hidden_size=wide: expected a whole number",
        "norm=left: expected one of post, pre, sandwich, peri",
    ):
        assert expected in message
    for expected in (
        "jit_compile=maybe: expected true or false",
        "'oops' is not an assignment",
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
            "universal_transformer",
            "halting=pondernet,halted_states=transform",
            "halted_states=transform has no effect with halting=pondernet",
        ),
        ("universal_transformer", "lstm_forget_bias=2", "lstm_forget_bias=2.0 has no effect with"),
        ("universal_transformer", "halting=pondernet,act_loss_weight=0.1", "act_loss_weight=0.1"),
        ("universal_transformer", "global_mean=past", "global_mean=past has no effect with"),
        ("neural_gpu", "curriculum_start=10", "curriculum_start=10 has no effect with"),
    ],
)
def test_what_a_user_sets_without_effect_is_told(model, override, expected):
    hparams = HParams(model=model).override(override)
    (told,) = hparams.without_effect(override)
    assert told.startswith(expected)


@pytest.mark.parametrize(
    ("model", "override", "expected"),
    [
        ("transformer", "num_steps=4", "the depth of the model transformer is num_layers"),
        ("universal_transformer", "num_layers=4", "the depth of the model universal_transformer"),
        ("memn2n", "num_heads=2", "the model memn2n does not have it"),
        ("lstm", "conv_kernel=5", "lstm does not have it; bytenet, convs2s, extended_neural_gpu"),
        ("lstm", "max_dilation=4", r"does not have it; bytenet does\)"),
        ("convs2s", "target_start=zeros", "the model convs2s does not have it"),
        ("lstm", "lstm_atention=none", "did you mean lstm_attention"),
    ],
)
def test_a_field_of_another_model_is_unknown(model, override, expected):
    with pytest.raises(UserError, match=expected):
        HParams(model).override(override)


def test_a_model_among_the_overrides_is_pointed_to_its_flag():
    with pytest.raises(UserError, match=r"it is an argument of its own: `model`"):
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
        with pytest.raises(UserError, match="cannot change after training"):
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
    # A rule knows its own threshold.
    empty = [name for name, value in vars(resolved.network).items() if value is None]
    assert empty == ["eval_exit_threshold"]
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hidden_size=0", "hidden_size=0: expected at least 1"),
        ("hidden_size=130,num_heads=4", "hidden_size=130 is not a multiple of num_heads=4"),
        ("hidden_size=15,num_heads=5", "expected an even number"),
        ("hidden_size=20,num_heads=4,position=rotary", "even size per head, not 5"),
        ("dropout=1.0", "dropout=1.0: expected at least 0 and below 1"),
        ("halting=basic,recurrence=gru", "halting=basic needs recurrence=basic"),
        ("halting=basic,steps_per_position=0.1", "steps_per_position"),
        ("position_offset=random", "max_position_offset above 0"),
        ("memory_tokens=2,memory_positions=true", "memory_positions=True needs position=rotary"),
        ("memory_tokens=2,num_puzzles=1,puzzle_size=9999", "fills more than the memory"),
        (
            "halting=basic,halting_compute=compact,q_head=True",
            "leaves out states that q_head=True reads",
        ),
        ("step_encoding=learned,num_steps=4,eval_num_steps=5", "eval_num_steps=5 is more than"),
        (
            "position=learned,learned_positions=256,max_length=256,eval_position_offset=10",
            "learned_positions=256",
        ),
        ("halting=basic,eval_num_steps=9", "eval_num_steps=9 is a fixed depth"),
        ("eval_act_max_steps=9", "eval_act_max_steps=9 bounds dynamic halting"),
        ("couple_carry_transform_gates=false", "needs recurrence=highway or skip, not basic"),
        ("use_memory_as_final_state=true,recurrence=gru", "needs recurrence=lstm with"),
        ("position_separator=5,position_from=end", "position_from=end has none of"),
        ("position_digits=10,position_separator=5", "position_separator=5 are not"),
        ("train_steps=0,decay_steps=9,learning_rate=0", "train_steps=0: expected at least 1"),
    ],
)
def test_what_cannot_be_is_refused(text, expected):
    with pytest.raises(UserError) as caught:
        HParams().override(text).resolve()
    assert expected in str(caught.value)


@pytest.mark.parametrize("model", MODELS)
def test_every_field_is_documented(model):
    for config in (type(HParams(model).network), TrainingConfig):
        for base in config.__mro__[:-1]:
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
            for statement, following in itertools.pairwise([*body, None]):
                if isinstance(statement, ast.AnnAssign) and statement.target.id in fields_of(
                    config
                ):
                    assert isinstance(following, ast.Expr), statement.target.id
                    assert ast.literal_eval(following.value), statement.target.id


def test_what_an_earlier_version_wrote_keeps_what_it_did():
    values = HParams().resolve().to_dict()
    assert (values["network"].pop("target_start"), values["network"].pop("global_mean")) == (
        "learned",
        "past",
    )
    for network in (HParams.from_dict(values).network, UNIVERSAL.from_dict(values["network"])):
        assert (network.target_start, network.global_mean) == ("zeros", "sequence")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"halting": "acr"}, r"halting=acr: expected one of [^(]*basic[^(]*\.$"),
        (
            {"norm": "Pre"},
            r"norm=Pre: expected one of post, pre, sandwich, peri \(did you mean pre\?\)",
        ),
        ({"recurrence": "gruu"}, r"recurrence=gruu: expected one of .*did you mean gru\?"),
        ({"hidden_size": "wide", "num_heads": 0}, r"hidden_size=wide: expected .*; num_heads=0"),
    ],
)
def test_a_configuration_checks_itself(values, expected):
    with pytest.raises(UserError, match=expected):
        UNIVERSAL(**values)
    with pytest.raises(UserError, match=expected):
        dataclasses.replace(UNIVERSAL(), **values)
    with pytest.raises(UserError, match=expected):
        UNIVERSAL.from_dict(values)


def test_another_model_takes_over_what_both_have():
    hparams = HParams().change(hidden_size=64, num_steps=7, norm="pre", batch_size=7)
    moved, dropped = converted(hparams, "transformer")
    assert (moved.network.hidden_size, moved.network.norm) == (64, "pre")
    assert moved.training == hparams.training
    assert dropped == ["num_steps=7"]
    with pytest.raises(UserError, match="has no recurrent_layer=gru and no halting=basic"):
        converted(HParams().change(halting="basic", recurrent_layer="gru"), "transformer")
    with pytest.raises(UserError, match="the model lstm has no norm=pre"):
        converted(hparams, "lstm")


def test_a_model_s_configuration_must_be_its_own():
    with pytest.raises(UserError, match="lstm is configured by a LSTMConfig, not by a Universal"):
        HParams("lstm", UNIVERSAL())


class Undecorated(UNIVERSAL):
    """Lacks @dataclass, so that its field is none."""

    depth: int = option(1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "model 'own' has no `config_class`: set it, in the body of the class Own, to"),
        ({"config_class": dict}, "'own': its `config_class` dict is no frozen dataclass of hyp"),
        ({"config_class": HParams}, "`config_class` HParams is no frozen dataclass of hyperpara"),
        ({"config_class": UNIVERSAL()}, "is no frozen dataclass of hyperparameters: derive it"),
        ({"config_class": Undecorated}, r"Undecorated is .* under @dataclass\(frozen=True"),
    ],
)
def test_a_model_without_a_configuration_is_refused_when_it_is_registered(body, expected):
    with pytest.raises(UserError, match=expected):
        registry.register_model("own")(type("Own", (EncoderDecoder,), body))
    assert "own" not in registry.models.names()


@pytest.mark.parametrize("name", MODELS)
def test_the_catalogue_and_the_class_name_the_same_configuration(name):
    model_class = registry.models.get(name).func
    assert config_class(name) is model_class.config_class


def test_a_set_is_trained_with_another_model():
    hparams, dropped = hparams_of("ut_babi", "num_layers=3", "transformer")
    assert (hparams.network.transition, hparams.network.num_layers) == ("sepconv", 3)
    assert dropped == ["position_every_step=False"]
    with pytest.raises(UserError, match="the model transformer has no halting=basic"):
        hparams_of("ut_act_babi", "", "transformer")


@pytest.mark.parametrize("rate", [0.0, 0.2])
@pytest.mark.parametrize("model", ["universal_transformer", "transformer", "mem_transformer"])
def test_the_rates_inside_a_block_are_those_of_dropout_unless_they_are_given(model, rate):
    def rates(network: typing.Any) -> tuple[float, float, float]:
        return network.dropout, network.attention_dropout, network.relu_dropout

    one = HParams(model).override(f"dropout={rate}").resolve()
    assert rates(one.network) == (rate, rate, rate)
    assert rates(HParams(model).resolve().network) == (0.1, 0.1, 0.1)
    two = HParams(model).override(f"dropout={rate},relu_dropout=0.05").resolve()
    assert rates(two.network) == (rate, rate, 0.05)
    # What a resolved one states is stated.
    assert rates(two.change(dropout=0.3).network) == (0.3, rate, 0.05)


def test_dropout_of_0_says_what_a_set_keeps():
    kept = hparams_of("ut_base", "dropout=0", None)[0]
    (note,) = kept.notes_on("dropout=0")
    assert "attention_dropout=0.1 and relu_dropout=0.1" in note
    assert "add attention_dropout=0,relu_dropout=0 for no dropout" in note
    for hparams_set, text in (
        ("ut_base", "dropout=0,attention_dropout=0,relu_dropout=0.1"),
        ("ut_base", "dropout=0.2"),
        ("ut_tiny", "dropout=0"),
        ("ut_babi", "dropout=0"),
        ("lstm_tiny", "dropout=0"),
    ):
        assert hparams_of(hparams_set, text, None)[0].notes_on(text) == []


def test_a_run_of_0_4_goes_on_with_the_rates_that_it_had():
    def rates(hparams: HParams) -> tuple[float, float]:
        return hparams.network.attention_dropout, hparams.network.relu_dropout

    stored = HParams().change(dropout=0.0, attention_dropout=0.1, relu_dropout=0.1).resolve()
    asked = HParams().change(dropout=0.0).resolve()
    assert rates(going_on(asked, stored, {"dropout"}, {"dropout"})) == (0.1, 0.1)
    given = {"dropout", "relu_dropout"}
    # What is given now, or was given then, is compared as it is.
    assert rates(going_on(asked, stored, given, {"dropout"})) == (0.1, 0.0)
    assert rates(going_on(asked, stored, {"dropout"}, given)) == (0.1, 0.0)
    other = stored.change(attention_dropout=0.2, relu_dropout=0.2)
    assert rates(going_on(asked, other, {"dropout"}, {"dropout"})) == (0.0, 0.0)
