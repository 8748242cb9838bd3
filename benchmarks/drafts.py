"""Measures greedy decoding with drafts: milliseconds of processor time per position of a saved
model, by lines in a batch, the share of accepted drafts, and near ties of two logits.

    python benchmarks/drafts.py                                       # the saved model reverse
    python benchmarks/drafts.py --model=models/mine --source_files=lines.txt --draft_steps=0,2,4

A language model goes on after the first symbols of each line that has as many words.

The settings take turns; the least processor time counts. The last line on standard output is JSON.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from measuring import Machine, report

_PROMPT = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table and the same numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="reverse")
    parser.add_argument("--source_files", default="", help="a text a line; none: 40 digits each")
    parser.add_argument("--batch_sizes", default="1,8,32")
    parser.add_argument("--draft_steps", default="0,1,2", help="0: without drafts")
    parser.add_argument("--repetitions", type=int, default=8)
    parser.add_argument("--peak_repetitions", type=int, default=8)
    flags = parser.parse_args(arguments)
    machine = Machine.now(["float32"], flags.peak_repetitions)
    import tensorflow as tf

    import ut_tf

    loaded = ut_tf.load(flags.model)
    draws = random.Random(1)
    lines = ["".join(draws.choices("0123456789", k=40)) for _ in range(1024)]
    if flags.source_files:
        lines = Path(flags.source_files).read_text("utf-8").splitlines()
    codec = loaded.run.text_codec()
    rows = []
    for size in map(int, flags.batch_sizes.split(",")):
        if codec.fields:
            features = {"inputs": codec.encode(tf.constant(lines[:size]))["inputs"]}
        else:
            long = [line for line in lines if len(line.split()) >= _PROMPT]
            features = {"prefix": codec.encode_targets(tf.constant(long[:size]))[:, :_PROMPT]}
        rows += measured(loaded.model, features, size, flags)
    report(machine.with_peaks_again(), rows, vars(flags))
    return 0


def measured(
    model: Any, features: dict[str, Any], size: int, flags: argparse.Namespace
) -> list[dict[str, Any]]:
    """The rows of the table for one batch."""
    import tensorflow as tf

    from ut_tf.search.config import DecodeConfig
    from ut_tf.search.strategies import count_drafts, decode

    def graph(function: Callable[..., Any], steps: int) -> Callable[[], Any]:
        config = DecodeConfig(beam_size=1, draft_steps=steps)
        traced = tf.function(lambda given: function(model, given, config), autograph=False)
        return lambda: tf.nest.map_structure(lambda values: values.numpy(), traced(features))

    settings = list(map(int, flags.draft_steps.split(",")))
    searches = {steps: graph(decode, steps) for steps in settings}
    best: dict[int, float] = {}
    for turn in range(flags.repetitions + 1):
        for steps, search in searches.items():
            began = time.process_time()
            positions = search().symbols.shape[2]
            spent = 1e3 * (time.process_time() - began) / positions
            # The first traces graphs.
            best[steps] = min(spent, best[steps]) if turn > 1 else spent
    rows: list[dict[str, Any]] = [
        {"lines": size, "draft_steps": steps, "ms": round(best[steps], 2)} for steps in best
    ]
    for row in rows:
        row["times as fast"] = round(best[settings[0]] / best[int(row["draft_steps"])], 2)
        row |= {"accepted": None, "near ties": None}
        if row["draft_steps"]:
            drafted, accepted, near = graph(count_drafts, int(row["draft_steps"]))()
            row["accepted"] = round(accepted.sum() / max(drafted.sum(), 1), 2)
            row["near ties"] = int(near.sum())
    return rows


if __name__ == "__main__":
    sys.exit(main())
