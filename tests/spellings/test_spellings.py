"""One reading everywhere: what a codec reads and refuses is the same in every way in.

Each codec has a table: spellings and what they are read as, or a part of the sentence that refuses
them. A new codec joins with a table in ``TABLES``.
"""

from __future__ import annotations

import io
import itertools
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import requests
import tensorflow as tf

from tests.inference.test_translator import Echo, Oracle
from tests.serving.python_model import PythonModel, served
from tests.spellings import digits, programs, stories, subwords, words
from tests.spellings.table import FEWEST, Example, Spellings, Table, as_example, untrained
from tests.spellings.ways import (
    ALONE,
    ALONE_SCORES,
    LINES,
    MIXED,
    MIXED_SCORES,
    QUICK,
    TINY,
    Told,
    Ways,
    sentence,
)
from ut_tf.bin import query
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.inference.translator import Translator
from ut_tf.insights.positions import IdCodec
from ut_tf.problems.agreement.codec import _WordsCodec
from ut_tf.problems.algorithmic.problem import Algorithmic
from ut_tf.problems.babi.codec import StoryCodec
from ut_tf.search.config import DecodeConfig
from ut_tf.serving.served_model import ServedModel

TABLES = [
    *(digits.DIGITS, digits.SUMS, digits.BITS, digits.BOARDS, digits.FACTS, digits.MAZES),
    *(digits.PAIRS, digits.GRIDS, digits.BLANKS, digits.IDS),
    *(stories.STORIES, words.SENTENCES, words.NUMBERS, words.PASSAGE_TEXTS, words.PASSAGES),
    *(programs.PROGRAMS, subwords.TRANSLATIONS, subwords.TENSOR2TENSOR),
    *(subwords.CLASSES, subwords.LINES),
]
_ACCURACY, _SHOWN, _FEW = 1e-4, 12, 4
Way = Callable[[Sequence[Example]], list[Told]]


