"""Measures decoding: symbols per second, greedy and with a beam, beside CTranslate2 if installed.

    python benchmarks/decode.py  # d 512, 6 steps or 6 + 6 layers, 32 lines of 25 symbols
    python benchmarks/decode.py --lengths=50,200,800 --models=transformer
    python benchmarks/decode.py --hparams_set=ut_act_tiny --vocab_size=12 --batch_size=64 \\
        --source_length=41 --lengths=41

Timed is one graph of encoder and search, with random weights and outputs of a forced length: every
search computes all positions. The first call, which traces the graph, is timed apart. The last line
on standard output is JSON with all numbers. They mean something on an idle machine only, and beside
those of a machine with the same flags: see measuring.py.
"""

import argparse
import dataclasses
import importlib.util
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from measuring import Machine, add_flags, report

from ut_tf.config.families import models_with
from ut_tf.config.fields import fields_of
from ut_tf.config.hparams import HParams, converted
from ut_tf.errors import UserError
from ut_tf.models.transformer.config import TransformerConfig
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.threads import set_threads

DEFAULT_SIZES = (
    "hidden_size=512,filter_size=2048,num_heads=8,num_steps=6,num_layers=6,attention_bias=true"
)


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of what is decoded: lines and their symbols (the end included), vocabulary, and
    symbols of an output.
    """

    batch_size: int
    source_length: int
    vocab_size: int
    length: int


def measure(
    name: str,
    compute_type: str,
    beam_size: int,
    shape: Shape,
    repetitions: int,
    search: Callable[[], Any],
) -> dict[str, Any]:
    """The numbers of a search: at best of `repetitions`, and of the first call, with tracing."""
    seconds, cpu_seconds = [], []
    for _ in range(repetitions + 1):
        began, cpu_began = time.perf_counter(), time.process_time()
        search()
        seconds.append(time.perf_counter() - began)
        cpu_seconds.append(time.process_time() - cpu_began)
    best, cpu_best = min(seconds[1:]), min(cpu_seconds[1:])
    return {
        "model": name,
        "compute_type": compute_type,
        "beam_size": beam_size,
        "length": shape.length,
        "symbols_per_second": round(shape.batch_size * shape.length / best, 1),
        "seconds": round(best, 4),
        "ms_per_position": round(1e3 * best / shape.length, 3),
        "cpu_ms_per_position": round(1e3 * cpu_best / shape.length, 3),
        "first_seconds": round(seconds[0], 2),
    }


def make_model(name: str, network: Any, vocab_size: int, policy: str) -> Any:
    """A network with random weights that translates within one vocabulary."""
    import keras

    from ut_tf.registry import models

    keras.utils.set_random_seed(1)
    spec = ProblemSpec("tokens", "tokens", vocab_size, vocab_size, shared_vocab=True)
    return models.get(name)(network, spec, dtype=policy)


def our_search(model: Any, beam_size: int, shape: Shape) -> Callable[[], Any]:
    """A function that decodes random inputs, each time anew."""
    import tensorflow as tf

    from ut_tf.search.config import DecodeConfig
    from ut_tf.search.strategies import decode

    config = DecodeConfig(beam_size=beam_size, force_length=shape.length)
    inputs = tf.random.stateless_uniform(
        [shape.batch_size, shape.source_length], [1, 2], 2, shape.vocab_size, tf.int32
    )
    signature = [tf.TensorSpec([None, None], tf.int32)]
    graph = tf.function(
        lambda inputs: decode(model, {"inputs": inputs}, config), input_signature=signature
    )
    return lambda: graph(inputs).symbols.numpy()


def has_ctranslate2() -> bool:
    """Whether CTranslate2 is installed."""
    return importlib.util.find_spec("ctranslate2") is not None


def ctranslate2_searches(
    network: TransformerConfig, shapes: Sequence[Shape], threads: int, compute_type: str
) -> Iterator[tuple[Shape, Callable[[int], Any]]]:
    """Yields for each shape a function of the beam size that decodes with CTranslate2, in float32
    or with int8 weights.
    """
    import ctranslate2
    import numpy as np

    generator = np.random.default_rng(1)
    names = [f"s{number}" for number in range(shapes[0].vocab_size - 3)]
    with tempfile.TemporaryDirectory() as folder:
        save_ctranslate2(network, names, folder, generator)
        translator = ctranslate2.Translator(
            folder,
            device="cpu",
            compute_type={"float": "float32"}.get(compute_type, compute_type),
            inter_threads=1,
            intra_threads=threads,
        )
        for shape in shapes:
            source = [
                [names[i] for i in row]
                for row in generator.integers(
                    0, len(names), (shape.batch_size, shape.source_length)
                )
            ]

            def search(beam_size: int, shape: Shape = shape, source: Any = source) -> Any:
                lengths = {"min_decoding_length": shape.length, "max_decoding_length": shape.length}
                return translator.translate_batch(
                    source, beam_size=beam_size, max_batch_size=0, **lengths
                )

            yield shape, search


def save_ctranslate2(
    network: TransformerConfig, names: Sequence[str], folder: str, generator: Any
) -> None:
    """Writes a Transformer of the network's sizes with random weights as a CTranslate2 model.

    Args:
      network: its hidden_size, filter_size, num_heads, num_layers and norm are used.
      names: of the symbols; three more are added.
      folder: to write to.
      generator: a numpy random generator.
    """
    import numpy as np
    from ctranslate2.specs import TransformerSpec

    width, vocabulary = network.hidden_size, ["<blank>", "<s>", "</s>", *names]
    spec = TransformerSpec.from_config(
        network.num_layers, network.num_heads, pre_norm=network.norm == "pre"
    )

    def linear(part: Any, units: int, inputs: int) -> None:
        part.weight = (generator.standard_normal((units, inputs)) * inputs**-0.5).astype(np.float32)
        part.bias = np.zeros(units, np.float32)

    def norm(part: Any) -> None:
        part.gamma, part.beta = np.ones(width, np.float32), np.zeros(width, np.float32)

    def layer(part: Any) -> None:
        for attention, outputs in (
            (part.self_attention, [3 * width, width]),
            (getattr(part, "attention", None), [width, 2 * width, width]),
        ):
            if attention is not None:
                norm(attention.layer_norm)
                for layer, units in zip(attention.linear, outputs, strict=True):
                    linear(layer, units, width)
        norm(part.ffn.layer_norm)
        linear(part.ffn.linear_0, network.filter_size, width)
        linear(part.ffn.linear_1, width, network.filter_size)

    table = (generator.standard_normal((len(vocabulary), width)) * width**-0.5).astype(np.float32)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = table
    linear(spec.decoder.projection, len(vocabulary), width)
    for stack in (spec.encoder, spec.decoder):
        stack.scale_embeddings = True
        if network.norm == "pre":
            norm(stack.layer_norm)
        for part in stack.layer:
            layer(part)
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.validate()
    spec.optimize()
    spec.save(folder)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags' values."""
    parser = argparse.ArgumentParser(
        description="Measures decoding, beside CTranslate2 where it is installed."
    )
    for name, default, meaning in (
        ("models", "", "default: the set's, or universal_transformer,transformer"),
        ("hparams_set", "", "sizes by name (default: d 512, filter 2048, 6 steps or layers)"),
        ("hparams", "", 'changes, "name=value,name=value"'),
        ("vocab_size", 8000, "symbols"),
        ("batch_size", 32, "lines decoded at once"),
        ("source_length", 25, "symbols of each input"),
        ("lengths", "25", "symbols of each output, one measurement each"),
        ("beam_sizes", "1,4", "1: greedy"),
        ("compute_types", "float", "float, int8, or both: float,int8"),
        ("dtype_policy", "float32", "of our models"),
        ("repetitions", 3, "of which the fastest counts"),
    ):
        shown = f"{meaning} (default: {default})" if default else meaning
        parser.add_argument(f"--{name}", type=type(default), default=default, help=shown)
    parser.add_argument(
        "--ctranslate2",
        choices=["auto", "yes", "no"],
        default="auto",
        help="auto: where it is installed and the models include transformer",
    )
    add_flags(parser)
    parser.set_defaults(inter_op_threads=1)
    return parser.parse_args(argv)


