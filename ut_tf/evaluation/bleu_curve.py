"""BLEU of every checkpoint of a run: a curve over the steps, in the run directory and in
TensorBoard.

Example::

    for row in score_checkpoints(run, [100, 200], problem_set(run, "test"),
        DecodeConfig(beam_size=4)):
        row.step, row.scores["bleu_cased"]

How it works: each figure is appended to ``<output_dir>/bleu.jsonl`` with all that decides it (step,
set, a digest of its text, options, tokeniser), and is not measured again. TensorBoard shows it
under ``bleu/<set>_cased`` and the like, at the checkpoint's step.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.evaluation.parallel_sets import ParallelSet
from ut_tf.inference.translator import Translator, check_vocabulary
from ut_tf.metrics.bleu import DEFAULT_TOKENIZER, VARIANTS, corpus_scores
from ut_tf.notices import warn
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.search.config import DecodeConfig
from ut_tf.storage.checkpoints import CheckpointGone
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.files import open_to_append
from ut_tf.storage.json_lines import objects, step_of
from ut_tf.storage.layout import EVENTS_FOLDER, SCORES_FILE

_ADVICE = "change its permissions, or copy the run to where you may write"
# Options that do not change what is written.
_WITHOUT_EFFECT = ("batch_size", "write_beam_scores")


@dataclass(frozen=True)
class Row:
    """A checkpoint's figures.

    Args:
      step: of the checkpoint.
      scores: by name: bleu_cased, bleu_uncased, chrf.
      known: whether they were measured by an earlier call.
    """

    step: int
    scores: dict[str, float]
    known: bool


def score_checkpoints(
    run: Run,
    steps: Sequence[int],
    texts: ParallelSet,
    config: DecodeConfig,
    seed: int = 0,
    tokenize: str = DEFAULT_TOKENIZER,
) -> Iterator[Row]:
    """Yields the figures of each checkpoint of `steps`, as soon as it is measured. One that a
    training has removed meanwhile is left out, with a warning.

    Args:
      run: trained.
      steps: of the checkpoints.
      texts: sentences and references.
      config: how the sentences are decoded.
      seed: of sampling.
      tokenize: sacrebleu's tokeniser.

    Raises:
      UserError: a checkpoint is damaged, the vocabulary is not that of the training, or
        the problem has no text form.
    """
    path = run.output_dir / SCORES_FILE
    key = {
        "set": texts.name,
        "text": texts.digest,
        "decode": _deciding(config),
        "seed": seed,
        "tokenize": tokenize,
    }
    known = _known(path, key)
    model, translator = None, None
    for step in steps:
        if step in known:
            yield Row(step, known[step], known=True)
            continue
        if translator is None:
            codec = run.text_codec()
            model = run.make_model()
            check_vocabulary(codec, run)
            translator = Translator(model, codec, config, seed)
        try:
            restore_weights(model, run, str(step))
        except CheckpointGone as gone:
            warn(f"step {step} is left out: {gone}")
            continue
        written = [
            best[0].text for best in translator.translate((source,) for source in texts.sources)
        ]
        measured = corpus_scores(written, texts.references, VARIANTS, tokenize)
        scores = {name: score.value for name, score in measured.items()}
        with (
            disk_errors(path, advice=_ADVICE),
            open_to_append(path) as file,
        ):
            file.write((json.dumps({"step": step, **key, **scores}) + "\n").encode())
        _show(
            run.output_dir,
            step,
            {
                f"bleu/{texts.name}_{name.removeprefix('bleu_')}": value
                for name, value in scores.items()
            },
        )
        yield Row(step, scores, known=False)


def _deciding(config: DecodeConfig) -> dict[str, Any]:
    """The options that decide what is written."""
    return {name: value for name, value in config.to_dict().items() if name not in _WITHOUT_EFFECT}


def _known(path: Path, key: dict[str, Any]) -> dict[int, dict[str, float]]:
    """The figures by step that a file has under `key`; the last of a step counts."""
    known: dict[int, dict[str, float]] = {}
    names = (*(f"bleu_{variant}" for variant in VARIANTS), "chrf")
    for values in objects(path):
        step, decode = step_of(values), values.get("decode", {})
        scores = {name: values[name] for name in names if isinstance(values.get(name), int | float)}
        if step is None or not isinstance(decode, dict) or len(scores) < len(names):
            continue
        # Versions that had fewer options of decoding stored fewer.
        values["decode"] = {**_deciding(DecodeConfig()), **decode}
        if {name: values.get(name) for name in key} == key:
            known[step] = scores
    return known


def _show(output_dir: Path, step: int, values: dict[str, float]) -> None:
    # A writer for each checkpoint: TensorBoard shows the figure at once, also where a later one
    # fails.
    writer = tf.summary.create_file_writer(str(output_dir / EVENTS_FOLDER), filename_suffix=".bleu")
    with writer.as_default(step=step):
        for name, value in values.items():
            tf.summary.scalar(name, value)
    writer.close()
