"""The vocabulary of subwords that a network of tensor2tensor was trained with, named or found where
tensor2tensor keeps it.
"""

from collections.abc import Iterable
from pathlib import Path

from ut_tf.data.text.tensor2tensor_subwords import Tensor2TensorSubwords
from ut_tf.errors import UserError, file_errors
from ut_tf.paths import expanded
from ut_tf.problem_spec import ProblemSpec
from ut_tf.storage.files import read_vocabulary

TEXT_PROBLEM = "translate_files"
"""The problem of a network whose texts are not at hand: its vocabulary is enough to translate."""


def named_vocabulary(file: str | Path, spec: ProblemSpec) -> Path:
    """The path of a vocabulary, absolute.

    Args:
      file: its name.
      spec: of the network.

    Raises:
      UserError: it is no vocabulary of tensor2tensor's, or not of this network.
    """
    path = expanded(str(file)).absolute()
    with file_errors(
        f"`vocab`={file}", "name the file vocab.* that tensor2tensor wrote into its data_dir"
    ):
        content = read_vocabulary(path)
    if not Tensor2TensorSubwords.is_such(content):
        raise UserError(
            f"`vocab`={file} does not begin with <pad> and <EOS>: expected a vocabulary of"
            " tensor2tensor's subword encoder, the file vocab.* in its data_dir."
        )
    size = Tensor2TensorSubwords(content, path).size
    if spec.inputs == "none":
        raise UserError(
            f"`vocab`={file}: the network is a language model, which is imported with its text:"
            " give `problem`=lm_files and its `problem_args`, vocab_file among them."
        )
    if {spec.input_vocab_size, spec.target_vocab_size} != {size}:
        sizes = f"{spec.input_vocab_size} and {spec.target_vocab_size}"
        raise UserError(
            f"`vocab`={file} has {size} subwords, and the network {sizes} for inputs and targets:"
            " expected the one vocabulary that it was trained with."
        )
    return path


def find_vocabulary(folders: Iterable[Path], spec: ProblemSpec) -> Path | None:
    """The file vocab.* in the folders that has as many subwords as a network that translates; None:
    there is none, or the network has two vocabularies.

    Raises:
      UserError: there are several.
    """
    sizes = {spec.input_vocab_size, spec.target_vocab_size}
    if (spec.inputs, spec.targets) != ("tokens", "tokens") or len(sizes) > 1:
        return None
    files = [path for folder in folders for path in sorted(folder.glob("vocab.*"))]
    fitting = {content: path for path in files if _size(content := _content(path)) in sizes}
    if len(fitting) > 1:
        names = ", ".join(map(str, fitting.values()))
        raise UserError(f"which vocabulary the network has is not clear, {names}: give `vocab`.")
    return next((path.absolute() for path in fitting.values()), None)


def _content(path: Path) -> bytes:
    try:
        return read_vocabulary(path)
    except OSError:
        return b""


def _size(content: bytes) -> int:
    """The number of subwords; 0: this is no vocabulary of tensor2tensor's."""
    if not Tensor2TensorSubwords.is_such(content):
        return 0
    return content.removesuffix(b"\n").count(b"\n") + 1