# Symbols and subwords, symbols and classes: the others share what reads texts with these.
QUICK_TABLES = ("classes",)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(table, marks=[pytest.mark.slow] * (table.name not in QUICK_TABLES))
        for table in TABLES
    ],
    ids=lambda table: table.name,
)
def test_every_way_in_reads_and_refuses_alike(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table.size >= FEWEST
    with Ways(table, tmp_path, monkeypatch) as ways:
        faults = _faults_of(ways)
    assert not faults, "\n".join([f"{len(faults)} faults", *faults[:_SHOWN]])


def test_every_codec_has_a_table(tmp_path: Path) -> None:
    made = set()
    for number, table in enumerate(TABLES):
        codec = untrained(table, tmp_path / str(number), TINY).text_codec()
        made.add(type(codec))
    ours = {codec for codec in _subclasses(TextCodec) if codec.__module__.startswith("ut_tf.")}
    # Whose subclasses have tables, and one that reads no text.
    assert ours - made == {_WordsCodec, IdCodec}


def _subclasses(of: type) -> set[type]:
    return {made for direct in of.__subclasses__() for made in (direct, *_subclasses(direct))}


def _faults_of(ways: Ways) -> list[str]:
    """What the ways of inputs and those of targets say otherwise than the first of them."""
    table = ways.table
    examples = map(as_example, table.reads if ways.codec.fields else ())
    source = next((example for example in examples if any(example)), ())
    target = next(iter(table.reads_targets), None)
    inputs = _Cases.of(table.reads, table.refuses, ways.translate)
    faults = [*_faults(ways, inputs, ALONE, MIXED), *_faults_of_lines(ways)]
    if target is not None:
        outputs = _Cases.of(table.reads_targets, table.refuses_targets, ways.score, before=source)
        if ways.codec.fields:
            beside = _Cases.of(table.reads, table.refuses, ways.score, behind=(target,))
            outputs = _Cases(*({**of, **to} for of, to in zip(outputs, beside, strict=True)))
        faults += _faults(ways, outputs, ALONE_SCORES, MIXED_SCORES if ways.has_scores else ())
    return faults


class _Cases(NamedTuple):
    """Examples, what they are read as, and what is told of that; and the sentence about those that
    are refused.
    """

    read: dict[Example, Example]
    known: dict[Example, Told]
    refused: dict[Example, str]

    @classmethod
    def of(
        cls,
        reads: Spellings,
        refuses: Spellings,
        way: Way,
        before: Example = (),
        behind: Example = (),
    ) -> _Cases:
        def whole(texts: Any) -> Example:
            return (*before, *as_example(texts), *behind)

        canonical = [whole(texts) for texts in reads]
        read = {whole(row): whole(texts) for texts, rows in reads.items() for row in rows}
        known = dict(zip(canonical, way(canonical), strict=True))
        scores = [round(row.score, 5) for row in known.values() if np.isfinite(row.score)]
        # Otherwise a spelling that is read as another one would not be seen.
        assert 2 * len({*scores}) > len(scores) > 0
        refused = {}
        for part, rows in refuses.items():
            for example in map(whole, rows):
                refused[example] = _refusal(way, example)
                assert part in refused[example], (example, refused[example])
        return cls(read, known, refused)


def _refusal(way: Way, example: Example) -> str:
    with pytest.raises(UserError) as refusal:
        way([example])
    assert "\n" not in str(refusal.value).strip(), example
    return sentence(str(refusal.value))


def _faults(ways: Ways, cases: _Cases, alone: Sequence[str], mixed: Sequence[str]) -> Iterator[str]:
    """What the ways say otherwise than the first one."""
    for name in alone:
        way, takes = getattr(ways, name), ways.takes(name)
        examples = [*filter(takes, cases.known), *filter(takes, cases.read)]
        yield from _differing(name, cases, dict(zip(examples, way(examples), strict=True)))
        refused = list(filter(takes, cases.refused))
        for example in refused if name in QUICK else refused[:: max(len(refused) // _FEW, 1)]:
            try:
                told = way([example])[0]
            except UserError as error:
                told = Told(error=sentence(str(error)))
            yield from _differing(name, cases, {example: told})
    for name in mixed:
        takes = ways.takes(name)
        known, read = list(filter(takes, cases.known)), list(filter(takes, cases.read))
        if name == "ut_show":
            # It takes longest for what it can read: one other spelling of some examples will do.
            known = known[:_FEW]
            last = {cases.read[row]: row for row in read}
            read = [last[example] for example in known if example in last]
        spread = itertools.zip_longest(read, filter(takes, cases.refused))
        others = [example for pair in spread for example in pair if example is not None]
        examples = [*known, *others]
        told = getattr(ways, name)(examples) if examples else []
        yield from _differing(name, cases, dict(zip(examples, told, strict=True)))


def _faults_of_lines(ways: Ways) -> Iterator[str]:
    """What commands say otherwise about blocks of lines than about one example."""
    for name in LINES if ways.table.reads_lines else ():
        way = getattr(ways, name)
        for example, blocks in ways.table.reads_lines.items():
            (plain,) = getattr(ways, LINES[name])([as_example(example)])
            for block in blocks:
                (told,) = way(f"{block}\n")
                if told != plain:
                    yield f"{name}: {block!r}: {told}, expected {plain}"
        for part, blocks in ways.table.refuses_lines.items():
            for block in blocks:
                try:
                    told = way(f"{block}\n")
                except UserError as error:
                    told = [Told(error=str(error))]
                if not told or part not in told[0].error:
                    yield f"{name}: {block!r}: {told}, expected {part}"


def _differing(name: str, cases: _Cases, told: Mapping[Example, Told]) -> Iterator[str]:
    for example, row in told.items():
        if example in cases.refused:
            if row.error != cases.refused[example]:
                yield f"{name}: {example!r}: {row}, expected {cases.refused[example]}"
            continue
        read_as = cases.read.get(example, example)
        expected = cases.known[read_as]
        # What ut-show prints is more than an answer.
        text = told[read_as].text if name == "ut_show" else expected.text
        if row.error or row.text != text or not _is_near(row.score, expected.score):
            yield f"{name}: {example!r}: {row}, expected {expected} as of {read_as!r}"


def _is_near(score: float | None, expected: float | None) -> bool:
    if score is None or expected is None:
        return True
    return score == expected or abs(score - expected) < _ACCURACY


HALF = "half of a surrogate pair and no character: decode the bytes that it comes from as UTF-8."


@pytest.fixture(scope="module")
def digits_of_no_texts() -> Translator:
    return Translator(Echo(), Algorithmic("copy").text_codec(Path()), DecodeConfig(beam_size=1))


@pytest.fixture(scope="module")
def stories_of_no_texts(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("stories")
    (folder / "words.txt").write_text("<unknown>\nmary\nleft\nwhere\nis\n")
    (folder / "answers.txt").write_text("kitchen\nhall\ngarden\nbathroom\n")
    return Translator(Oracle(), StoryCodec(folder, "facts", 70))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"12", "of the type bytes: expected a text (str), decode it first."),
        (np.str_, "of the type type: expected a text (str)."),
        (12, "of the type int: expected a text (str)."),
        (None, "of the type NoneType: expected a text (str)."),
        ("1\ud8002", f"with U+D800, {HALF}"),
        ("12\udcff", f"with U+DCFF, {HALF}"),
    ],
)
def test_inputs_and_targets_that_are_no_texts(
    digits_of_no_texts: Translator, text: Any, sentence: str
) -> None:
    with pytest.raises(UserError) as error:
        list(digits_of_no_texts.translate([(text,)]))
    assert str(error.value) == f"an input {sentence}"
    with pytest.raises(UserError) as error:
        list(digits_of_no_texts.score(["12"], [text]))
    assert str(error.value) == f"a target {sentence}"


@pytest.mark.parametrize(
    ("story", "sentence"),
    [
        (b"Mary left.", "a story of the type bytes: expected a text (str) or a list of texts, de"),
        (["Mary left.", b"Mary left."], "a line of story of the type bytes: expected a text (str)"),
        (["Mary left.", "Mary \udc80"], f"a line of story with U+DC80, {HALF}"),
        (["Mary left.", ["Mary left."]], "a line of story of the type list: expected a text (str)"),
        ({"Mary left."}, "a story of the type set: expected a text (str) or a list of texts."),
    ],
)
def test_stories_that_are_no_texts(
    stories_of_no_texts: Translator, story: Any, sentence: str
) -> None:
    with pytest.raises(UserError) as error:
        list(stories_of_no_texts.translate([(story, "Where is Mary?")]))
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (r'{"instances": ["12", "1\ud8002"]}', "element: 1 of 'instances' list. The text has U+D8"),
        (r'{"inputs": ["12", "\udcff"]}', "Failed to process 'inputs' of 'inputs' object. The te"),
        (r'{"inputs": [["12"]]}', 'JSON Value: ["12"] is not of expected type: string'),
        (r'{"instances": [null]}', "JSON Value: null is not of expected type: string"),
    ],
)
def test_values_of_json_that_are_no_texts(body: str, sentence: str) -> None:
    def upper(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
        return [{"outputs": example["inputs"].upper()} for example in examples]

    with served(PythonModel({"serving_default": (["inputs"], upper)})) as server:
        reply = requests.post(f"{server.address}/v1/models/toy:predict", data=body, timeout=9)
    assert reply.status_code == 400
    assert sentence in reply.json()["error"]


@pytest.mark.slow
def test_ids_may_be_those_that_numpy_makes(tmp_path: Path) -> None:
    for number, table in enumerate(TABLES):
        codec = untrained(table, tmp_path / str(number), TINY).text_codec()
        text = next(iter(table.reads_targets), next(iter(table.reads)))
        ids = codec.encode_targets(tf.constant([*as_example(text)][:1]))
        ids = tf.maximum(ids, 0)
        expected = codec.decode(ids).numpy().tolist()
        for dtype in (np.int64, np.uint16):
            found = codec.decode(np.array(ids.numpy().tolist()).astype(dtype))
            assert found.numpy().tolist() == expected, table.name


def test_exports_without_errors_of_their_own_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    older = tf.Module()
    older.call = tf.function(
        lambda inputs: {"outputs": tf.strings.upper(inputs), "scores": tf.zeros(tf.shape(inputs))},
        input_signature=[tf.TensorSpec([None], tf.string, "inputs")],
    )
    tf.saved_model.save(older, str(tmp_path / "1"), signatures={"serving_default": older.call})
    stdin = types.SimpleNamespace(buffer=io.BytesIO(b"a\n\nb\n"), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)
    with served(ServedModel(tmp_path / "1", 1)) as server:
        url = f"{server.address}/v1/models/toy:predict"
        for texts in (["a"], ["a", "b"]):
            reply = requests.post(url, data=json.dumps({"instances": texts}), timeout=9)
            answers = [{"outputs": text.upper(), "scores": 0.0} for text in texts]
            assert (reply.status_code, reply.json()) == (200, {"predictions": answers})
        assert query.main([f"--server={server.address}", "--model_name=toy"]) == 0
    assert capsys.readouterr() == ("A\n\nB\n", "")
