"""ut-translate-all: averages a run's checkpoints, translates with the mean, and scores the
translation, in one step.

``ut-translate-all --output_dir=runs/ende``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import (
    entry_point,
    import_tensorflow,
    refuse_overwriting,
    scores_table,
    stdout_to_stderr,
)
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flag_values import (
    check_choice,
    check_split,
    chosen_variants,
    decode_config,
    default_destination,
    files,
    parallel_set,
    with_chosen_steps,
)
from ut_tf.bin.frame.flags import FlagError
from ut_tf.inference.shards import line_bytes
from ut_tf.inference.text_files import Speed, one_line
from ut_tf.metrics.bleu import check_tokenizer, corpus_scores
from ut_tf.paths import absolute, expanded
from ut_tf.run import Run
from ut_tf.storage.files import open_to_write
from ut_tf.storage.find_checkpoint import check_checkpoint
from ut_tf.storage.folders import check_writable
from ut_tf.storage.layout import TRANSLATIONS_FOLDER

if TYPE_CHECKING:
    from ut_tf.inference.translator import Translator

COMMAND, DESCRIPTION, FLAGS = declaration("translate_all")


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    check_choice(values)
    variants = chosen_variants(values.bleu_variant)
    if values.reference and not values.source:
        raise FlagError(f"--reference={values.reference} needs the --source that it translates.")
    read = files(values.reference or "") + ([expanded(values.source)] if values.source else [])
    named = expanded(values.translation) if values.translation else None
    refuse_overwriting("translation", named, read)
    if values.reference or not values.source:
        check_tokenizer(values.tokenize)
    run = Run.load(
        values.output_dir, data_dir=values.data_dir, tmp_dir=values.tmp_dir, usr_dir=values.usr_dir
    )
    check_checkpoint(run.output_dir, "last")
    check_split(values.split, run.problem)
    config = decode_config(values.decode_hparams)
    if named:
        # Before the mean is written, which a refused command would leave behind.
        check_writable(absolute(named).parent, "translation")
    # The user's files are read before TensorFlow is imported: a wrong name is answered at once.
    texts = parallel_set(run, values) if values.source else None
    import_tensorflow()
    from ut_tf.evaluation.parallel_sets import check_one_text
    from ut_tf.inference.translator import Translator

    with stdout_to_stderr():
        check_one_text(run)
        texts = parallel_set(run, values) if texts is None else texts
        averaged = _averaged(run, values)
        path = named or averaged.output_dir / TRANSLATIONS_FOLDER / texts.name
        refuse_overwriting("translation", path, read)
        translator = Translator.from_run(averaged, "last", config)
        written = _translate(translator, texts.sources, path, is_named=named is not None)
    if texts.references:
        print(
            scores_table(
                corpus_scores(written, texts.references, variants, values.tokenize, values.ter)
            )
        )
    print(f"translation: {path}")


def _translate(
    translator: Translator, sources: Sequence[str], path: Path, is_named: bool
) -> list[str]:
    """Writes the translation of each sentence to a file as soon as it is there, and returns them
    all.
    """
    from ut_tf.storage.disk_errors import disk_errors

    speed = Speed(COMMAND, len(sources))
    written = []
    with disk_errors(path, advice="name another --translation, or change the permissions there"):
        path.parent.mkdir(parents=True, exist_ok=True)
        # In a folder of others, a link may lead out of it; what was named may be any.
        with path.open("wb") if is_named else open_to_write(path) as file:
            for hypotheses in translator.translate((source,) for source in sources):
                written.append(one_line(hypotheses[0].text))
                file.write(line_bytes(written[-1]))
                file.flush()
                speed.add()
    speed.finish()
    return written


def _averaged(run: Run, values: Any) -> Run:
    """The run with the mean of the chosen checkpoints; one of the same checkpoints that
    lies there already is used again.
    """
    from ut_tf.training.averaging import average_checkpoints, is_average

    def average(steps: list[int]) -> Path:
        destination = (
            expanded(values.avg_dir)
            if values.avg_dir
            else default_destination(run.output_dir, values, steps)
        )
        if not is_average(destination, run, steps):
            average_checkpoints(run, steps, destination)
        return destination

    steps, destination = with_chosen_steps(run, values, average)
    print(
        f"{COMMAND}: the mean of the checkpoints of steps {', '.join(map(str, steps))} is in"
        f" {destination}"
    )
    return Run.load(destination, usr_dir=values.usr_dir)


if __name__ == "__main__":
    sys.exit(main())
