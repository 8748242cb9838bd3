"""ut-bleu: scores translations against references, or every checkpoint of a run.

``ut-bleu --translation=news.de --reference=news.ref.de``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point, import_tensorflow, scores_table, stdout_to_stderr
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flag_values import (
    check_split,
    chosen_variants,
    decode_config,
    files,
    parallel_set,
)
from ut_tf.bin.frame.flags import FlagError
from ut_tf.errors import UserError
from ut_tf.metrics.bleu import check_lines, check_tokenizer, corpus_scores
from ut_tf.paths import expanded
from ut_tf.run import Run
from ut_tf.storage.layout import checkpoint_steps

if TYPE_CHECKING:
    from ut_tf.evaluation.bleu_curve import Row

COMMAND, DESCRIPTION, FLAGS = declaration("bleu")


_OF_RUNS = (
    "output_dir",
    "steps",
    "split",
    "source",
    "decode_hparams",
    "data_dir",
    "tmp_dir",
    "usr_dir",
)


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    variants = chosen_variants(values.bleu_variant)
    if values.checkpoints:
        _score_run(values)
        return
    for name in _OF_RUNS:
        if values[name].value:
            raise FlagError(f"--{name} is for --checkpoints: add it, or leave --{name} out.")
    if not values.translation or not values.reference:
        raise FlagError(
            "--translation and --reference are needed, or --checkpoints and --output_dir; see"
            f" {COMMAND} --help."
        )
    from ut_tf.evaluation.parallel_sets import read_reference

    paths = [expanded(values.translation), *files(values.reference)]
    texts = [read_reference(path) for path in paths]
    check_lines(len(texts[0]), [len(lines) for lines in texts[1:]], [str(path) for path in paths])
    scores = corpus_scores(texts[0], texts[1:], variants, values.tokenize, values.ter, advise=True)
    if values.rouge:
        from ut_tf.metrics.rouge import rouge_scores

        scores |= rouge_scores(texts[0], texts[1:])
    print(scores_table(scores))


def _score_run(values: Any) -> None:
    if not values.output_dir or values.translation:
        raise FlagError(
            "--checkpoints needs --output_dir, and no --translation: the checkpoints write them."
        )
    if bool(values.source) != bool(values.reference):
        raise FlagError(
            "--source and --reference belong together: give both, or neither for the problem's own"
            " text."
        )
    for name in ("ter", "rouge"):
        if values[name].value:
            raise FlagError(f"--{name} is for --translation: leave it out.")
    steps = flags.integers(values.steps, "steps")
    check_tokenizer(values.tokenize)
    run = Run.load(
        values.output_dir, data_dir=values.data_dir, tmp_dir=values.tmp_dir, usr_dir=values.usr_dir
    )
    config = decode_config(values.decode_hparams)
    check_split(values.split, run.problem)
    there = _checkpoints(run, steps)
    # The user's files are read before TensorFlow is imported: a wrong name is answered at once.
    texts = parallel_set(run, values) if values.source else None
    import_tensorflow()
    from ut_tf.evaluation.bleu_curve import score_checkpoints
    from ut_tf.evaluation.parallel_sets import check_one_text

    with stdout_to_stderr():
        check_one_text(run)
        texts = parallel_set(run, values) if texts is None else texts
        print(
            f"{COMMAND}: {len(texts.sources)} sentences of {texts.name}, {len(steps or there)}"
            f" checkpoints of {run.output_dir}"
        )
    print(_HEADER, flush=True)
    for row in score_checkpoints(run, steps or there, texts, config, tokenize=values.tokenize):
        print(_line(row), flush=True)


def _checkpoints(run: Run, steps: Sequence[int]) -> list[int]:
    """The steps of all checkpoints of a run; raises UserError where there are none, or one of those
    that were asked for is missing.
    """
    there = checkpoint_steps(run.output_dir)
    missing = [step for step in steps if step not in there]
    if missing:
        raise UserError(
            f"{run.output_dir} has no checkpoint of step {missing[0]}: expected some of {there}."
        )
    if not there:
        raise UserError(f"{run.output_dir} has no checkpoint yet: train first.")
    return there


_HEADER = f"{'step':>10}  {'BLEU_uncased':>12}  {'BLEU_cased':>10}  {'chrF2':>6}"


def _line(row: Row) -> str:
    scores = row.scores
    known = "  (known)" if row.known else ""
    return (
        f"{row.step:>10}  {scores['bleu_uncased']:>12.2f}  {scores['bleu_cased']:>10.2f} "
        f" {scores['chrf']:>6.2f}{known}"
    )


if __name__ == "__main__":
    sys.exit(main())
