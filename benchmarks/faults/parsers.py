"""The parsers that ``fuzz.py`` feeds: of each a sample that it reads, the words of its format, and
how a command comes to it.
"""

import contextlib
import gzip
import io
import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from frame import ROOT

GOLDEN = ROOT / "tests" / "golden" / "t2t_run"
STORED = ROOT / "tests" / "stored_runs" / "bytenet" / "run"

Parse = Callable[[bytes, Path], object]


class Parser(NamedTuple):
    """A parser.

    Fields:
      samples: contents that it reads.
      words: parts of its format, to make other contents of.
      parse: reads a content in an empty folder.
    """

    samples: tuple[bytes, ...]
    words: tuple[str, ...]
    parse: Parse


def _babi(content: bytes, _folder: Path) -> None:
    from ut_tf.inference.text_files import input_lines
    from ut_tf.problems.babi.lines import questions
    from ut_tf.problems.babi.stories import parse_stories

    lines = list(input_lines(io.BytesIO(content), "stories"))
    _both(lambda: [*questions(lines, "stories")], lambda: [*parse_stories(lines, 1, "stories")])


def _parallel(content: bytes, folder: Path) -> None:
    from ut_tf.data.corpus.parallel_text import ParallelFiles

    (folder / "a").write_bytes(content)
    (folder / "b").write_bytes(b"one line\n")
    _both(
        lambda: list(ParallelFiles((folder / "a",))),
        lambda: list(ParallelFiles((folder / "a",), (folder / "b",))),
    )


def _labelled(content: bytes, folder: Path) -> None:
    from ut_tf.problems.own_files.labelled_text import LabelledFiles, read_labelled

    paths = [folder / name for name in ("a.txt", "a.csv", "a.jsonl")]
    for path in paths:
        path.write_bytes(content)
    _both(*(lambda path=path: list(read_labelled(LabelledFiles((path,)))) for path in paths))


def _lambada(content: bytes, folder: Path) -> None:
    from ut_tf.problems.lambada.archive import PASSAGE_FILES, VOCABULARY_FILE, Sources

    text, packed = folder / "text", folder / "text.gz"
    text.write_bytes(content)
    packed.write_bytes(content)
    plain = Sources(None, {PASSAGE_FILES["test"]: text, VOCABULARY_FILE: text})
    _both(
        lambda: plain.passages("test"),
        plain.vocabulary,
        lambda: Sources(None, {PASSAGE_FILES["test"]: packed}).passages("test"),
        lambda: Sources(text).passages("test"),
        lambda: list(Sources(text).books(tokenize=False)),
    )


def _agreement(content: bytes, folder: Path) -> None:
    from ut_tf.problems.agreement.files import TABLE, read_simplified, read_table

    for name in (TABLE.file, "table.tsv", "numpred.val", "numpred.test.1"):
        (folder / name).write_bytes(content)
    _both(
        lambda: read_table(folder / TABLE.file),
        lambda: read_table(folder / "table.tsv"),
        lambda: read_simplified(folder),
    )


def _hparams(content: bytes, _folder: Path) -> None:
    from ut_tf.factories import make_hparams
    from ut_tf.search.config import DecodeConfig

    text = os.fsdecode(content)
    _both(lambda: make_hparams("ut_base", text), lambda: DecodeConfig.from_text(text))


def _problem_args(content: bytes, _folder: Path) -> None:
    from ut_tf.data.arguments import absolute_files
    from ut_tf.factories import make_problem, parse_problem_args

    arguments = parse_problem_args(os.fsdecode(content))
    _both(
        lambda: make_problem("babi_sim", arguments),
        lambda: make_problem("algorithmic_copy_decimal40", arguments),
        lambda: make_problem("translate_files", absolute_files("translate_files", arguments)),
    )


