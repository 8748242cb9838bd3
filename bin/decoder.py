"""ut-decoder: answers lines of text with a trained run; needs nothing but its directory.

``ut-decoder --output_dir=runs/ende --decode_from_file=news.en --decode_to_file=news.de``
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf.bin.decoded_output import unwritable, writable, write
from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import (
    InputError,
    entry_point,
    import_tensorflow,
    is_typed,
    prompted,
    refuse_overwriting,
    standard_input,
    stdout_to_stderr,
    tell,
)
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flag_values import decode_config
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import evaluation_line, load_run
from ut_tf.data.apache_beam_runner import require_beam
from ut_tf.data.chunks import chunks
from ut_tf.errors import UserError, counted
from ut_tf.inference.text_files import (
    input_lines,
    output_line,
    read_input,
    scored_lines,
    scored_pairs,
    shard_path,
    share,
    translated_lines,
)
from ut_tf.inference.unknown_words import UnknownWords
from ut_tf.notices import printable
from ut_tf.paths import absolute, expanded
from ut_tf.run import LARGEST_SEED
from ut_tf.storage.find_checkpoint import check_checkpoint
from ut_tf.storage.folders import refusal_to_write
from ut_tf.storage.layout import LOCK_FILE
from ut_tf.storage.locks import exclusive

if TYPE_CHECKING:
    from ut_tf.inference.example_reader import Texts
    from ut_tf.inference.translator import Translator
    from ut_tf.run import Run
    from ut_tf.search.config import DecodeConfig

COMMAND, DESCRIPTION, FLAGS = declaration("decoder")

_STANDARD_INPUT = "-"
_SEEN_AT_ONCE = 512
_NEEDED_FILES = "a --decode_from_file, --prompt_file or --score_file, and a --decode_to_file."


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    _check(values)
    source = _source(values)
    on_beam = bool(values.beam_pipeline_options)
    lines = read_input(expanded(source)) if source and not on_beam else None
    run = load_run(values).in_use(values.hparams)
    _check_prompts(run, values)
    config = decode_config(values.decode_hparams)
    if on_beam:
        require_beam()
        import_tensorflow()
        _answer_on_beam(run, config, values)
        return
    check_checkpoint(run.output_dir, values.checkpoint)
    import_tensorflow()
    from ut_tf.inference.translator import READ_AHEAD, Translator

    interactive = values.decode_interactive or (
        lines is None and not values.decode_to_file and is_typed()
    )
    if interactive:
        config = dataclasses.replace(config, batch_size=1)
    with stdout_to_stderr():
        translator = Translator.from_run(
            run, values.checkpoint, config, values.random_seed, 1 if interactive else READ_AHEAD
        )
    if interactive:
        _interact(translator)
        return
    answers, total = (
        _score(translator, lines or [], values)
        if values.score_file
        else _decode(translator, lines, values)
    )
    write(COMMAND, answers, _destination(values), total)
    if values.decode_to_file and values.output_dir:
        line = evaluation_line(values.output_dir, values.usr_dir, command="ut-exporter")
        print(f"next: {line}", file=sys.stderr)


def _check(values: Any) -> None:
    if values.decode_shards < 1 or not 0 <= values.shard < values.decode_shards:
        raise FlagError(
            f"--shard={values.shard} of --decode_shards={values.decode_shards}: expected a share"
            " from 0 to the number of shares less 1."
        )
    if not 0 <= values.random_seed <= LARGEST_SEED:
        raise FlagError(
            f"--random_seed={values.random_seed}: expected a whole number from 0 to {LARGEST_SEED}."
        )
    given = [
        name
        for name in ("decode_from_file", "score_file", "prompt_file", "decode_interactive")
        if values[name].value
    ]
    if len(given) > 1:
        raise FlagError(f"--{given[0]} and --{given[1]} each say what to read: give one of them.")
    if values.decode_shards > 1 and not (values.decode_to_file and _source(values)):
        raise FlagError(f"--decode_shards={values.decode_shards} needs files: {_NEEDED_FILES}")
    if values.decode_interactive and values.decode_to_file:
        raise FlagError("--decode_interactive answers on the screen: leave --decode_to_file out.")
    _check_beam(values)
    source, destination = _source(values), _destination(values)
    refuse_overwriting("decode_to_file", destination, [expanded(source)] if source else [])
    if destination is not None:
        if os.path.isdir(destination):
            raise FlagError(f"--decode_to_file={destination} is a folder: name a file.")
        # What is there, such as /dev/stdout, may be written in a folder that may not.
        if not os.path.lexists(destination) and (reason := refusal_to_write(destination.parent)):
            raise unwritable(destination, reason)


def _check_beam(values: Any) -> None:
    if not values.beam_pipeline_options:
        return
    if not (values.decode_to_file and _source(values)):
        raise FlagError(f"--beam_pipeline_options needs files: {_NEEDED_FILES}")
    if values.decode_shards > 1:
        raise FlagError(
            "--beam_pipeline_options divides the input among workers itself: leave --decode_shards"
            " out."
        )


def _check_prompts(run: Run, values: Any) -> None:
    """A language model is given prompts, or texts to score; others are given neither for the other.

    Raises:
      FlagError: the flags name another kind of input than the model's.
    """
    is_language_model = run.spec is not None and run.spec.inputs == "none"
    if is_language_model and not (values.prompt_file or values.score_file):
        raise FlagError(
            f"{run.problem} is a language model, which has no inputs to answer: --prompt_file=FILE"
            " (- is standard input) has its lines continued, --score_file=FILE has them scored."
        )
    if values.prompt_file and not is_language_model:
        raise FlagError(
            f"--prompt_file={values.prompt_file}: {run.problem} is no language model: give what it"
            " answers as --decode_from_file."
        )


def _source(values: Any) -> str | None:
    """The name of the file that is read; None: standard input."""
    name: str | None = values.score_file or values.decode_from_file or values.prompt_file
    return None if name == values.prompt_file == _STANDARD_INPUT else name


def _destination(values: Any) -> Path | None:
    if not values.decode_to_file:
        return None
    return shard_path(expanded(values.decode_to_file), values.decode_shards, values.shard)


def _decode(
    translator: Translator, lines: list[str] | None, values: Any
) -> tuple[Iterator[str], int | None]:
    """One line for each example of the input, and their number where that is known."""
    codec = translator.codec
    if lines is None:
        # Lines are answered while others are still to come, so their number is not known.
        texts: Iterable[Texts] = codec.read(
            input_lines(standard_input(), "standard input"), "standard input"
        )
        answers = translated_lines(translator, texts, 1, "standard input")
        return telling_of_blanks(answers), None
    name = _source(values) or ""
    examples, first = share(list(codec.read(lines, name)), values.decode_shards, values.shard)
    answers = translated_lines(translator, examples, first, name)
    return telling_of_blanks(answers), len(examples)


def telling_of_blanks(answers: Iterable[str]) -> Iterator[str]:
    """The answers as they are; then a note, where most are blank.

    Training that has hardly begun gives such answers, and nothing else says so.
    """
    blank = count = 0
    for answer in answers:
        count += 1
        blank += not answer.strip()
        yield answer
    if 2 * blank > count:
        tell(
            COMMAND,
            f"blank answers: {blank} of {count}. A model that was trained for too few steps gives"
            " them to lines that are not blank; ut-eval says how good it is.",
        )


def _score(translator: Translator, lines: list[str], values: Any) -> tuple[Iterator[str], int]:
    pairs, first = share(
        scored_pairs(translator.codec, lines, values.score_file), values.decode_shards, values.shard
    )
    return scored_lines(translator, pairs, first, values.score_file), len(pairs)


def _answer_on_beam(run: Run, config: DecodeConfig, values: Any) -> None:
    from ut_tf.inference.apache_beam_answers import BeamJob

    # Workers have other working folders.
    job = BeamJob(
        run.output_dir,
        str(absolute(values.usr_dir)) if values.usr_dir else None,
        values.hparams,
        values.checkpoint,
        config,
        values.random_seed,
        absolute(_source(values) or ""),
        absolute(values.decode_to_file),
        bool(values.score_file),
    )
    with stdout_to_stderr(), contextlib.ExitStack() as locked:
        codec = run.text_codec()
        examples, words = job.examples(codec), UnknownWords(codec, _source(values))
        for some in chunks(examples, _SEEN_AT_ONCE):
            words.see(texts for texts, _ in some)
        words.finish()
        count = len(examples)
        with writable(job.folder):
            locked.enter_context(exclusive(job.folder / LOCK_FILE))
            job.keep_checkpoint()
        waiting = job.answer(count, values.beam_pipeline_options)
        with writable(job.destination):
            job.join(count)
    shards = counted(len(job.files(count)), "shard")
    tell(COMMAND, f"{counted(count, 'line')} in {shards}, {waiting} of them answered now")


def _interact(translator: Translator) -> None:
    """Answers each example as soon as it is read; a line that is not of the problem's format gets
    its error, and the next one is read.
    """
    lines: Iterator[str] = input_lines(standard_input(), "standard input")
    if is_typed():
        lines = prompted(lines)
    count = 0
    while True:
        try:
            for texts in translator.codec.read(lines, "standard input"):
                count += 1
                for hypothesis in next(translator.translate([texts], count, "standard input")):
                    line = output_line([hypothesis], translator.config.write_beam_scores)
                    print(printable(line), flush=True)
            return
        except InputError:
            raise
        except UserError as error:
            tell(COMMAND, f"error: {error}")


if __name__ == "__main__":
    sys.exit(main())
