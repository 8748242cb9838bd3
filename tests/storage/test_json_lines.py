"""Lines of JSON with a checksum: no changed bit gives other values."""

from __future__ import annotations

import json

from ut_tf.storage import json_lines
from ut_tf.storage.json_lines import lines, objects, read_object, sealed

VALUES = {"kind": "train", "step": 120, "loss": 2.4321537017822266, "name": "ä"}
LINE = sealed(json.dumps(VALUES)).encode()


def test_a_line_is_read_without_its_checksum():
    assert read_object(LINE) == read_object(LINE + b"\n") == VALUES
    assert list(json.loads(LINE)) == [*VALUES, "crc32"]


def test_a_changed_bit_is_told_or_changes_no_value():
    told = 0
    for bit in range(8 * len(LINE)):
        content = bytearray(LINE)
        content[bit // 8] ^= 1 << bit % 8
        values = read_object(bytes(content))
        told += values is None
        # What has lost its checksum is otherwise as it was.
        assert values is None or {name: values[name] for name in VALUES} == VALUES
    assert told > 0.8 * 8 * len(LINE)


def test_lines_of_earlier_versions_and_of_others_are_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    other = b'{"step":1,"crc32":"00000000"}'
    path.write_bytes(
        json.dumps(VALUES).encode() + b"\n" + other + b"\n" + LINE.replace(b"120", b"121")
    )
    assert list(objects(path)) == [VALUES, {"step": 1, "crc32": "00000000"}]


def test_a_line_without_an_end_comes_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "MOST_JSON_BYTES", 10)
    path = tmp_path / "log"
    path.write_bytes(b"x" * 25 + b"\nshort\n")
    assert [*lines(path)] == [b"x" * 10, b"x" * 10, b"x" * 5 + b"\n", b"short\n"]