def _config(content: bytes, folder: Path) -> None:
    from ut_tf.errors import UserError
    from ut_tf.run import Run
    from ut_tf.tables.runs import find_runs

    (folder / "config.json").write_bytes(content)
    # A report leaves the run out, with a warning, and goes on with the others.
    with contextlib.suppress(UserError):
        find_runs([folder])
    Run.load(folder)


def _config_file(content: bytes, folder: Path) -> None:
    from ut_tf.bin.frame.config_file import parse_with_config
    from ut_tf.bin.trainer_flags import COMMAND, DESCRIPTION, FLAGS

    def parse(name: str) -> None:
        (folder / name).write_bytes(content)
        parse_with_config(COMMAND, DESCRIPTION, FLAGS, [f"--config={folder / name}"])

    _both(lambda: parse("a.yaml"), lambda: parse("a.json"))


def _metrics(content: bytes, folder: Path) -> None:
    from ut_tf.evaluation.records import RECORDS_FILE, read_records
    from ut_tf.evaluation.validations import judged
    from ut_tf.figures.curves import read_curves
    from ut_tf.training.logs import drop_lines_after

    for name in ("metrics.jsonl", RECORDS_FILE):
        (folder / name).write_bytes(content)
    list(judged(folder / "metrics.jsonl", "loss"))
    _both(lambda: read_curves(folder), lambda: read_records(folder))
    drop_lines_after(folder / "metrics.jsonl", 5)
    read_curves(folder)


def _manifest(content: bytes, folder: Path) -> None:
    from ut_tf.errors import UserError
    from ut_tf.storage.checkpoints import CheckpointStore, find_fault

    store = CheckpointStore(folder)
    store.path(120).mkdir(parents=True)
    (store.path(120) / "manifest.json").write_bytes(content)
    (store.folder / "best.json").write_bytes(content)
    store.best_step()
    if fault := find_fault(store.path(120)):
        raise UserError(fault)


def _state(content: bytes, folder: Path) -> None:
    from ut_tf.storage.checkpoints import read_state
    from ut_tf.training.averaging import averaged_steps
    from ut_tf.training.state_values import TrainingState

    checkpoint = folder / "checkpoints" / "step-00000120"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_bytes(content)
    averaged_steps(folder)
    TrainingState.from_dict(read_state(checkpoint))


def _t2t_hparams(content: bytes, folder: Path) -> None:
    from ut_tf.interop.tensor2tensor_files import named_problem, read_hparams
    from ut_tf.interop.tensor2tensor_hparams import hparams_from_hparams

    (folder / "hparams.json").write_bytes(content)
    (folder / "flags.txt").write_bytes(content)
    named_problem(folder)
    hparams_from_hparams(read_hparams(folder))


def _t2t_index(content: bytes, folder: Path) -> None:
    from ut_tf.interop.tensor2tensor_files import read_checkpoint

    (folder / "model.ckpt-301.index").write_bytes(content)
    for path in GOLDEN.glob("*.data-*"):
        (folder / path.name).symlink_to(path)
    read_checkpoint(folder)


def _pth(content: bytes, folder: Path) -> None:
    from ut_tf.interop.weights_file import weights_file

    # Also as the pickle in an archive: checksums end most of what is wrong with a whole one.
    (folder / "whole.pth").write_bytes(content)
    (folder / "pickle.pth").write_bytes(_archive(content))
    _both(lambda: weights_file(folder / "whole.pth"), lambda: weights_file(folder / "pickle.pth"))


def _safetensors(content: bytes, folder: Path) -> None:
    from ut_tf.interop.weights_file import weights_file

    (folder / "model.safetensors").write_bytes(content)
    weights_file(folder / "model.safetensors")


