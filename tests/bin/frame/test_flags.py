"""Flags: parsing, aliases, the help page and its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from ut_tf.bin import (
    avg_checkpoints,
    bleu,
    datagen,
    decoder,
    exporter,
    import_run,
    import_t2t,
    insights,
    query,
    report,
    sweep,
    trainer,
)
from ut_tf.bin import eval as eval_command
from ut_tf.bin.frame import flag_values, flags
from ut_tf.bin.frame.flags import Flag, FlagError, HelpAsked
from ut_tf.bin.frame.shared_flags import in_flags
from ut_tf.version import __version__

COMMANDS = [
    *(trainer, datagen, eval_command, avg_checkpoints, import_run, import_t2t, decoder, bleu),
    *(exporter, report, sweep, query, insights),
]
FLAGS = (
    Flag("problem", "What to solve.", "What", required=True),
    Flag("train_steps", "How long.", "How", "integer", default=10),
    Flag("rate", "How fast.", "How", "float"),
    Flag("generate_data", "Whether to prepare.", "How", "boolean", default=False),
    Flag("num_gpus", "On what.", "How", "integer", aliases=("worker_gpu",)),
)


def _parse(*argv: str):
    return flags.parse("ut-x", "About x.", FLAGS, argv)


def test_values_have_their_types_and_defaults():
    values = _parse("--problem=copy", "--rate", "0.5", "--generate_data", "--worker_gpu=2")
    assert (
        values.problem,
        values.train_steps,
        values.rate,
        values.generate_data,
        values.num_gpus,
    ) == ("copy", 10, 0.5, True, 2)
    assert not _parse("--problem=copy", "--nogenerate_data").generate_data


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--problm=copy"], "unknown flag --problm; did you mean --problem"),
        (["--zzz"], "unknown flag --zzz. All flags: ut-x --help"),
        ([f"--{'a' * 5000}=1"], f"unknown flag --{'a' * 98} ... All flags: ut-x --help."),
        # Of tensor2tensor.
        (["--xla_compile"], "unknown flag --xla_compile"),
        (["--nosync"], "unknown flag --nosync: ut-tf has no such flag: workers always update"),
        (["--decode_to_file=x"], "it is a flag of ut-decoder; leave it out"),
        (["--problem=copy", "--train_steps=many"], "--train_steps=many: expected a whole number"),
        (["--problem=copy", "--rate=fast"], "--rate=fast: expected a number"),
        (["--problem=copy", "stray"], "unexpected argument 'stray'"),
        (["--train_steps=3"], "--problem is missing"),
    ],
)
def test_mistakes(argv, expected):
    with pytest.raises(FlagError) as caught:
        _parse(*argv)
    assert expected in str(caught.value)


WORDS = (
    Flag("runs", "Which.", "What", "words", required=True, positional=True),
    Flag("names", "How called.", "What", "words"),
    *FLAGS[1:],
)


def test_words_without_dashes_and_flags_given_several_times():
    values = flags.parse(
        "ut-x",
        "About x.",
        WORDS,
        ["a", "--names=n", "b", "--names=m,o", "--train_steps=3", "--", "--rate=2"],
    )
    assert values.runs == ["a", "b", "--rate=2"]
    assert (values.names, values.train_steps, values.rate) == (["n", "m,o"], 3, None)
    with pytest.raises(FlagError, match="<runs> is missing: which"):
        flags.parse("ut-x", "About x.", WORDS, ["--names=n"])
    assert "  <runs> ...\n      Which. (required)" in flags.help_page("About x.", WORDS)


@pytest.mark.parametrize("spelling", ["--help", "-h", "-help", "--helpfull"])
def test_help_lists_our_flags_in_groups_with_defaults(spelling):
    with pytest.raises(HelpAsked) as caught:
        _parse(spelling)
    page = str(caught.value)
    assert page.startswith("About x.")
    for expected in (
        "What:\n  --problem\n",
        "(required)",
        "(default: 10)",
        "--[no]generate_data",
        "Also --worker_gpu.",
    ):
        assert expected in page
    assert "--flagfile" not in page


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("output_dir", "given 2 times: ut-eval takes one run"),
        ("hparams", "given 2 times, of which"),
    ],
)
def test_what_a_command_takes_once_is_told(flag: str, told: str) -> None:
    command = eval_command.COMMAND, eval_command.DESCRIPTION, eval_command.FLAGS
    with pytest.raises(FlagError, match=told):
        flags.parse(*command, [f"--{flag}=a=1", f"--{flag}=b=2"])


def test_the_version_is_told_unless_it_is_a_flag_of_the_command():
    with pytest.raises(HelpAsked, match=f"^ut-x {__version__}$"):
        _parse("--version")
    own = Flag("version", "Of the export.", "What", "integer")
    assert flags.parse("ut-x", "About x.", [own], ["--version=3"]).version == 3


@pytest.mark.parametrize("command", COMMANDS, ids=lambda module: module.COMMAND)
def test_every_command_s_help_names_all_its_flags_and_a_default_for_each(command):
    page = flags.help_page(command.DESCRIPTION, command.FLAGS)
    for flag in command.FLAGS:
        assert flag.name in page
        assert (
            flag.group == "Help" or flag.required or flag.shown_default or flag.default is not None
        ), flag.name
    assert command.COMMAND in page


def test_help_fits_a_narrow_terminal_and_keeps_its_examples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = "  ut-x --first=one --second=two --third=three --fourth=four"
    description = f"Says in more words than a narrow line can hold what it does.\n\n{example}"
    monkeypatch.setenv("COLUMNS", "50")
    with pytest.raises(HelpAsked) as asked:
        flags.parse("ut-x", description, [Flag("a", "Says more. " * 9, "What")], ["--help"])
    lines = str(asked.value).splitlines()
    assert example in lines
    assert 44 < max(len(line) for line in lines if line != example) <= 50


def test_names_of_reference_files_may_have_commas(tmp_path: Path) -> None:
    folder = tmp_path / "x,y"
    folder.mkdir()
    named = [folder / "ref.txt", tmp_path / "other.txt"]
    for path in named:
        path.write_text("one\n")
    assert flag_values.files(", ".join(map(str, named))) == named
    assert flag_values.files("") == []


OPTIONS_FLAGS = {"random_seed", "output_dir", "hparams", "problem_args", "source_files"}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`seed`=-1: expected", "--random_seed=-1: expected"),
        ("give another `output_dir`.", "give another --output_dir."),
        ("`dropout`=2: expected", "--hparams=dropout=2: expected"),
        ("raise `max_length` or name `data_dir`", "raise max_length or name data_dir"),
        ("a `line of the user` stays", "a `line of the user` stays"),
        ("`problem_args.seed`=-1: expected", "--problem_args=seed=-1: expected"),
        ("`problem_args.dropout`=2: expected", "--problem_args=dropout=2: expected"),
        ("`problem_args.source_files` is missing", "--source_files is missing"),
        ("leave `problem_args.seed` out", "leave seed out"),
    ],
)
def test_arguments_become_flags(message: str, shown: str) -> None:
    assert in_flags(message, OPTIONS_FLAGS, {"dropout", "max_length"}) == shown
