"""Measures the tests by mutants: small changes of meaning that they must notice.

    python tests/mutants/run.py                       # all of mutants.yaml: about an hour
    python tests/mutants/run.py --only=opt-clip,att-rel

Each mutant is applied in a copy of the checkout. Its ``first`` tests run, then the quick tests of
the folder that mirrors its file, conformance and goldens, until one fails: the mutant is noticed.
The status is 1 where fewer than 95 percent are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = Path(__file__).with_name("mutants.yaml")
LEAST_SHARE = 0.95
ALWAYS = ("tests/conformance", "tests/interop")
PARTS = {"bin": "bin", "problems": "problems", "hparams": "hparams", "models": "pretrained"}
_LEFT_OUT = (".git", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")


def mirrored(file: str) -> str:
    """Returns the tests' folder nearest to a source file's own."""
    folder = Path(file.removeprefix("ut_tf/")).parent
    while not (ROOT / "tests" / folder).is_dir():
        folder = folder.parent
    return str(Path("tests") / folder)


def read_mutants() -> list[dict[str, Any]]:
    """Returns the mutants, each with the tests that are to notice it, in order."""
    mutants: list[dict[str, Any]] = yaml.safe_load(MUTANTS.read_text(encoding="utf-8"))
    for mutant in mutants:
        tests = [*mutant["first"], mirrored(mutant["file"]), *ALWAYS]
        mutant["tests"] = list(dict.fromkeys(tests))
    return mutants


def apply(mutant: dict[str, Any], root: Path) -> None:
    """Changes the mutant's file below `root`."""
    path = root / mutant["file"]
    text = path.read_text(encoding="utf-8")
    if text.count(mutant["before"]) != 1:
        raise SystemExit(f"{mutant['id']}: {mutant['file']} does not hold its text once: mend it.")
    path.write_text(text.replace(mutant["before"], mutant["after"]), encoding="utf-8")


def noticed_by(mutant: dict[str, Any], seconds: float) -> str | None:
    """Returns the test that notices the mutant; None: all pass."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
        apply(mutant, root)
        # As installed: commands, problems, sets and trained models lie within the package.
        for part, name in PARTS.items():
            (root / "ut_tf" / name).symlink_to(f"../{part}")
        for tests in mutant["tests"]:
            found = _first_failure(root, tests, seconds)
            if found is not None:
                return found
    return None


def _first_failure(root: Path, tests: str, seconds: float) -> str | None:
    options = ["-x", "-q", "-p", "no:warnings", "-p", "no:cacheprovider", "-o", "addopts="]
    command = [sys.executable, "-m", "pytest", *options, "--import-mode=importlib"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    try:
        done = subprocess.run(
            [*command, "-m", "not slow", tests],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{tests} (does not end)"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode in (0, 5):
        return None
    return failed[0].split(" - ")[0] if failed else f"{tests} (status {done.returncode})"


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description="Measures the tests by mutants.")
    parser.add_argument("--only", help="ids with commas between (default: all)")
    parser.add_argument("--workers", type=int, default=2, help="mutants at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=900, help="limit of one run of tests")
    flags = parser.parse_args()
    only = set(flags.only.split(",")) if flags.only else None
    mutants = [one for one in read_mutants() if only is None or one["id"] in only]

    def measure(mutant: dict[str, Any]) -> bool:
        begun = time.monotonic()
        found = noticed_by(mutant, flags.seconds)
        spent = time.monotonic() - begun
        verdict = found or f"NOT NOTICED: {mutant['meaning']}"
        print(f"{mutant['id']:<16} {spent:4.0f} s  {verdict}", flush=True)
        return found is not None

    with ThreadPoolExecutor(flags.workers) as pool:
        noticed = list(pool.map(measure, mutants))
    share = sum(noticed) / len(noticed)
    print(f"{sum(noticed)} of {len(noticed)} mutants are noticed ({share:.1%})")
    return 0 if share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