def _answers(content: bytes, _folder: Path) -> None:
    import requests

    from ut_tf.bin.query import _line
    from ut_tf.notices import printable
    from ut_tf.serving.rest_client import RestClient

    client = RestClient("localhost")
    reply = requests.Response()
    reply.status_code = 500 if content.startswith(b"5") else 200
    client._exchange = lambda *_: (reply, content)  # type: ignore[method-assign]

    def predict() -> None:
        for prediction in client.predict([{"inputs": "a"}]):
            for as_json in (False, True):
                printable(_line(prediction, as_json)).encode("utf-8")

    _both(lambda: client.inputs("serving_default"), predict)


def _requests(content: bytes, _folder: Path) -> None:
    from starlette.exceptions import HTTPException

    from ut_tf.errors import UserError
    from ut_tf.serving.rest_messages import SignatureInfo, parse_predict

    signatures = {"serving_default": SignatureInfo(("inputs",), {})}

    try:
        parse_predict(content, signatures)
    except HTTPException as error:
        raise UserError(str(error)) from error


def _both(*calls: Callable[[], object]) -> None:
    """Calls all of them; raises what the last one raised where all of them refuse."""
    from ut_tf.errors import UserError

    refusals = []
    for call in calls:
        try:
            call()
        except UserError as error:
            refusals.append(error)
    if len(refusals) == len(calls):
        raise refusals[-1]


