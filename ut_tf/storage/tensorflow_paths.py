"""Names of files as TensorFlow takes them.

::

    with readable_by_tensorflow(Path("runs/a[1]/checkpoints/step-00000100")) as folder:
        tf.train.load_checkpoint(str(folder / "variables"))

TensorFlow's readers of checkpoints and SavedModels look for their files by a pattern: they would
not find those in a folder whose name is no pattern of itself, and might find others.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ut_tf.errors import UserError

_PATTERNS = frozenset("[]*?\\{}" if os.sep == "/" else "[]*?{}")


@contextmanager
def readable_by_tensorflow(path: Path) -> Iterator[Path]:
    """A name that TensorFlow reads, within the context: a link in a private folder where the own
    one has characters of a pattern.

    Args:
      path: of a folder, or of files without their endings, such as .index.

    Raises:
      UserError: the folder for temporary files has such a name, too.
    """
    if not _PATTERNS & set(str(path)):
        yield path
        return
    with tempfile.TemporaryDirectory() as private:
        if _PATTERNS & set(private):
            raise UserError(
                f"{path}: TensorFlow takes {''.join(sorted(_PATTERNS))} in names of folders for"
                f" patterns, and the folder for temporary files, {tempfile.gettempdir()}, has such"
                " a name, too: set TMPDIR to another one."
            )
        link = Path(private) / "files"
        if path.is_dir():
            link.symlink_to(path.absolute(), target_is_directory=True)
        for file in path.absolute().parent.iterdir():
            if file.name.startswith(f"{path.name}."):
                link.with_name(f"files{file.name.removeprefix(path.name)}").symlink_to(file)
        yield link
