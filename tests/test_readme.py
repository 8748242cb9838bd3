"""README and docs are held to the code: their Python runs, their commands parse, their names exist,
their tables are up to date.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ut_tf import registry
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
    serve,
    show,
    sweep,
    trainer,
)
from ut_tf.bin import eval as eval_command
from ut_tf.bin.frame import flags
from ut_tf.bin.trainer_flags import checked_run
from ut_tf.config.families import every_field
from ut_tf.config.fields import fields_of
from ut_tf.config.training import TrainingConfig
from ut_tf.factories import make_hparams
from ut_tf.hparams.catalogue import HPARAMS_SETS
from ut_tf.problems.catalogue import PROBLEMS

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = sorted(
    [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
)
MODULES = (
    trainer,
    datagen,
    eval_command,
    avg_checkpoints,
    import_run,
    import_t2t,
    decoder,
    bleu,
    exporter,
    report,
    sweep,
    query,
    serve,
    insights,
    show,
)
COMMANDS = {module.COMMAND: module for module in MODULES}


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def _command_lines() -> list[tuple[str, str]]:
    """Returns (page, line) for each of our commands in a shell block."""
    blocks = [
        (page.name, block.replace("\\\n", " ")) for page in PAGES for block in _blocks(page, "sh")
    ]
    lines = [(name, line) for name, block in blocks for line in block.splitlines()]
    return [(name, line) for name, line in lines if re.match(r"(TF_CONFIG='.*' )?ut-", line)]


def _expand(pattern: str) -> list[str]:
    """Returns the names that `a{b,c}` and `task*` stand for."""
    parts = re.split(r"\{(.*?)\}", pattern)
    names = [
        "".join(choice)
        for choice in itertools.product(
            *([part] if i % 2 == 0 else part.split(",") for i, part in enumerate(parts))
        )
    ]
    return [
        name.replace("task*", f"task{task}")
        for name in names
        for task in (range(1, 21) if "task*" in name else [0])
    ]


def _smaller(source: str, changes: dict[str, str]) -> str:
    """The Python of a page with less data and fewer updates."""
    for usual, fewer in changes.items():
        assert usual in source, f"{usual} stands no more in the page"
        source = source.replace(usual, fewer)
    return source


@pytest.mark.usefixtures("eager")
def test_the_first_lines_build_compile_and_fit_a_model():
    check_the_first_lines()


SMALLER = "hidden_size=16, num_heads=2, filter_size=16, act_max_steps=2"


def check_the_first_lines() -> None:
    (first,) = _blocks(README, "python")
    assert len([line for line in first.splitlines() if line]) <= 11
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 130
    namespace: dict[str, object] = {}
    fewer = {"20_000": "50", "epochs=3": "epochs=2", "hidden_size=64": SMALLER}
    exec(_smaller(first, fewer), namespace)
    history = namespace["model"].history.history  # type: ignore[attr-defined]
    assert history["loss"][-1] < history["loss"][0]


@pytest.mark.slow
def test_the_first_lines_start_quietly(tmp_path):
    (first,) = _blocks(README, "python")
    fewer = {"20_000": "100", "epochs=3": "epochs=1, verbose=0"}
    environment = {name: value for name, value in os.environ.items() if "TF_CPP" not in name}
    done = subprocess.run(
        [sys.executable, "-c", _smaller(first, fewer)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    assert done.stdout + done.stderr == ""


WITH_PYTHON = [page for page in PAGES if page != README and _blocks(page, "python")]
# By the name of a page: what its Python draws, and how much is enough here.
FEWER = {"keras.md": {"[128, 8]": "[32, 8]"}}


@pytest.mark.parametrize(
    # The longest ones run below, among the slow tests.
    "page",
    [page for page in WITH_PYTHON if page.name not in ("keras.md", "halting.md", "generation.md")],
    ids=lambda page: page.name,
)
@pytest.mark.usefixtures("eager")
def test_the_python_in_the_docs_runs(page, tmp_path, monkeypatch):
    run_python_of(page, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_in_the_docs_runs_in_graphs(page, tmp_path, monkeypatch):
    run_python_of(page, tmp_path, monkeypatch)


def run_python_of(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(registry.hparams_sets, "_registered", {})
    source = "\n".join(_blocks(page, "python"))
    exec(_smaller(source, FEWER.get(page.name, {})), {})


@pytest.mark.parametrize(("page", "line"), _command_lines())
def test_the_commands_shown_parse_and_their_names_exist(page, line, tmp_path, monkeypatch):
    del page
    (tmp_path / "results").symlink_to(Path(__file__).parents[1] / "results")
    monkeypatch.chdir(tmp_path)
    words = [word for word in shlex.split(line, comments=True) if not word.startswith("TF_CONFIG=")]
    module = COMMANDS[words[0]]
    values = flags.parse(module.COMMAND, module.DESCRIPTION, module.FLAGS, words[1:])
    known = {flag.name for flag in module.FLAGS}
    if "problem" in known and values.problem and "usr_dir" in known and not values.usr_dir:
        for name in values.problem.split(","):
            assert "*" in name or registry.problems.check(name) is None
    if "hparams_set" in known and values.hparams_set and not values.usr_dir:
        make_hparams(values.hparams_set, values.hparams)
    if module is sweep:
        for cell in sweep.cells_of(values):
            registry.problems.check(cell.problem)
            checked_run(
                [
                    f"--problem={cell.problem}",
                    f"--hparams_set={cell.hparams_set}",
                    *values.trainer_flags,
                ]
            )


def test_the_table_of_problems_names_every_problem_and_no_other():
    page = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    section = page.split("## All problems")[1].split("\n## ")[0]
    shown = [
        pattern
        for line in section.splitlines()
        if line.startswith("| `")
        for pattern in re.findall(r"`(.*?)`", line.split(" | ")[0])
    ]
    names = [name for pattern in shown for name in _expand(pattern)]
    assert sorted(names) == sorted(PROBLEMS)


def test_the_sets_to_begin_with_exist():
    page = (ROOT / "docs" / "hyperparameters.md").read_text(encoding="utf-8")
    section = page.split("## Sets to begin with")[1].split("\n## ")[0]
    shown = re.findall(r"`([a-z]\w+)`", section)
    assert len(shown) > 15
    assert set(shown) <= set(HPARAMS_SETS)


def test_generated_tables_are_up_to_date():
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name in generate.FILES:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert generate.generated(text) == text, f"{name}: run `make docs`"
    page = (ROOT / "docs" / "hyperparameters.md").read_text(encoding="utf-8")
    site = generate.filled(page)
    for field in (*every_field(), *fields_of(TrainingConfig)):
        assert f" `{field}`" in page
        assert f"| `{field}` |" in site


def test_links_between_the_pages_lead_somewhere():
    for page in PAGES:
        text = re.sub(
            r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in _anchors(linked), f"{page.name}: {target}#{anchor}"


def test_the_map_of_questions_names_files_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]*\? \| (.*) \|$", page, re.MULTILINE)
    named = [path for row in rows for path in re.findall(r"`([^`]*/[^`]*)`", row)]
    assert len(rows) == 25
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_site_leads_to_every_page():
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"^ +- (?:.*: )?([\w/]+\.md)$", site, re.MULTILINE))
    beside = {"overview.md", "changelog.md", "contributing.md"}
    assert pages == listed - beside, "add the page to nav in mkdocs.yml"


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_command_has_a_section_of_its_own():
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (ut-[\w-]+)$", page, re.MULTILINE)) == set(COMMANDS)


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the extra [test] brings it")
    nbclient = pytest.importorskip("nbclient", reason="the extra [test] brings it")
    monkeypatch.setenv("UT_TF_NOTEBOOK_SIZE", "tiny")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert any(outputs), "a notebook shows something"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)
    for cell in code:
        compile("".join(cell["source"]), path.name, "exec")
    prose = "".join(line for cell in cells if cell not in code for line in cell["source"])
    for target in re.findall(r"\]\(([^)#]+)", prose):
        assert (path.parent / target).exists(), target