def _tar(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def _archive(program: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("m/data.pkl", program)
        archive.writestr("m/data/0", bytes(24))
    return file.getvalue()


@contextlib.contextmanager
def empty_folder(folder: Path) -> Iterator[Path]:
    """A folder that is empty before and after."""
    folder.mkdir(parents=True, exist_ok=True)
    _empty(folder)
    try:
        yield folder
    finally:
        _empty(folder)


def _empty(folder: Path) -> None:
    # The folder itself stays: to remove it takes longer than most parsers do.
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


_STORY = (
    b"1 Mary moved to the hall.\n2 Where is Mary?\thall\t1\n3 John left.\n4 Who left?\tJohn\t3\n"
)
_TABLE = (
    b"sentence\tverb_pos\tverb_index\tn_intervening\tn_diff_intervening\n"
    + b"the dogs near the man run\tVBP\t6\t1\t1\nthe dog runs\tVBZ\t3\t0\t0\n" * 60
)
_PASSAGES = b"mary went home and there was mary\nthe dog saw the other dog\n"
_NUMBERS = ("0", "1", "-1", "2", "9" * 20, "9" * 400, "9" * 5000, "1e999", "NaN", "1.5")
_JSON = ("{", "}", "[", "]", ":", ",", '"', "null", "true", "\\ud800", "[" * 5000, *_NUMBERS)
_METRICS = (
    b'{"kind": "train", "step": 1, "loss": 0.5, "ponder_histogram": [0, 2]}\n'
    b'{"kind": "eval", "step": 2, "loss": 0.25}\n'
)
_METADATA = {
    "metadata": {"signature_def": {"signature_def": {"serving_default": {"inputs": {"a": {}}}}}},
    "predictions": [{"outputs": ["a\tb"], "scores": [-1.0]}],
}
_REQUEST = (
    b'{"signature_name": "serving_default",'
    b' "instances": [{"inputs": "a"}, {"inputs": {"b64": "YQ=="}}]}'
)


_TENSOR = (
    b"\x80\x02}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n"
    b"((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0\x30X\3\0\0\0cpuK\6tQ"
    b"K\0K\2K\3\x86K\3K\1\x86\x89ccollections\nOrderedDict\n)RtRs."
)
_HEADER = b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
_SAFETENSORS = len(_HEADER).to_bytes(8, "little") + _HEADER + bytes(8)


def parsers() -> dict[str, Parser]:
    """All parsers by name."""
    config = (STORED / "config.json").read_bytes()
    manifest, state = (
        (STORED / "checkpoints" / "step-00000120" / f"{name}.json").read_bytes()
        for name in ("manifest", "state")
    )
    t2t = (GOLDEN / "hparams.json").read_bytes()
    names = tuple(json.loads(t2t))
    index = (GOLDEN / "model.ckpt-301.index").read_bytes()
    hparams = b"hidden_size=32,dropout=0.1,train_steps=5,halting=basic,lengths=1+2"
    arguments = b"train_questions=100,supporting_facts=1+2,max_length=5,source_files=/dev/null"
    yaml = (
        b"problem: babi_sim\nhparams_set: ut_babi\nhparams: {dropout: 0.1}\n"
        b"problem_args: {seed: 1}\n"
    )
    labelled = (
        b"good\tI liked it\n__label__bad no\n",
        b'text,label\n"I, too",good\nno,bad\n',
        b'{"text": "a", "label": 1}\n',
    )
    lambada = (
        _PASSAGES,
        b"the\t12\nmary\t3\n",
        gzip.compress(_PASSAGES),
        _tar("lambada_test_plain_text.txt", _PASSAGES),
        _tar("train-novels.tar", _tar("a.txt", _PASSAGES)),
    )
    agreement = (_TABLE, gzip.compress(_TABLE), b"VBZ\tthe dog\nVBP\tthe dogs\n" * 30)
    pairs = (b"a dog\tein Hund\nb\tc\n", gzip.compress(b"a\tb\n"))
    replies = (json.dumps(_METADATA).encode(), b'5{"error": "a"}', b'{"predictions": ["a"]}')
    requests = (_REQUEST, b"/v1/models/a/versions/1:predict")
    manifests = (b'{"files": {}}', manifest, b'{"step": 120}')
    fitting = b"train_questions=100,supporting_facts=1+2"
    decoding = b"beam_size=4,alpha=0.6,n_best=2"
    return {
        "babi": of(_babi, (_STORY,), "1 2 \t ? \x85", _NUMBERS),
        "parallel_text": of(_parallel, pairs, "\t \r"),
        "labelled_text": of(_labelled, labelled, "\t text label __label__", _JSON),
        "lambada": of(_lambada, lambada, "\t the", _NUMBERS),
        "agreement": of(_agreement, agreement, '\t VBZ VBP " sentence', _NUMBERS),
        "hparams": of(
            _hparams,
            (hparams, decoding),
            "= , + hidden_size dropout beam_size top_p None",
            _NUMBERS,
        ),
        "problem_args": of(
            _problem_args,
            (fitting, arguments),
            "= , + train_questions max_length seed source_files ~",
            _JSON,
        ),
        "config_json": of(
            _config,
            (config,),
            "hparams spec seed usr_dir network training hidden_size model",
            _JSON,
        ),
        "config_file": of(_config_file, (yaml, config), "problem : - &a *a", _JSON),
        "metrics_jsonl": of(_metrics, (_METRICS,), "kind step loss", _JSON),
        "checkpoint_manifest": of(_manifest, manifests, "files bytes sha256 step", _JSON),
        "checkpoint_state": of(_state, (state,), "step position window", _JSON),
        "t2t_hparams": of(_t2t_hparams, (t2t, b"--problem=a\n"), "--problem=", (*names, *_JSON)),
        "t2t_index": of(_t2t_index, (index,), "a \0"),
        "pytorch_checkpoint": of(
            _pth,
            (_TENSOR, _archive(_TENSOR)),
            "} ( t R Q s u . b q\0 h\0 ) \x85 \x89 PK\1\2",
            _NUMBERS,
        ),
        "safetensors": of(_safetensors, (_SAFETENSORS,), "dtype BF16 shape data_offsets \0", _JSON),
        "query_answers": of(
            _answers, replies, "predictions outputs error metadata inputs \x1b[2J", _JSON
        ),
        "serve_requests": of(
            _requests, requests, "instances inputs b64 signature_name /v1/models/ :predict", _JSON
        ),
    }


def of(parse: Parse, samples: tuple[bytes, ...], words: str, more: tuple[str, ...] = ()) -> Parser:
    """A parser; `words` with a space between them."""
    return Parser(samples, (*words.split(" "), *more), parse)
