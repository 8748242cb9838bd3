"""Bad command lines that are written by hand: files and run directories that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import tiny
from bad_words import Case, good_lines, with_value

_CONFIGURATIONS = (
    b"",
    b"\xff\xfe",
    b"[]",
    b"5",
    b"null",
    b'"text"',
    b"{",
    b"{}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"\0" * 100,
    b"{'problem': 'a'}",
    b'{"format_version": 99}',
    b'{"format_version": "1"}',
    b"NaN",
)
_CHANGES: tuple[tuple[str, object], ...] = (
    ("problem", 5),
    ("problem", "nosuch"),
    ("problem", None),
    ("problem", ["a"]),
    ("problem_args", 5),
    ("problem_args", {"nosuch": 1}),
    ("problem_args", []),
    ("hparams", []),
    ("hparams", {}),
    ("hparams", {"network": 5}),
    ("hparams", {"model": "nosuch", "network": {}}),
    ("hparams", {"model": "universal_transformer", "network": {"hidden_size": -1}}),
    ("hparams", {"model": "universal_transformer", "network": {"hidden_size": 10**30}}),
    ("hparams", {"model": "universal_transformer", "network": {"nosuch": 1}}),
    ("seed", None),
    ("seed", "0"),
    ("seed", 1e999),
    ("spec", 5),
    ("spec", {}),
    ("spec", {"inputs": "tokens", "targets": "tokens", "input_vocab_size": -1}),
    ("spec", {"inputs": "nosuch", "targets": "class", "input_vocab_size": 4}),
    ("vocab_sha256", ["a"]),
    ("vocab_sha256", {"words.txt": 5}),
    ("usr_dir", 5),
    ("usr_dir", "taskcode"),
    ("data_dir", 5),
    ("format_version", 2),
)
# ut-trainer writes these anew, from its flags and the vocabulary's files.
_OF_OTHERS = tuple(
    number
    for number, (name, value) in enumerate(_CHANGES)
    if name == "usr_dir" or value == {"words.txt": 5}
)
_STORIES: tuple[bytes, ...] = (
    b"\xff\xfe\x00",
    b"1 Mary went home.\n2 Where is Mary\n\xff\n",
    b"Mary went home.\n",
    b"1\n",
    b"9" * 5000 + b" Mary went home.\n",
)
_SCORED: tuple[bytes, ...] = (
    b"one column\n",
    b"a\tb\tc\td\te\n",
)
_YAML: tuple[bytes, ...] = (
    b"problem: [\n",
    b"- a\n- b\n",
    b"5",
    b"nosuch: 1\n",
    b"problem: {a: 1}\n",
    b"hparams: 5\n",
    b"&a [*a]\n",
    b"problem: !!python/object/apply:os.system ['true']\n",
    b"\xff\xfe\xfa",
    b"problem:\n\t- a\n",
    b"train_steps: many\n",
    b"{" * 10_000,
    b"problem: a\nproblem: b\n",
)
_PAIRS: tuple[tuple[bytes, bytes], ...] = (
    (b"", b""),
    (b"a\nb\n", b"c\n"),
    (b"\xff\n", b"a\n"),
    (b"a\n", b"\xff\n"),
    (b"\x1f\x8b\x08damaged", b"a\n"),
    (b"a\n", b""),
)
_T2T: tuple[tuple[str, bytes], ...] = (
    ("hparams.json", b""),
    ("hparams.json", b"[]"),
    ("hparams.json", b"{}"),
    ("hparams.json", b'{"hidden_size": null}'),
    ("hparams.json", b'{"hidden_size": "a"}'),
    ("hparams.json", b'{"hidden_size": -1}'),
    ("hparams.json", b"\xff\xfe"),
    ("hparams.json", b"[" * 100_000),
    ("model.ckpt-301.index", b""),
    ("model.ckpt-301.index", b"\0" * 100),
    ("model.ckpt-301.data-00000-of-00002", b""),
)


def bad_files(folder: Path) -> Iterator[Case]:
    """Yields the cases; the files are written into `folder`."""
    yield from _files(folder)
    yield from _configurations(folder)


def _files(folder: Path) -> Iterator[Case]:
    lines = good_lines(folder)
    for number, content in enumerate(_STORIES):
        path = _written(folder / f"stories{number}", content)
        yield Case("decoder", (*lines["decoder"], f"--decode_from_file={path}"), "input files")
    for number, content in enumerate(_SCORED):
        path = _written(folder / f"scored{number}", content)
        line = [lines["decoder"][0], f"--score_file={path}"]
        yield Case("decoder", tuple(line), "input files")
    for number, content in enumerate(_YAML):
        path = _written(folder / f"flags{number}.yaml", content)
        yield Case("trainer", (f"--config={path}", *lines["trainer"][3:]), "files of flags")
    for number, (source, target) in enumerate(_PAIRS):
        first = _written(folder / f"pairs{number}.a", source)
        second = _written(folder / f"pairs{number}.b", target)
        files = (f"--source_files={first}", f"--target_files={second}")
        for problem in ("translate_files", "classify_files"):
            line = with_value(with_value(lines["datagen"], "problem", problem), "problem_args", "")
            yield Case("datagen", (*line, *files), "training text")
        if number:
            texts = (f"--translation={first}", f"--reference={second}")
            yield Case("bleu", texts, "translations")
    for number, (name, content) in enumerate(_T2T):
        path = folder / f"t2t{number}"
        path.mkdir(exist_ok=True)
        for original in (folder / "t2t").iterdir():
            _written(path / original.name, original.read_bytes())
        _written(path / name, content)
        line = with_value(lines["import_t2t"], "t2t_dir", str(path))
        yield Case("import_t2t", tuple(line), "tensor2tensor's files")


def _configurations(folder: Path) -> Iterator[Case]:
    """Run directories whose config.json is of another kind, or has a bad value."""
    original = json.loads((folder / "run" / "config.json").read_text())
    changed = [json.dumps({**original, name: value}).encode() for name, value in _CHANGES]
    for number, content in enumerate((*_CONFIGURATIONS, *changed)):
        run = folder / f"changed{number}"
        (run / "checkpoints").mkdir(parents=True, exist_ok=True)
        if not (run / "vocab").exists():
            (run / "vocab").symlink_to(folder / "run" / "vocab")
            name = "step-00000006"
            (run / "checkpoints" / name).symlink_to(folder / "run" / "checkpoints" / name)
        _written(run / "config.json", content)
        about = "config.json"
        questions = f"--decode_from_file={folder / 'questions.txt'}"
        yield Case("decoder", (f"--output_dir={run}", questions), about)
        if number - len(_CONFIGURATIONS) not in _OF_OTHERS:
            yield Case("trainer", tuple(tiny.flags(folder, run)), about)


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
