"""All ways in which a text reaches a model, with one untrained model and one export of it.

How it is used::

    ways = Ways(TABLE, folder, monkeypatch)
    ways.signature([("1 2",), ("1x2",)])     # [Told("222", -8.9), Told(error="'1x2' is not ...")]

Each way takes examples and returns what is told about each. Those of ``MIXED`` and ``MIXED_SCORES``
answer some examples of a call and refuse others; of the others a call ends with what it refuses.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import keras
import numpy as np
import pytest
import requests
import tensorflow as tf

from tests.serving.python_model import served
from tests.spellings.table import Example, Table, untrained
from ut_tf.bin import decoder, query, show
from ut_tf.errors import UserError
from ut_tf.inference.text_files import one_line
from ut_tf.inference.translator import Translator
from ut_tf.insights import thinker
from ut_tf.notices import printable
from ut_tf.search.config import DecodeConfig
from ut_tf.serving.batching import Batcher
from ut_tf.serving.export import export_run
from ut_tf.serving.served_model import ServedModel
from ut_tf.sharing.loading import LoadedModel
from ut_tf.storage.checkpoints import CheckpointStore

TINY = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,halting=none"
DECODE = DecodeConfig(beam_size=1, extra_length=2, max_input_length=100)
MIXED = ("signature", "rows_of_rest", "columns_of_rest", "ut_query", "ut_decoder", "ut_show")
ALONE = ("answer", "translate", "rows_of_rest", "ut_decoder_file")
# A call of them costs next to nothing.
QUICK = ("answer", "score")
MIXED_SCORES = ("score_signature", "score_rows_of_rest", "score_ut_query")
ALONE_SCORES = ("score", "score_ut_decoder")
_BEFORE = re.compile(r"^(ut-\w+: error: )?(((the|standard) input|\S+), )?(line|example) \d+: ")
_UNKNOWN = "read as unknown"
_ENDS = "ut-show: error: "
LINES = {
    "lines_of_query": "ut_query",
    "typed_lines": "ut_decoder",
    "lines_of_file": "ut_decoder_file",
    "shown_lines": "ut_show",
}
_BEHIND = re.compile(r"(; correct the line)?\.$")
_LINE = re.compile(r"(?:, line |example )(\d+)")


class Told(NamedTuple):
    """What is told about an example: what is answered, and its score where the way gives it; or an
    error.
    """

    text: str = ""
    score: float | None = None
    error: str = ""


class Ways:
    """The ways in which texts reach a table's model.

    Args:
      table: names the problem.
      folder: for the run and the export.
      monkeypatch: of the test.
    """

    def __init__(self, table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = table
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._open = contextlib.ExitStack()
        self.run = untrained(table, folder, TINY)
        keras.utils.set_random_seed(7)
        model = self.run.make_model()
        for weight in model.trainable_variables:
            weight.assign(tf.random.normal(weight.shape))
        store, state = CheckpointStore(self.run.output_dir), {"best_step": 1, "averaged": False}
        store.save(1, tf.train.Checkpoint(model=model), state)
        self.loaded = LoadedModel(self.run, model, DECODE)
        self.translator = self.loaded.translator
        self.codec = self.translator.codec
        self.is_language_model = not self.codec.fields
        has_scores = table.targets in ("tokens", "aligned")
        self.has_scores = has_scores and bool(table.reads_targets)
        self._default = "generate" if self.is_language_model else "serving_default"
        self._fields = self.codec.fields or ("inputs",)
        signatures = [self._default, *(["score"] if self.has_scores else [])]
        export = export_run(
            self.run, folder / "export", decode=DECODE, signatures=signatures, warmup=False
        )
        self._served = ServedModel(export, 1)
        self._server = self._open.enter_context(
            served(self._served, batcher=Batcher(max_batch_size=8))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def takes(self, name: str) -> Callable[[Example], bool]:
        """Whether a way takes an example: commands read lines, and ut-show shows no blank ones."""
        if self.is_language_model and name == "ut_decoder":
            return lambda _: False
        if not name.startswith(("ut_", "score_ut_")):
            return lambda _: True
        if name.startswith("score_"):
            marks = {*("\t\n" if name == "score_ut_query" else "\t")}
            return lambda pair: not any(marks & {*text} for text in pair)
        return lambda example: (
            self.table.line(example) is not None
            and (name != "ut_show" or any(_whole(text).strip() for text in example))
        )

    def answer(self, examples: Sequence[Example]) -> list[Told]:
        """``LoadedModel.answer`` and ``answers``."""
        if len(examples) == 1:
            return [Told(self.loaded.answer(*examples[0]))]
        return [Told(text) for text in self.loaded.answers(examples)]

    def translate(self, examples: Sequence[Example]) -> list[Told]:
        """``Translator.translate``."""
        found = self.translator.translate(examples)
        return [Told(best.text, best.score) for best, *_ in found]

    def signature(self, examples: Sequence[Example]) -> list[Told]:
        """The SavedModel."""
        outputs = self._served.answer(self._default, _columns(self._fields, examples))
        return [_of_outputs(row) for row in _rows(outputs)]

    def rows_of_rest(self, examples: Sequence[Example]) -> list[Told]:
        """ut-serve: one JSON object for each example, every other text as base64."""
        return self._rows_of_rest(self._default, self._fields, examples)

    def columns_of_rest(self, examples: Sequence[Example]) -> list[Told]:
        """ut-serve: one JSON list for each field."""
        columns = {
            name: [example[place] for example in examples]
            for place, name in enumerate(self._fields)
        }
        outputs = self._post({"signature_name": self._default, "inputs": columns})["outputs"]
        rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
        return [_of_outputs(row) for row in rows]

    def ut_query(self, examples: Sequence[Example]) -> list[Told]:
        """ut-query, which tells of the lines that are refused, and goes on."""
        return self.lines_of_query(self._lines(examples))

    def ut_decoder(self, examples: Sequence[Example]) -> list[Told]:
        """ut-decoder as lines are typed."""
        return self.typed_lines(self._lines(examples))

    def ut_decoder_file(self, examples: Sequence[Example]) -> list[Told]:
        """ut-decoder of a file."""
        return self.lines_of_file(self._lines(examples))

    def ut_show(self, examples: Sequence[Example]) -> list[Told]:
        """ut-show: all that it prints about each example, such as its bars."""
        blocks, refused = self._show(self._lines(examples))
        told, line = [], 0
        for example in examples:
            begin, line = line, line + (self.table.line(example) or "").count("\n") + 1
            error = next((refused[n] for n in range(begin + 1, line + 1) if n in refused), None)
            told.append(error or blocks.pop(0))
        assert not blocks
        return told

    def lines_of_query(self, text: str) -> list[Told]:
        """ut-query: what it tells about each example in some lines."""
        return self._query(self._default, text)

    def typed_lines(self, text: str) -> list[Told]:
        """ut-decoder as lines are typed: it tells of those that are refused, and goes on."""
        _, lines = self._decode(text, "--decode_interactive")
        return [_of_line(line) for line in lines]

    def lines_of_file(self, text: str) -> list[Told]:
        """ut-decoder of a file."""
        flag = "prompt_file" if self.is_language_model else "decode_from_file"
        return self._decode_file(flag, text)

    def shown_lines(self, text: str) -> list[Told]:
        """ut-show: what it prints about each example, and of those that are refused."""
        blocks, refused = self._show(text)
        return [*blocks, *refused.values()]

    def score(self, pairs: Sequence[Example]) -> list[Told]:
        """``Translator.score`` of examples whose last text is the target."""
        sources, targets = [pair[:-1] for pair in pairs], [pair[-1] for pair in pairs]
        return [Told(score=score) for score in self.translator.score(sources, targets)]

    def score_signature(self, pairs: Sequence[Example]) -> list[Told]:
        """The SavedModel."""
        outputs = self._served.answer("score", _columns(self._with_targets, pairs))
        return [_of_outputs(row) for row in _rows(outputs)]

    def score_rows_of_rest(self, pairs: Sequence[Example]) -> list[Told]:
        """ut-serve."""
        return self._rows_of_rest("score", self._with_targets, pairs)

    def score_ut_query(self, pairs: Sequence[Example]) -> list[Told]:
        """ut-query."""
        return self._query("score", "".join("\t".join(pair) + "\n" for pair in pairs))

    def score_ut_decoder(self, pairs: Sequence[Example]) -> list[Told]:
        """ut-decoder --score_file."""
        rows = ["\t".join(_whole(text).replace("\n", r"\n") for text in pair) for pair in pairs]
        told = self._decode_file("score_file", "".join(f"{row}\n" for row in rows))
        return [Told(score=float(row.text)) for row in told]

    @property
    def _with_targets(self) -> tuple[str, ...]:
        return (*self.codec.fields, "targets")

    def _lines(self, examples: Sequence[Example]) -> str:
        return "".join(f"{self.table.line(example)}\n" for example in examples)

    def _rows_of_rest(
        self, signature: str, fields: Sequence[str], examples: Sequence[Example]
    ) -> list[Told]:
        instances = [
            dict(zip(fields, map(_as_base64 if odd else _as_it_is, example), strict=True))
            for example, odd in zip(examples, [False, True] * len(examples), strict=False)
        ]
        answer = self._post({"signature_name": signature, "instances": instances})
        return [_of_outputs(row) for row in answer["predictions"]]

    def _post(self, body: dict[str, Any]) -> Any:
        url = f"{self._server.address}/v1/models/toy:predict"
        reply = requests.post(url, data=json.dumps(body), timeout=30)
        if reply.status_code == 400:
            raise UserError(reply.json()["error"])
        assert reply.status_code == 200, reply.text
        return reply.json()

    def _show(self, text: str) -> tuple[list[Told], dict[int, Told]]:
        """What ut-show prints about each example, and what it refuses, by line."""
        argv = [f"--output_dir={self.run.output_dir}", f"--data_dir={self._folder}"]
        with self._quickly():
            _, lines = self._call(show.main, text, *argv)
        refusals = [line for line in lines if line.endswith(" is left out.") or _ENDS in line]
        refused = {int(_LINE.search(line)[1]): _of_line(line) for line in refusals}
        printed = [line for line in lines if not line.startswith(("warning: ", "ut-show: "))]
        blocks = "\n".join(printed).split("\n\n")
        # The first one is the title.
        return [Told(block) for block in blocks[1:]], refused

    def _query(self, signature: str, text: str) -> list[Told]:
        text = _without_inner_cr(text)
        argv = [f"--server={self._server.address}", "--model_name=toy", f"--signature={signature}"]
        _, lines = self._call(query.main, text, *argv, "--json")
        answers = [line for line in lines if line.startswith("{")]
        told = [_of_outputs(json.loads(line)) for line in answers]
        errors = [_of_line(line).error for line in lines if line.startswith("ut-query: error: ")]
        if not answers and errors:
            raise UserError(f"{errors[0]}.")
        assert errors == [row.error for row in told if row.error], lines
        return told

    def _decode(self, text: str, *argv: str) -> tuple[int, list[str]]:
        with self._quickly():
            return self._call(decoder.main, text, f"--output_dir={self.run.output_dir}", *argv)

    def _decode_file(self, flag: str, text: str) -> list[Told]:
        text = _without_inner_cr(text)
        (self._folder / "lines.txt").write_text(text, encoding="utf-8")
        status, lines = self._decode("", f"--{flag}={self._folder / 'lines.txt'}")
        if status:
            raise UserError(f"{_of_line(lines[-1]).error}.")
        return [Told(line) for line in lines if not line.startswith("ut-decoder: ")]

    def _call(self, main: Callable[..., int], text: str, *argv: str) -> tuple[int, list[str]]:
        """A command's status, and the lines that it writes, those of both streams in order, but
        for warnings about words.
        """
        written = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True, newline="\n")
        stdin = types.SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False)
        with self._monkeypatch.context() as patch:
            for name, stream in (("stdin", stdin), ("stdout", written), ("stderr", written)):
                patch.setattr(sys, name, stream)
            status = main([*argv])
        lines = written.buffer.getvalue().decode().split("\n")[:-1]
        unknown = [line for line in lines if line.startswith("warning: ") and _UNKNOWN in line]
        return status, [line for line in lines if line not in unknown]

    @contextlib.contextmanager
    def _quickly(self) -> Iterator[None]:
        """ut-decoder takes the translator whose graphs are traced, ut-show traces its own once."""
        with self._monkeypatch.context() as patch:
            patch.setattr(Translator, "from_run", lambda *_: self.translator)
            patch.setattr(show._Show, "_print_continuations", lambda *_: None)
            patch.setattr(thinker, "_EAGER", 0)
            yield


def sentence(message: str) -> str:
    """The sentence about an example, without the place in front of it and the advice behind it, and
    without blanks, since a sentence on a screen is one line.
    """
    plain = _BEHIND.sub("", _BEFORE.sub("", message))
    return " ".join(one_line(printable(plain)).split())


def _of_line(line: str) -> Told:
    if line.startswith(("ut-", "warning: ")):
        said = line.removeprefix("warning: ").removesuffix(" This line is left out.")
        return Told(error=sentence(said.removesuffix(" This story is left out.")))
    return Told(line)


def _of_outputs(row: dict[str, Any]) -> Told:
    row = {name: _plain(value) for name, value in row.items()}
    if row["error"]:
        return Told(error=sentence(row["error"]))
    score = row.get("scores", row.get("log_probabilities"))
    if "probability" in row:
        score = float(np.log(row["probability"] or 1.0))
    return Told(row.get("outputs", ""), score)


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _rows(outputs: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]


def _columns(fields: Sequence[str], examples: Sequence[Example]) -> dict[str, list[bytes]]:
    return {
        name: [_whole(example[place]).encode() for example in examples]
        for place, name in enumerate(fields)
    }


def _whole(text: str | Sequence[str]) -> str:
    """The text of a field; one of lines may be a list."""
    return text if isinstance(text, str) else "\n".join(text)


def _as_it_is(value: Any) -> Any:
    return value


def _as_base64(value: Any) -> Any:
    encoded = base64.b64encode(value.encode()).decode() if isinstance(value, str) else None
    return value if encoded is None else {"b64": encoded}


def _without_inner_cr(lines: str) -> str:
    # Files are refused for a CR inside of a line, whatever the problem: test_line_ends.py.
    return re.sub(r"\r(?!\n)", "", lines)
