"""Saved models go to a hub and come back, and nothing else comes with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sharing.hub_server import Hub, serving
from ut_tf.errors import UserError
from ut_tf.sharing import hub as hub_module

FILES = {
    "config.json": b"{}",
    "model.safetensors": bytes(3000),
    "README.md": b"# a card",
    "vocab/words.txt": b"mary\n",
}
OTHERS = {"setup.py": b"raise SystemExit", "vocab/deep/words.txt": b"", "evil/config.json": b""}


def _in_process(code: str, address: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own: huggingface_hub reads its settings when it is imported."""
    settings = {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    prelude = "from pathlib import Path\nfrom ut_tf.errors import UserError\n"
    prelude += "from ut_tf.sharing.hub import download, upload\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + code],
        env={**os.environ, **settings, "HF_TOKEN": "hf_token"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_is_uploaded_and_downloaded_without_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    for name, content in {**FILES, "notes.txt": b"mine"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    hub = Hub(dict(OTHERS))
    with serving(hub) as address:
        code = (
            f"upload(Path({str(folder)!r}), 'hf://user/model')\nprint(download('hf://user/model'))"
        )
        done = _in_process(code, address, tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert hub.files == {**OTHERS, **FILES}
    fetched = Path(done.stdout.splitlines()[-1])
    found = {
        path.relative_to(fetched).as_posix(): path.read_bytes()
        for path in fetched.rglob("*")
        if path.is_file()
    }
    assert found == FILES


def test_a_file_too_large_is_not_fetched_and_a_missing_model_is_one_sentence(
    tmp_path: Path,
) -> None:
    hub = Hub(dict(FILES), sizes={"model.safetensors": 10**12})
    code = (
        "for place in ('hf://user/model', 'hf://user/none'):\n"
        "    try: download(place)\n"
        "    except UserError as error: print(' '.join(str(error).split()))"
    )
    with serving(hub) as address:
        done = _in_process(code, address, tmp_path)
    large, missing = done.stdout.splitlines()
    assert "model.safetensors has 1000000000000 bytes" in large
    assert hub.fetched == []
    assert missing.startswith("hf://user/none cannot be downloaded (RepositoryNotFoundError")


def test_without_the_extra_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="pip install huggingface_hub"):
        hub_module.download("hf://user/model")
    with pytest.raises(UserError, match="expected hf://user/model"):
        hub_module.download("hf://user/../model")
