"""Writes reference outputs of tensor2tensor 1.15.7 (TensorFlow 1.15.5, Python 3.7).

How it is used, where tensor2tensor is installed (see README.md)::

    python tests/golden/forms/make_references.py tests/golden/forms [NAME ...]
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import tensor2tensor

# The packages import all models, and with them much that need not be installed.
for _name in ("models", "models/research"):
    _package = types.ModuleType(f"tensor2tensor.{_name.replace('/', '.')}")
    _package.__path__ = [f"{tensor2tensor.__path__[0]}/{_name}"]
    sys.modules[_package.__name__] = _package

import tensorflow.compat.v1 as tf  # noqa: E402
from tensor2tensor.data_generators import problem_hparams  # noqa: E402
from tensor2tensor.layers import modalities  # noqa: E402
from tensor2tensor.models import transformer  # noqa: E402, F401
from tensor2tensor.models.research import (  # noqa: E402
    universal_transformer,  # noqa: F401
    universal_transformer_util,
)
from tensor2tensor.utils import registry  # noqa: E402
from tensorflow.python.autograph.core import ag_ctx  # noqa: E402

VOCAB_SIZE = 12
CLASSES = 3
DECISIVE = [
    "act_epsilon",
    "act_halting_bias_init",
    "act_loss_weight",
    "act_max_steps",
    "act_type",
    "add_ffn_unit_to_the_transition_function",
    "add_or_concat_timing_signal",
    "add_position_timing_signal",
    "add_sru",
    "add_step_timing_signal",
    "couple_carry_transform_gates",
    "ffn_layer",
    "filter_size",
    "gate_ffn_layer",
    "gates_inputs",
    "hidden_size",
    "layer_postprocess_sequence",
    "layer_preprocess_sequence",
    "lstm_forget_bias",
    "max_length",
    "mix_with_transformer",
    "multiply_embedding_mode",
    "norm_epsilon",
    "norm_type",
    "num_decoder_layers",
    "num_encoder_layers",
    "num_heads",
    "num_hidden_layers",
    "num_inrecurrence_layers",
    "num_mixedin_layers",
    "num_rec_steps",
    "pos",
    "position_start_index",
    "recurrence_type",
    "shared_embedding",
    "shared_embedding_and_softmax_weights",
    "step_timing_signal_type",
    "transform_bias_init",
    "transformer_ffn_type",
    "use_memory_as_final_state",
    "use_target_space_embedding",
]

ACT = {"recurrence_type": "act", "act_halting_bias_init": -0.5, "act_max_steps": 5}
HIGHWAY = {"gates_inputs": "sti"}
UT, T = "universal_transformer", "transformer"
TINY, BASE = "universal_transformer_tiny", "transformer_base"
# name: (model, set, hyperparameters, what the problem is made of, whether to decode)
FORMS = {
    "transformer_decoded": (T, BASE, {}, "seq2seq", True),
    "transformer_post_norm": (T, "transformer_base_v1", {}, "seq2seq", False),
    "transformer_unshared": (
        T,
        BASE,
        {"shared_embedding_and_softmax_weights": False},
        "seq2seq",
        False,
    ),
    "transformer_without_positions": (T, BASE, {"pos": "none"}, "seq2seq", False),
    "transformer_lm": (T, BASE, {}, "lm", False),
    "transformer_encoder": ("transformer_encoder", BASE, {}, "class", False),
    "ut_highway": (UT, TINY, {"recurrence_type": "highway", **HIGHWAY}, "seq2seq", False),
    "ut_skip": (UT, TINY, {"recurrence_type": "skip", **HIGHWAY}, "seq2seq", False),
    "act_basic_decoded": (UT, TINY, ACT, "seq2seq", True),
    "act_accumulated": (UT, TINY, {**ACT, "act_type": "accumulated"}, "seq2seq", False),
    "act_sepconv": (UT, TINY, {**ACT, "transformer_ffn_type": "sepconv"}, "seq2seq", False),
    "act_lm": (UT, TINY, ACT, "lm", False),
    "ut_encoder": ("universal_transformer_encoder", TINY, {}, "class", False),
    "ut_position_random": (UT, TINY, {"position_start_index": "random"}, "seq2seq", False),
    "ut_position_step": (UT, TINY, {"position_start_index": "step"}, "seq2seq", False),
    "act_position_step_sinusoid": (
        UT,
        TINY,
        {**ACT, "position_start_index": "step", "step_timing_signal_type": "sinusoid"},
        "seq2seq",
        False,
    ),
    "act_concat": (UT, TINY, {**ACT, "add_or_concat_timing_signal": "concat"}, "seq2seq", False),
    "ut_concat_sinusoid": (
        UT,
        TINY,
        {"add_or_concat_timing_signal": "concat", "step_timing_signal_type": "sinusoid"},
        "seq2seq",
        False,
    ),
    "ut_concat_position_step": (
        UT,
        TINY,
        {
            "add_or_concat_timing_signal": "concat",
            "position_start_index": "step",
            "add_step_timing_signal": False,
        },
        "seq2seq",
        False,
    ),
    "ut_mix_before": (UT, TINY, {"mix_with_transformer": "before_ut"}, "seq2seq", False),
    "act_mix_after": (UT, TINY, {**ACT, "mix_with_transformer": "after_ut"}, "seq2seq", False),
    "gru_mix_both": (
        UT,
        TINY,
        {
            "recurrence_type": "gru",
            "add_step_timing_signal": False,
            "num_mixedin_layers": 1,
            "mix_with_transformer": "before_ut,after_ut",
        },
        "seq2seq",
        False,
    ),
    "act_multilayer": (
        UT,
        TINY,
        {
            **ACT,
            "num_inrecurrence_layers": 2,
            "num_mixedin_layers": 1,
            "mix_with_transformer": "before_ut,after_ut",
            "transformer_ffn_type": "sepconv",
        },
        "seq2seq",
        False,
    ),
    "highway_multilayer": (
        UT,
        TINY,
        {"recurrence_type": "highway", "num_inrecurrence_layers": 2, **HIGHWAY},
        "seq2seq",
        False,
    ),
}
SIZES = {
    "hidden_size": 16,
    "filter_size": 32,
    "num_heads": 4,
    "num_hidden_layers": 2,
    "symbol_modality_num_shards": 2,
}


def make_hparams(set_name: str, changes: dict[str, Any]) -> Any:
    """The set with small sizes and other changes."""
    hparams = registry.hparams(set_name)
    changes = dict(SIZES, **changes)
    if "recurrence_type" in hparams:
        changes.setdefault("num_rec_steps", 3)
    for name, value in changes.items():
        if name in hparams:
            setattr(hparams, name, value)
        else:
            hparams.add_hparam(name, value)
    return hparams


def make_problem(hparams: Any, kind: str) -> Any:
    """Symbols to symbols, to a class, or symbols alone."""
    problem = problem_hparams.test_problem_hparams(VOCAB_SIZE, VOCAB_SIZE, hparams)
    if kind == "class":
        problem.modality["targets"] = modalities.ModalityType.CLASS_LABEL
        problem.vocab_size["targets"] = CLASSES
    elif kind == "lm":
        del problem.modality["inputs"]
        del problem.vocab_size["inputs"]
    return problem


def make_ids(kind: str, rng: np.random.RandomState) -> dict[str, Any]:
    """A batch of three examples."""
    inputs = rng.randint(2, VOCAB_SIZE, [3, 9])
    targets = rng.randint(2, VOCAB_SIZE, [3, 7])
    if kind == "class":
        # Its mean goes over padding too, so that answers depend on the batch: none here.
        return {"inputs": inputs, "targets": rng.randint(0, CLASSES, [3, 1])}
    inputs[0, 6:] = targets[0, 5:] = 0
    inputs[0, 5] = targets[0, 4] = 1
    inputs[1:, -1] = targets[1:, -1] = 1
    return {"inputs": inputs, "targets": targets} if kind == "seq2seq" else {"targets": targets}


def _zero(*shape: Any, **options: Any) -> Any:
    del shape, options
    return tf.constant(0)


def reference(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arrays, hyperparameters) of a form."""
    model_name, set_name, changes, kind, decodes = FORMS[name]
    tf.reset_default_graph()
    rng = np.random.RandomState(sum(map(ord, name)))
    tf.set_random_seed(1)
    hparams = make_hparams(set_name, changes)
    if changes.get("position_start_index") == "random":
        # One of the starts that it draws, the same each time.
        universal_transformer_util.tf.random_uniform = _zero
    problem = make_problem(hparams, kind)
    ids = make_ids(kind, rng)
    mode = tf.estimator.ModeKeys.EVAL
    model = registry.model(model_name)(hparams, mode, problem)
    features = {key: tf.constant(value[:, :, None, None], tf.int32) for key, value in ids.items()}
    if kind != "lm":
        features["target_space_id"] = tf.constant(1, tf.int32)
    logits, losses = model(dict(features))
    arrays = {key: value.astype(np.int32) for key, value in ids.items()}
    decoded = {}
    if decodes:
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            model.set_mode(tf.estimator.ModeKeys.PREDICT)
            for label, options in {
                "greedy": (1, 1, 0.0),
                "beam4": (4, 1, 0.6),
                "beam4_all": (4, 4, 0.6),
            }.items():
                beam_size, top, alpha = options
                asked = {"inputs": features["inputs"], "target_space_id": tf.constant(1)}
                result = model.infer(asked, 8, beam_size, top, alpha)
                decoded["decoded/" + label] = result["outputs"]
                if result.get("scores") is not None:
                    decoded["scores/" + label] = result["scores"]
    variables = tf.trainable_variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        # Decoding needs decided answers: a network of noise writes the same symbol for ever.
        initial = session.run(variables)
        session.run(
            [variable.initializer for variable in variables],
            {
                variable.initializer.inputs[1]: value
                + rng.normal(0.0, 0.15, value.shape).astype(np.float32)
                for variable, value in zip(variables, initial)  # noqa: B905
            },
        )
        fetched = session.run(
            {
                "logits": logits,
                "losses": losses,
                "decoded": decoded,
                "variables": {v.op.name: v for v in variables},
            }
        )
    shape = fetched["logits"].shape
    arrays["logits"] = fetched["logits"].reshape([shape[0], -1, shape[-1]])
    arrays["target_space_id"] = np.int32(1)
    arrays.update({"loss/" + key: value for key, value in fetched["losses"].items()})
    arrays.update({key: np.squeeze(v) for key, v in fetched["decoded"].items()})
    arrays.update({"var/" + key: value for key, value in fetched["variables"].items()})
    values = {key: hparams.get(key) for key in DECISIVE if key in hparams}
    return arrays, values


def main() -> None:
    """Writes the references that are named, or all."""
    folder, *names = sys.argv[1:]
    for name in names or FORMS:
        # Translating its functions takes most of the time, and changes nothing.
        with ag_ctx.ControlStatusCtx(status=ag_ctx.Status.DISABLED):
            arrays, values = reference(name)
        np.savez_compressed(str(Path(folder) / f"{name}.npz"), **arrays)
        text = json.dumps(values, indent=1, sort_keys=True)
        (Path(folder) / f"{name}.json").write_text(text + "\n")
        print(name, arrays["logits"].shape)


if __name__ == "__main__":
    main()
