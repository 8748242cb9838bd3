"""Names of files: with commas in them, and of files that have been moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bin.tiny_runs import TINY
from ut_tf.bin.frame.flag_values import check_readable_files
from ut_tf.data.arguments import absolute_files, file_paths
from ut_tf.errors import UserError
from ut_tf.run import Run

LINES = "".join(f"{'good' if number % 2 else 'bad'}\tday {number}\n" for number in range(40))


def test_a_file_that_is_there_counts_before_a_comma(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "en,de").mkdir()
    for name in ("a.txt", "en,de/c.txt", "x,y,z.txt", "z.txt"):
        (tmp_path / name).write_text("")

    def names(text: str) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in file_paths(text)]

    assert names("en,de/c.txt") == ["en,de/c.txt"]
    assert names("a.txt, en,de/c.txt,z.txt,") == ["a.txt", "en,de/c.txt", "z.txt"]
    assert names("x,y,z.txt,a.txt") == ["x,y,z.txt", "a.txt"]
    # Neither is there as a whole.
    assert names("en,de/d.txt") == ["en", "de/d.txt"]


def test_members_of_a_list_are_taken_as_they_are(tmp_path: Path) -> None:
    listed = [str(tmp_path / "en,de.txt"), str(tmp_path / "b.txt")]
    given: dict[str, Any] = {"source_files": listed}
    assert absolute_files("classify_files", given) == given
    assert list(map(str, file_paths(listed))) == listed
    assert absolute_files("classify_files", {"vocab_file": listed[0]}) == {"vocab_file": listed[0]}
    with pytest.raises(UserError, match=r"/en cannot be read.* Commas divide the names of files\."):
        check_readable_files(
            "classify_files", {"source_files": ["/en", "/de/c.txt"]}, tmp_path / "data"
        )


def begun(project: Path, data_dir: Path, hparams: str = TINY) -> Run:
    return Run.create(
        "classify_files",
        "ut_classify",
        hparams,
        output_dir=project / "run",
        data_dir=data_dir,
        tmp_dir=data_dir,
        problem_args={"source_files": [str(project / "train,1.tsv")]},
    )


@pytest.mark.parametrize("where", ["data", "project/data"])
def test_a_moved_project_goes_on(tmp_path: Path, where: str) -> None:
    project, moved = tmp_path / "project", tmp_path / "moved"
    project.mkdir()
    (project / "train,1.tsv").write_text(LINES)
    first = begun(project, tmp_path / where)
    project.rename(moved)
    data_dir = tmp_path / where.replace("project", "moved")
    again = begun(moved, data_dir)
    assert again.problem_args == first.problem_args
    problem = again.make_problem()
    assert len(problem.examples("train", again.data_dir)) > 0
    # Nothing was prepared a second time.
    assert len(list((data_dir / "own_files").glob("*/summary.json"))) == 1


def test_another_content_is_another_run(tmp_path: Path) -> None:
    project, moved = tmp_path / "project", tmp_path / "moved"
    project.mkdir()
    (project / "train,1.tsv").write_text(LINES)
    begun(project, tmp_path / "data")
    project.rename(moved)
    (moved / "train,1.tsv").write_text(LINES.replace("day 3\n", "day 4\n"))
    with pytest.raises(UserError, match=r"problem_args: .*`config`=.*moved/run/config\.json"):
        begun(moved, tmp_path / "data")
