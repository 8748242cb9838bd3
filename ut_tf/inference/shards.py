"""A long input divided into shards, which any processes that see their folder answer in any order,
and whose answers are joined in the order of the input.

How it is used::

    shards = Shards(Path("news.de.shards"))
    shards.divide(examples, size=2048, identity={"input_sha256": "9f...", "seed": 0})
    for number in shards.unfinished():
        shards.answer(number, lambda examples, first: translated_lines(translator, ...))
    shards.join(Path("news.de"))

The answers of a shard are complete or absent, so a stopped job goes on with those that are absent.
"""

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ut_tf.data.chunks import chunks
from ut_tf.errors import UserError, counted, file_errors
from ut_tf.storage.files import write_bytes, write_parts, write_text

# The texts of an example and, where it is scored, its target.
Given = tuple[tuple[str, ...], str | None]
_PLAN_FILE = "plan.json"
_CHECKPOINT_FOLDER = "checkpoint"


class Shards:
    """The folder of one divided input.

    Args:
      folder: its path; whoever answers a shard must see it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def lock(self) -> Path:
        """The file that a process locks while it divides, hands out and joins."""
        return self.folder / ".lock"

    @property
    def is_divided(self) -> bool:
        """Whether the input is divided already."""
        return (self.folder / _PLAN_FILE).is_file()

    @property
    def checkpoint(self) -> Path | None:
        """The folder of the checkpoint kept for a divided input; None: none is kept."""
        kept = self.folder / _CHECKPOINT_FOLDER
        return kept if self.is_divided and kept.is_dir() else None

    def keep_checkpoint(self, source: Path) -> Path:
        """Copies a checkpoint, before the input is divided, and returns the folder of the copy.

        Args:
          source: its folder; its files are linked where the file system can do that.

        Raises:
          FileNotFoundError: the checkpoint was removed meanwhile.
        """
        kept = self.folder / _CHECKPOINT_FOLDER
        # Without the plan, which is written after it, it may be half a copy.
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for path in source.iterdir():
            _link_or_copy(path, kept / path.name)
        return kept

    def divide(self, examples: Iterable[Given], size: int, identity: Mapping[str, Any]) -> None:
        """Writes the examples in shards, or leaves those of an earlier call as they are.

        Args:
          examples: all of them, in order; they are not read where they are divided already.
          size: of a shard.
          identity: the values (JSON) that decide the answers, by name.

        Raises:
          UserError: what is there is of another identity.
        """
        if self.is_divided:
            self.check(size, identity)
            return
        # Without the plan, which is written last, nobody knows what shards are of.
        for path in [*self.folder.glob("input-*"), *self.folder.glob("output-*")]:
            path.unlink()
        count = total = 0
        for count, chunk in enumerate(chunks(examples, size), start=1):
            content = json.dumps({"first": total + 1, "examples": chunk}).encode("utf-8")
            write_bytes(self._input_file(count - 1), gzip.compress(content, compresslevel=1))
            total += len(chunk)
        plan = {"identity": _whole(size, identity), "shards": count, "examples": total}
        write_text(self.folder / _PLAN_FILE, json.dumps(plan, indent=2) + "\n")

    def check(self, size: int, identity: Mapping[str, Any]) -> None:
        """Raises UserError where the input was divided for another job; arguments as for
        ``divide``.
        """
        former = self._plan().get("identity", {})
        changes = [
            f"{name}: {former.get(name)} -> {value}"
            for name, value in _whole(size, identity).items()
            if former.get(name) != value
        ]
        if changes:
            raise UserError(
                f"{self.folder} holds the shards of another job ({'; '.join(changes)}): give what"
                " it was begun with, or delete that folder."
            )

    @property
    def count(self) -> int:
        """How many shards there are."""
        return int(self._plan()["shards"])

    @property
    def examples(self) -> int:
        """How many examples they have together."""
        return int(self._plan()["examples"])

    def unfinished(self) -> list[int]:
        """The numbers of the shards without answers, from 0."""
        return [n for n in range(self.count) if not self._output_file(n).is_file()]

    def answer(self, number: int, answer: Callable[[Sequence[Given], int], Iterable[str]]) -> None:
        """Writes the answers of a shard, unless they are there.

        Args:
          number: of the shard.
          answer: (examples, number of the first of them, from 1) -> a line for each.
        """
        if self._output_file(number).is_file():
            return
        shard = json.loads(gzip.decompress(self._input_file(number).read_bytes()))
        examples = [(tuple(texts), target) for texts, target in shard["examples"]]
        lines = list(answer(examples, shard["first"]))
        if len(lines) != len(examples):
            raise ValueError(f"{len(lines)} answers to {len(examples)} examples")
        write_bytes(self._output_file(number), b"".join(map(line_bytes, lines)))

    def join(self, destination: Path) -> None:
        """Writes the answers of all shards to a file, in order, and removes the folder. The file is
        complete or as it was before.

        Raises:
          UserError: a shard has no answers.
        """
        missing = self.unfinished()
        if missing:
            raise UserError(
                f"{self.folder}: {counted(len(missing), 'shard')} of {self.count} have no answers"
                f" yet, the first of them {missing[0]}: the same command goes on with them."
            )
        parts = (self._output_file(number).read_bytes() for number in range(self.count))
        write_parts(destination, parts)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _plan(self) -> dict[str, Any]:
        with file_errors(
            self.folder / _PLAN_FILE, "delete that folder", also=(ValueError, KeyError, TypeError)
        ):
            plan = json.loads((self.folder / _PLAN_FILE).read_text(encoding="utf-8"))
            int(plan["shards"]), int(plan["examples"])
        return dict(plan)

    def _input_file(self, number: int) -> Path:
        return self.folder / f"input-{number:06}.json.gz"

    def _output_file(self, number: int) -> Path:
        return self.folder / f"output-{number:06}.txt"


def _whole(size: int, identity: Mapping[str, Any]) -> dict[str, Any]:
    """The identity with the size of a shard, as JSON gives it back."""
    return dict(json.loads(json.dumps({**identity, "shard_size": size})))


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def line_bytes(line: str) -> bytes:
    """The line as it is written, with its end."""
    return line.encode("utf-8", errors="replace") + b"\n"
