"""A message of the library names arguments; a command names its flags."""

from __future__ import annotations

import pytest

from ut_tf.bin.frame.shared_flags import in_flags

FLAGS = {"random_seed", "output_dir", "hparams", "problem_args", "source_files"}


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
    assert in_flags(message, FLAGS, {"dropout", "max_length"}) == shown


def test_a_seed_that_is_the_flag_s_own_name_is_found() -> None:
    assert in_flags("`seed`=1", {"seed"}) == "--seed=1"
    assert in_flags("`dropout`=1", {"output_dir"}) == "dropout=1"
    assert in_flags("`problem_args.seed`=1", {"seed"}) == "seed=1"
