"""What pyproject.toml declares, and what the source distribution contains."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ut_tf.errors import UserError
from ut_tf.packages import check_package, imported

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = sorted(path.parent for path in ROOT.glob("*/__init__.py"))
FOLDERS = [
    *PACKAGES,
    *(ROOT / name for name in (".ci", "benchmarks", "docs", "notebooks", "requirements", "tests")),
]
BUILD = "from setuptools.build_meta import *; build_sdist('dist'); build_wheel('dist')"
# Folders that the wheel has inside ut_tf/.
INSIDE = {"bin": "bin", "problems": "problems", "hparams": "hparams", "models": "pretrained"}
MOST_WHEEL_BYTES = 8_000_000


def _distribution(requirement: str) -> str:
    """Returns the normalised name in a requirement such as "PYEVALB>=0.1.3"."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement)[0]).lower()


def _imported(path: Path) -> set[str]:
    """Returns the top-level modules that a file imports, wherever it does so."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(
        r"^ *(?:import (\w+)[\w.]*(?: as \w+)?$|from (\w+)[\w.]* import )", text, re.M
    )
    return {name for pair in found for name in pair if name}


def test_every_package_that_the_code_imports_is_declared() -> None:
    files = [path for folder in PACKAGES for path in folder.rglob("*.py")]
    imported = set().union(*map(_imported, files)) - set(sys.stdlib_module_names)
    imported -= {"ut_tf"}
    assert {"numpy", "tensorflow"} <= imported
    optional = [PROJECT["optional-dependencies"][extra] for extra in ("figures", "hub", "beam")]
    required = [*PROJECT["dependencies"], *itertools.chain.from_iterable(optional)]
    declared = set(map(_distribution, required))
    known = packages_distributions()
    providers = {name: set(map(_distribution, known.get(name, [name]))) for name in imported}
    assert {name for name, some in providers.items() if not some & declared} == set()


def test_the_cuda_extra_asks_for_the_same_tensorflow() -> None:
    (cuda,) = PROJECT["optional-dependencies"]["cuda"]
    assert "[and-cuda]" in cuda
    assert cuda.replace("[and-cuda]", "") in PROJECT["dependencies"]


def test_the_lock_fits_and_has_checksums_and_no_registry() -> None:
    text = (ROOT / "requirements" / "lock-3.11.txt").read_text(encoding="utf-8")
    assert "://" not in text and "--index" not in text and "--extra-index" not in text
    entries = re.findall(
        r"^(\S+)==(\S+)((?: \\\n +--hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE
    )
    locked = {_distribution(name): version for name, version, _ in entries}
    assert len(entries) == sum("==" in line for line in text.splitlines())
    optional = [PROJECT["optional-dependencies"][extra] for extra in ("figures", "hub")]
    for requirement in [*PROJECT["dependencies"], *itertools.chain.from_iterable(optional)]:
        parsed = Requirement(requirement)
        assert locked[_distribution(requirement)] in parsed.specifier, requirement


def test_the_tests_of_the_ends_of_the_ranges_are_there() -> None:
    text = (ROOT / ".ci" / "dependencies").read_text(encoding="utf-8")
    named = re.findall(r"^  (tests/\S+\.py)(?:::(\w+))?$", text, re.MULTILINE)
    assert len(named) > 10
    for file, test in named:
        assert f"def {test or 'test_'}" in (ROOT / file).read_text(encoding="utf-8"), (
            f"{file}::{test}"
        )


@pytest.mark.slow
def test_distributions_are_complete_and_build_without_deprecations(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77", reason="the extra [test] brings it")
    checkout = tmp_path / "checkout"
    unwanted = shutil.ignore_patterns("__pycache__")
    for folder in FOLDERS:
        if folder.is_dir():
            shutil.copytree(folder, checkout / folder.name, ignore=unwanted)
    expected = {str(path.relative_to(checkout)) for path in checkout.rglob("*") if path.is_file()}
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, checkout)

    command = [sys.executable, "-c", BUILD]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deprecat" not in (done.stdout + done.stderr).lower()

    (archive,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as file:
        packed = {name.partition("/")[2] for name in file.getnames()}
    expected |= {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"}
    expected |= {"mkdocs.yml", "CITATION.cff", "SECURITY.md"}
    assert "docs/halting.md" in expected
    assert sorted(expected - packed) == []

    (wheel,) = (checkout / "dist").glob("*.whl")
    assert wheel.stat().st_size < MOST_WHEEL_BYTES
    parts = {path: Path(path).parts for path in expected}
    installed = {path for path, (first, *_) in parts.items() if first == "ut_tf"}
    installed |= {
        str(Path("ut_tf", INSIDE[first], *rest))
        for first, *rest in parts.values()
        if first in INSIDE
    }
    with zipfile.ZipFile(wheel) as file:
        assert {name for name in file.namelist() if ".dist-info/" not in name} == installed


PACKAGES_FOLDERS = ("ut_tf", "bin", "problems", "hparams", "docs", "notebooks", "page/src")


def test_a_missing_package_is_named_as_pip_finds_it() -> None:
    check_package("numpy", "figures need")
    assert imported("json.decoder", "texts need").JSONDecoder
    with pytest.raises(UserError) as raised:
        check_package("absent_beam", "work needs", "absent-beam", "leave it out")
    assert str(raised.value) == (
        "work needs absent-beam, which is not installed: pip install absent-beam, or leave it out."
    )
    with pytest.raises(UserError, match=r"^scores need absent, which .*: pip install absent\.$"):
        imported("absent.metrics", "scores need")


def test_no_text_says_to_install_ut_tf_from_the_index() -> None:
    # It is not there: who registers the name would be installed in its place.
    name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    files = [ROOT / "README.md"] + [
        path
        for folder in PACKAGES_FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".ipynb", ".ts"}
    ]
    assert len(files) > 300
    pattern = re.compile(rf"{name}\[|pip install {name}\b")
    found = [str(path) for path in files if pattern.search(path.read_text(encoding="utf-8"))]
    assert found == []