def make_networks(flags: argparse.Namespace) -> dict[str, Any]:
    """A network for each model that the flags name, and for CTranslate2 where they want it; sets
    the models where they name none.
    """
    if flags.hparams_set:
        from ut_tf.registry import hparams_sets

        hparams = hparams_sets.get(flags.hparams_set)()
        flags.models = flags.models or hparams.model
        made = {name: converted(hparams, name)[0] for name in _needed(flags)}
    else:
        flags.models = flags.models or "universal_transformer,transformer"
        made = {name: HParams(name) for name in _needed(flags)}
        made = {
            name: hparams.override(_own(hparams, DEFAULT_SIZES)) for name, hparams in made.items()
        }
    return {
        name: hparams.override(_own(hparams, flags.hparams)).resolve().network
        for name, hparams in made.items()
    }


def _names(flags: argparse.Namespace) -> list[str]:
    return [name for name in flags.models.split(",") if name]


def _needed(flags: argparse.Namespace) -> list[str]:
    """The models that are measured, and the one whose sizes CTranslate2 takes."""
    peer = ["transformer"] if flags.ctranslate2 == "yes" else []
    return list(dict.fromkeys([*_names(flags), *peer]))


def _own(hparams: HParams, text: str) -> str:
    """The assignments in `text` without those of fields that only other models have."""
    known = fields_of(type(hparams.network))
    parts = [part for part in text.split(",") if part]
    names = [part.partition("=")[0].strip() for part in parts]
    return ",".join(
        part
        for name, part in zip(names, parts, strict=True)
        if name in known or not models_with(name)
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    flags = parse(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        networks = make_networks(flags)
        if flags.ctranslate2 == "yes" and not has_ctranslate2():
            raise UserError("--ctranslate2=yes: it is not installed; run pip install ctranslate2.")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    machine = Machine.now(["float32"], flags.peak_repetitions)
    set_threads(flags.intra_op_threads, flags.inter_op_threads)
    rows = _compared(list(_measurements(flags, networks)))
    report(machine.with_peaks_again(), rows, vars(flags))
    return 0


def _measurements(flags: argparse.Namespace, networks: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from ut_tf.inference.int8_decoder import decoder_in

    names, compute_types = _names(flags), flags.compute_types.split(",")
    lengths, beam_sizes = (
        [int(part) for part in text.split(",")] for text in (flags.lengths, flags.beam_sizes)
    )
    shapes = [
        Shape(flags.batch_size, flags.source_length, flags.vocab_size, length) for length in lengths
    ]
    for name in names:
        model = make_model(name, networks[name], flags.vocab_size, flags.dtype_policy)
        for compute_type, shape, beam_size in itertools.product(compute_types, shapes, beam_sizes):
            decoder = decoder_in(model, compute_type)
            search = our_search(decoder, beam_size, shape)
            yield measure(name, compute_type, beam_size, shape, flags.repetitions, search)
    if flags.ctranslate2 == "no" or (
        flags.ctranslate2 == "auto" and not (has_ctranslate2() and "transformer" in names)
    ):
        return
    for compute_type in compute_types:
        for shape, search in ctranslate2_searches(
            networks["transformer"], shapes, flags.intra_op_threads, compute_type
        ):
            for beam_size in beam_sizes:
                yield measure(
                    "ctranslate2",
                    compute_type,
                    beam_size,
                    shape,
                    flags.repetitions,
                    lambda search=search, size=beam_size: search(size),
                )


def _compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, each with its speed as a multiple of CTranslate2's at the same type, beam size and
    length.
    """
    speeds = {
        (row["compute_type"], row["beam_size"], row["length"]): row["symbols_per_second"]
        for row in rows
        if row["model"] == "ctranslate2"
    }
    if not speeds:
        return rows
    return [
        {
            **row,
            "times_ctranslate2": round(
                row["symbols_per_second"]
                / speeds[row["compute_type"], row["beam_size"], row["length"]],
                2,
            ),
        }
        for row in rows
    ]


if __name__ == "__main__":
    sys.exit(main())
