"""ut-decoder on runs with random weights: order, pipes, shares, scores, bAbI's own format, and
every mistake in one line.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.bin.tiny_runs import digits_run, stories_run
from ut_tf.bin import decoder
from ut_tf.inference.translator import Translator

pytestmark = pytest.mark.usefixtures("eagerly")
GREEDY = "beam_size=1,max_length=4"
LINES = ["31415", "9", "", "271828", "0000", "12", "3", "44444444444"]
QUESTIONS = (
    "1 Mary moved to the kitchen.\n2 Where is Mary?\tkitchen\t1\n3 John left.\n4 Where is John?\n1"
    " Is Mary there?\t\n"
)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("digits") / "run", (100, 200)).output_dir


@pytest.fixture(scope="module")
def stories_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stories_run(tmp_path_factory.mktemp("stories") / "run").output_dir


@pytest.fixture(scope="module")
def translators() -> dict[Any, Translator]:
    """Translators that were made; tracing their graphs is what takes time."""
    return {}


@pytest.fixture
def decode(run_dir, translators, monkeypatch, capsys):
    """Calls the command; returns status, lines on standard output and on standard error."""
    make = Translator.from_run

    def known(run, *options):
        key = (run.output_dir, run.hparams, *options)
        if key not in translators:
            translators[key] = make(run, *options)
        return translators[key]

    monkeypatch.setattr(Translator, "from_run", known)

    def call(*flags, stdin=None, output_dir=run_dir):
        if stdin is not None:
            monkeypatch.setattr(
                sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(stdin), isatty=lambda: False)
            )
        capsys.readouterr()
        options = (
            ()
            if any(flag.startswith("--decode_hparams") for flag in flags)
            else (f"--decode_hparams={GREEDY}",)
        )
        status = decoder.main([f"--output_dir={output_dir}", *options, *flags])
        captured = capsys.readouterr()
        return status, captured.out.splitlines(), captured.err.splitlines()

    return call


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def test_file_pipe_and_packed_file_give_the_same_lines(decode, file, tmp_path):
    status, answers, errors = decode(f"--decode_from_file={file}")
    assert (status, len(answers)) == (0, len(LINES))
    assert all(
        len(answer) <= len(line) + 3 if line else answer == ""
        for line, answer in zip(LINES, answers, strict=True)
    )
    assert {*"".join(answers)} <= {*"0123456789"}
    assert errors[-1].startswith("ut-decoder: 8 lines, ")
    assert decode(stdin=file.read_bytes())[1] == answers
    packed = tmp_path / "lines.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    written = tmp_path / "new" / "answers.txt"
    assert decode(f"--decode_from_file={packed}", f"--decode_to_file={written}")[:2] == (0, [])
    assert written.read_text().splitlines() == answers
    assert decode(f"--decode_from_file={file}", "--checkpoint=last")[1] != answers


def test_its_own_input_is_not_overwritten_under_another_name(decode, file, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    status, _, errors = decode("--decode_from_file=~/lines.txt", f"--decode_to_file={file}")
    assert (status, len(errors)) == (2, 1)
    assert "is the file that is read" in errors[0]


def test_several_outputs_stand_side_by_side_best_first_and_score_file_agrees_with_their_scores(
    decode, file, tmp_path
):
    options = "--decode_hparams=beam_size=3,n_best=3,alpha=0,write_beam_scores=true,force_length=6"
    rows = [line.split("\t") for line in decode(f"--decode_from_file={file}", options)[1]]
    assert {len(row) for row in rows} == {6}
    assert rows[LINES.index("")] == ["", "0.000000"] * 3
    scores = [[float(score) for score in row[1::2]] for row in rows]
    assert all(row == sorted(row, reverse=True) for row in scores)
    pairs = [
        (line, row[place], float(row[place + 1]))
        for line, row in zip(LINES, rows, strict=True)
        if line
        for place in (0, 2, 4)
    ]
    assert len({(line, target) for line, target, _ in pairs}) == len(pairs)
    assert {len(target) for _, target, _ in pairs} == {5}
    scored = tmp_path / "pairs.tsv"
    scored.write_text("".join(f"{source}\t{target}\n" for source, target, _ in pairs))
    status, found, _ = decode(f"--score_file={scored}")
    assert status == 0
    assert [float(value) for value in found] == pytest.approx(
        [score for *_, score in pairs], abs=1e-4
    )
    status, deeper, _ = decode(f"--score_file={scored}", "--hparams=eval_num_steps=4")
    assert status == 0
    assert deeper != found


@pytest.mark.slow
def test_sampling_follows_the_seed(decode, file):
    options = (
        "--decode_hparams=sampling=true,n_best=2,max_length=4,batch_size=3",
        f"--decode_from_file={file}",
    )
    first = decode(*options, "--random_seed=5")[1]
    assert decode(*options, "--random_seed=5")[1] == first
    assert decode(*options, "--random_seed=6")[1] != first


def test_questions_in_babi_s_own_format(decode, stories_dir, tmp_path):
    stories = tmp_path / "stories.txt"
    stories.write_text(QUESTIONS.replace("Where is", "Whither is"))
    _, answers, errors = decode(f"--decode_from_file={stories}", output_dir=stories_dir)
    assert (
        f"warning: {stories} has words that the model's vocabulary lacks, read as unknown: there,"
        " whither; near words that it has: where, the." in errors
    )
    _, answers, errors = decode(stdin=QUESTIONS.encode(), output_dir=stories_dir)
    (line,) = (line for line in errors if "lacks" in line)
    assert "standard input" in line and "there; near words that it has: where, the." in line
    assert len(answers) == 3
    assert {*answers} <= {"hall", "kitchen", "garden"}
    scored = tmp_path / "stories.tsv"
    rows = (
        "Mary moved to the kitchen.\tWhere is Mary?",
        "Mary moved to the kitchen.\\nJohn left.\tWhere is John?",
    )
    scored.write_text(
        "".join(f"{row}\t{word}\n" for row in rows for word in ("hall", "kitchen", "garden"))
    )
    values = [float(line) for line in decode(f"--score_file={scored}", output_dir=stories_dir)[1]]
    best = [
        max(
            ("hall", "kitchen", "garden"),
            key=dict(zip(("hall", "kitchen", "garden"), part, strict=True)).get,
        )
        for part in (values[:3], values[3:])
    ]
    assert best == answers[:2]


def test_interactive_answers_line_by_line_and_survives_a_mistake(decode):
    status, answers, errors = decode("--decode_interactive", stdin=b"12\nx\n\n34\n")
    assert status == 0
    assert len(answers) == 3
    assert sum("standard input, line 2: 'x'" in line for line in errors) == 1
    assert answers[0] == decode(stdin=b"12\n")[1][0]


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--decode_hparams=beam_sise=3,alpha=x"], 2, "--decode_hparams: decoding options"),
        (["--checkpoint=7", "--decode_from_file=FILE"], 1, "checkpoint=7"),
        (["--decode_from_file=FILE", "--score_file=FILE"], 2, "give one of them"),
        (["--decode_shards=2", "--shard=2"], 2, "--shard=2 of --decode_shards=2"),
        (["--decode_shards=2"], 2, "--decode_shards=2 needs files"),
        (["--decode_from_file=FILE", "--decode_to_file=FILE/x"], 1, "FILE/x cannot be written"),
        (["--score_file=FILE"], 1, "FILE, line 1: it has 1 columns, expected 2"),
        (["--score_file=WRONG"], 1, "WRONG, line 2: '4x' is not what this problem reads"),
        (["--problem=babi_qa"], 2, "--problem=babi_qa: the run in .* has algorithmic_copy_decimal"),
    ],
)
def test_mistakes_are_told_in_one_line(decode, file, flags, status, message):
    wrong = file.with_name("wrong.tsv")
    wrong.write_text("1\t1\n4\t4x\n")
    words = {"FILE": str(file), "WRONG": str(wrong)}

    def filled(text):
        return functools.reduce(lambda text, word: text.replace(word, words[word]), words, text)

    found, answers, errors = decode(*map(filled, flags))
    assert (found, answers, len(errors)) == (status, [], 1)
    pattern = re.escape(filled(message)).replace(r"\.\*", ".*")
    assert re.match(rf"ut-decoder: error: .*{pattern}", errors[0]), errors[0]


def test_a_line_that_is_none_of_the_problem_s_is_told_before_anything_is_decoded(decode, tmp_path):
    file = tmp_path / "in.txt"
    file.write_text("12\n3x4\n")
    status, answers, errors = decode(f"--decode_from_file={file}")
    assert (status, answers) == (1, [])
    (line,) = errors
    assert f"{file}, line 2: '3x4'" in line
    status, answers, errors = decode(stdin=b"12\n3x4\n")
    # A slow machine tells its progress, too.
    (line,) = [error for error in errors if "error:" in error]
    assert (status, len(answers)) == (1, 1)
    assert "standard input, line 2" in line


def test_a_vocabulary_that_does_not_fit(decode, stories_dir, tmp_path):
    damaged = tmp_path / "run"
    shutil.copytree(stories_dir, damaged)
    words = damaged / "vocab" / "words.txt"
    words.write_text(words.read_text().replace("kitchen", "chicken"))
    status, _, errors = decode(stdin=b"", output_dir=damaged)
    assert (status, len(errors)) == (1, 1)
    assert f"{words} is not the vocabulary that the run was trained with" in errors[0]
    # A run of an earlier version has no checksums.
    config = json.loads((damaged / "config.json").read_text())
    (damaged / "config.json").write_text(
        json.dumps({name: config[name] for name in config if "sha256" not in name})
    )
    words.write_text(words.read_text() + "surplus\n")
    status, _, errors = decode(stdin=b"", output_dir=damaged)
    assert (status, len(errors)) == (1, 1)
    assert "has 13 and 3 ids (inputs and targets), the run was trained with 12 and 3" in errors[0]
    words.unlink()
    status, _, errors = decode(stdin=b"", output_dir=damaged)
    assert (status, len(errors)) == (1, 1)
    assert f"there is no vocabulary {words}" in errors[0]


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(run_dir):
    call = f"main(['--output_dir={run_dir}', '--decode_hparams={GREEDY},batch_size=1'])"
    script = f"import sys; from ut_tf.bin.decoder import main; sys.exit({call})"
    numbers = "\n".join(map(str, range(60)))
    command = f'printf "{numbers}" | "{sys.executable}" -c "{script}" | head -n 1'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 141, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_an_output_that_cannot_be_written_is_one_line(decode, file):
    status, _, errors = decode(f"--decode_from_file={file}", "--decode_to_file=/dev/full")
    (line,) = errors
    assert status == 1 and "/dev/full" in line and "--decode_to_file" in line
