"""Runs of tensor2tensor with their vocabulary of subwords: two networks that tensor2tensor trained
translate as they did there. tests/golden/t2t_translation/make_references.py wrote them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ut_tf.bin import decoder, import_t2t
from ut_tf.errors import UserError
from ut_tf.inference.translator import Translator
from ut_tf.interop.tensor2tensor import import_run
from ut_tf.interop.tensor2tensor_vocabulary import find_vocabulary, named_vocabulary
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.search.config import DecodeConfig

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
TRAINED = GOLDEN / "t2t_translation"
VOCABULARY = "vocab.translate_toy.64.subwords"
NETWORKS = sorted(path.name for path in TRAINED.iterdir() if path.is_dir())
LARGEST_DIFFERENCE = 1e-4


def references(network: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((TRAINED / network / "references.json").read_text())
    return found


def imported(network: str, folder: Path) -> Run:
    """Returns the imported run, loaded from its directory alone."""
    import_run(
        TRAINED / network,
        folder / "run",
        target_space_id=1,
        data_dir=folder / "data",
        tmp_dir=folder / "tmp",
    )
    shutil.rmtree(folder / "data")
    return Run.load(folder / "run")


@pytest.mark.slow  # The commands below translate with the Transformer in every run of the tests.
@pytest.mark.parametrize("network", NETWORKS)
def test_a_trained_network_translates_as_tensor2tensor_does(network: str, tmp_path: Path) -> None:
    expected = references(network)
    right = sum(entry["greedy"]["text"] == entry["target"] for entry in expected)
    assert right >= len(expected) // 3  # It has learnt something.
    lines = [(entry["source"],) for entry in expected]
    run = imported(network, tmp_path)
    for label, options in (("greedy", {"beam_size": 1}), ("beam4", {"beam_size": 4, "alpha": 0.6})):
        config = DecodeConfig(**options, extra_length=10, wide_ends=True)
        translator = Translator.from_run(run, "last", config)
        for entry, (best, *_) in zip(expected, translator.translate(lines), strict=True):
            theirs = entry[label]["text"]
            if label == "beam4":
                assert best.score == pytest.approx(entry["beam4"]["score"], abs=LARGEST_DIFFERENCE)
            if best.text != theirs:
                ours, other = translator.score([(entry["source"],)] * 2, [best.text, theirs])
                assert ours == pytest.approx(other, abs=LARGEST_DIFFERENCE), "no tie"


@pytest.mark.usefixtures("eager")
def test_the_commands_of_a_user_of_tensor2tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = references("transformer")[:6]
    (tmp_path / "lines.txt").write_text("".join(f"{entry['source']}\n" for entry in expected))
    t2t_dir, data_dir = tmp_path / "t2t", tmp_path / "data"
    shutil.copytree(TRAINED / "transformer", t2t_dir)
    data_dir.mkdir()
    (t2t_dir / VOCABULARY).rename(data_dir / VOCABULARY)
    where = ["--data_dir=~/data", f"--tmp_dir={tmp_path}", f"--output_dir={tmp_path}/run"]
    assert import_t2t.main(["--t2t_dir=~/t2t", "--target_space_id=1", *where]) == 0
    printed = capsys.readouterr()
    assert f"the run translates with the subwords of {data_dir}" in printed.err
    assert printed.out == f"next: ut-decoder --output_dir={tmp_path}/run\n"
    out = tmp_path / "out.txt"
    files = [f"--decode_from_file={tmp_path}/lines.txt", f"--decode_to_file={out}"]
    options = "--decode_hparams=beam_size=4,alpha=0.6,wide_ends=true"
    assert decoder.main([f"--output_dir={tmp_path}/run", options, *files]) == 0
    assert out.read_text().splitlines() == [entry["beam4"]["text"] for entry in expected]


def test_a_run_with_a_vocabulary_alone_is_not_trained_on(tmp_path: Path) -> None:
    run = imported("transformer", tmp_path)
    assert run.problem == "translate_files"
    run.prepare()
    with pytest.raises(UserError, match="no training text: name its files with `source_files`"):
        run.make_problem().examples("train", run.data_dir)


def test_which_vocabulary_is_taken(tmp_path: Path) -> None:
    path = TRAINED / "transformer" / VOCABULARY
    size = len(path.read_text(encoding="utf-8").splitlines())
    spec = ProblemSpec("tokens", "tokens", size, size, shared_vocab=True)
    assert named_vocabulary(path, spec) == path
    shutil.copy(path, tmp_path / "vocab.a")
    (tmp_path / "vocab.other").write_text("<pad>\n<EOS>\na\n")
    assert find_vocabulary([tmp_path], spec) == tmp_path / "vocab.a"
    *lines, last, end = path.read_text(encoding="utf-8").split("\n")
    (tmp_path / "vocab.b").write_text("\n".join([*lines[:-1], last, lines[-1], end]))
    with pytest.raises(UserError, match=r"is not clear, .*vocab\.a, .*vocab\.b: give `vocab`"):
        find_vocabulary([tmp_path], spec)
    larger = ProblemSpec("tokens", "tokens", size + 1, size + 1, shared_vocab=True)
    assert find_vocabulary([tmp_path], larger) is None
    two = ProblemSpec("tokens", "tokens", size, size + 1)
    assert find_vocabulary([tmp_path], two) is None
    with pytest.raises(UserError, match=rf"has {size} subwords, and the network {size + 1} and"):
        named_vocabulary(path, larger)
    with pytest.raises(UserError, match=r"does not begin with <pad> and <EOS>"):
        named_vocabulary(TRAINED / "make_references.py", spec)
    with pytest.raises(UserError, match=r"cannot be read \(No such file"):
        named_vocabulary(tmp_path / "vocab.none", spec)
    language = ProblemSpec("none", "tokens", 0, size)
    with pytest.raises(UserError, match=r"is a language model.*`problem`=lm_files"):
        named_vocabulary(path, language)
