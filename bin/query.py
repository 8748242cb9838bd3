"""ut-query: sends lines of text to a served model and prints its answers.

``ut-query --server=http://localhost:8501 --model_name=ende < lines.txt``
"""

import io
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import (
    EXIT_USER_ERROR,
    entry_point,
    is_typed,
    prompted,
    standard_input,
    tell,
)
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flags import FlagError
from ut_tf.errors import UserError, counted
from ut_tf.inference.text_files import input_lines, one_line, read_input
from ut_tf.notices import printable, warn
from ut_tf.paths import expanded
from ut_tf.problems.babi.lines import questions
from ut_tf.serving.rest_client import LONGEST_TIMEOUT, RefusedError, RestClient
from ut_tf.serving.rest_messages import ERROR, WARNING

COMMAND, DESCRIPTION, FLAGS = declaration("query")


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> int:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    if values.batch_size <= 0:
        raise FlagError(f"--batch_size={values.batch_size}: expected a number above 0.")
    if not 0 < values.timeout <= LONGEST_TIMEOUT:
        raise FlagError(
            f"--timeout={values.timeout}: expected a number of seconds above 0, at most"
            f" {LONGEST_TIMEOUT:.0f}."
        )
    if values.model_version is not None and values.model_version < 0:
        raise FlagError(f"--model_version={values.model_version}: expected a whole number from 0.")
    path, text = values.decode_from_file, values.input
    if path and text is not None:
        raise FlagError("--input and --decode_from_file each say what to send: give one of them.")
    typed = not path and text is None and is_typed()
    name = path or ("standard input" if text is None else "--input")
    given = None if text is None else io.BytesIO(f"{text}\n".encode(errors="surrogateescape"))
    lines = read_input(expanded(path)) if path else input_lines(given or standard_input(), name)
    client = RestClient(values.server, values.model_name, values.model_version, values.timeout)
    examples = _examples(prompted(lines) if typed else lines, name, client.inputs(values.signature))
    status = 0
    while batch := list(itertools.islice(examples, 1 if typed else values.batch_size)):
        predictions = _predictions(client, [texts for _, texts in batch], values.signature)
        for (count, _), prediction in zip(batch, predictions, strict=True):
            if error := _told(prediction, ERROR):
                tell(COMMAND, f"error: {name}, line {count}: {error}; correct the line.")
                status = EXIT_USER_ERROR
            if warning := _told(prediction, WARNING):
                warn(f"{name}, line {count}: {warning}.")
            # A server may send what a terminal would take for orders.
            print(printable(_line(prediction, values.json)), flush=True)
    return status


def _predictions(
    client: RestClient, examples: list[dict[str, str]], signature: str
) -> Sequence[Any]:
    """The answers to examples; that to one which is refused is the error alone."""
    try:
        return client.predict(examples, signature)
    except RefusedError as error:
        if len(examples) > 1:
            raise
        return [{"outputs": "", ERROR: error.reason}]


def _told(prediction: Any, name: str) -> str:
    """What an answer's output of this name says; empty where it has none."""
    text = prediction.get(name) if isinstance(prediction, dict) else None
    return one_line(text).removesuffix(".") if isinstance(text, str) else ""


def _line(prediction: Any, as_json: bool) -> str:
    try:
        return json.dumps(prediction, ensure_ascii=False) if as_json else answer_line(prediction)
    except RecursionError:
        raise UserError(
            "the server's answer has too many levels: is this TensorFlow Serving's REST port?"
        ) from None


def answer_line(prediction: Any) -> str:
    """The line of a prediction: its outputs with tabs between, or its only value, or one JSON
    object; empty where it has an error.
    """
    if _told(prediction, ERROR):
        return ""
    value = prediction
    if isinstance(prediction, dict):
        others = {k: v for k, v in prediction.items() if k not in (ERROR, WARNING)}
        value = next(iter(others.values())) if len(others) == 1 else others
        value = prediction.get("outputs", value)
    if isinstance(value, float):
        return f"{value:.6f}"
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        return "\t".join(map(one_line, texts))
    return json.dumps(value, ensure_ascii=False)


def _examples(
    lines: Iterable[str], name: str, inputs: tuple[str, ...]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the line and the inputs of each example, by their names.

    Raises:
      UserError: a line does not hold what the signature takes.
    """
    if inputs == ("story", "question"):
        for count, *texts in questions(lines, name):
            yield count, dict(zip(inputs, texts, strict=True))
        return
    for count, line in enumerate(lines, start=1):
        texts = line.split("\t") if len(inputs) > 1 else [line]
        if not line.strip() and "targets" not in inputs:
            texts = [""] * len(inputs)
        if len(texts) != len(inputs):
            raise UserError(
                f"{name}, line {count}: expected {', '.join(inputs)} with a tab between, got"
                f" {counted(len(texts), 'text')}; mend the line."
            )
        yield count, dict(zip(inputs, texts, strict=True))


if __name__ == "__main__":
    sys.exit(main())
