"""Lines in and out of a decoder, shares of a corpus, batches of like length."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.errors import UserError
from ut_tf.inference.batches import Example, like_length, stacked
from ut_tf.inference.cutting import cut
from ut_tf.inference.text_files import (
    input_lines,
    one_line,
    output_line,
    read_input,
    shard_path,
    share,
)
from ut_tf.inference.translator import Hypothesis

COUNTS = st.integers(min_value=0, max_value=50)


@given(COUNTS, st.integers(min_value=1, max_value=9))
def test_shares_are_consecutive_of_like_size_and_make_up_the_whole(count: int, shards: int) -> None:
    items = list(range(1, count + 1))
    shares = [share(items, shards, shard) for shard in range(shards)]
    assert [item for part, _ in shares for item in part] == items
    assert all(part[0] == first for part, first in shares if part)
    sizes = [len(part) for part, _ in shares]
    assert max(sizes) - min(sizes) <= 1


def test_shares_have_files_whose_alphabetical_order_is_theirs() -> None:
    names = [shard_path(Path("out.txt"), 12, shard).name for shard in range(12)]
    assert names == sorted(names)
    assert names[1] == "out.txt-00001-of-00012"
    assert shard_path(Path("out.txt"), 1, 0) == Path("out.txt")


def test_lines_end_at_line_feeds_alone(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["\ufeffa\u2028b\r\n".encode(), b"c\x0bd\n", b"\xe4\n", b"\n", b"e"]
    assert list(input_lines(lines, "f.txt")) == ["a\u2028b", "c\x0bd", "\ufffd", "", "e"]
    assert (
        capsys.readouterr().err
        == "warning: f.txt, line 3: byte 1 is not UTF-8; it is read as U+FFFD.\n"
    )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    packed = tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress(b"abc\n" * 10_000)[:40])
    with pytest.raises(UserError, match=r"cut\.gz cannot be unpacked"):
        read_input(packed)
    with pytest.raises(UserError, match="is a directory"):
        read_input(tmp_path)
    with pytest.raises(UserError, match=r"nothing cannot be read \(No such file"):
        read_input(tmp_path / "nothing")


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"one\ntwo\n",))
    writer.start()
    assert read_input(pipe) == ["one", "two"]
    writer.join()


def test_an_output_is_one_line_whatever_the_model_wrote() -> None:
    hypotheses = [Hypothesis("a\tb\nc", -1.25), Hypothesis("d\u2028e\r", -2.0)]
    assert output_line(hypotheses, with_scores=True) == "a b c\t-1.250000\td e \t-2.000000"
    assert output_line(hypotheses, with_scores=False) == "a b c\td e "
    assert len(one_line("".join(map(chr, range(0x2100)))).splitlines()) == 1


@settings(deadline=None)
@given(
    st.lists(st.integers(min_value=0, max_value=40), max_size=60),
    st.integers(min_value=1, max_value=8),
)
def test_every_example_is_in_one_batch_within_the_bounds(
    lengths: list[int], batch_size: int
) -> None:
    examples = [
        Example(number, np.full(length, 5, np.int32))
        for number, length in enumerate(lengths, start=1)
    ]
    batches = like_length(examples, batch_size, most_positions=60)
    assert sorted(one.number for batch in batches for one in batch) == list(
        range(1, len(lengths) + 1)
    )
    firsts = [min(one.number for one in batch) for batch in batches]
    assert firsts == sorted(firsts)
    for batch in batches:
        inputs = stacked(batch)["inputs"]
        assert inputs.shape == (len(batch), max(one.length for one in batch))
        assert len(batch) <= batch_size
        assert inputs.size <= 60
        assert [int((row != 0).sum()) for row in inputs] == [len(one.inputs) for one in batch]


def test_what_is_too_long_keeps_its_end_symbol() -> None:
    ids = np.array([[5, 6, 7, 8, 1], [5, 6, 1, 0, 0], [5, 6, 7, 8, 9]], np.int32)
    np.testing.assert_array_equal(cut(ids, 3), [[5, 6, 1], [5, 6, 1], [5, 6, 7]])
    for most in (5, 6):
        np.testing.assert_array_equal(cut(ids, most), ids)
