"""Multi30k: descriptions of photographs, English to German or French (Elliott et al., arXiv
1605.00459; Section 3 of its task 1).

29,000 training pairs, 1,014 for validation (val), 1,000 for test (test_2016_flickr), as they stand
in the repository multi30k/dataset under data/task1/raw: plain text, neither tokenised nor
lower-cased. The files train.en.gz and so on are taken from the temporary
directory or its folder multi30k, or downloaded there.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Unpack

from ut_tf.data.corpus.encoding import Pair
from ut_tf.data.corpus.parallel_text import ParallelFiles
from ut_tf.data.download import Archive, find_or_download
from ut_tf.problems.translation.problem import Translation, TranslationOptions

FOLDER = "multi30k"
_ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
_PARTS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
CHECKSUMS = {
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}


class TranslateMulti30k(Translation):
    """Multi30k between English and another language.

    Args:
      language: "de" or "fr".
      name: of the problem, for messages.
      **options: see ``TranslationOptions``.
    """

    def __init__(
        self,
        language: Literal["de", "fr"] = "de",
        name: str = "translate_ende_multi30k",
        **options: Unpack[TranslationOptions],
    ) -> None:
        self._language = language
        super().__init__(name, f"multi30k-en{language}", 8000, **options)

    def pairs(self, data_dir: Path, tmp_dir: Path) -> Mapping[str, Iterable[Pair]]:
        """The pairs in the files; see the module's text."""
        for part in _PARTS.values():
            for language in ("en", self._language):
                self._find(f"{part}.{language}.gz", tmp_dir)
        return {
            split: ParallelFiles(
                (_path(f"{part}.en.gz", tmp_dir),), (_path(f"{part}.{self._language}.gz", tmp_dir),)
            )
            for split, part in _PARTS.items()
        }

    def files(self, tmp_dir: Path) -> list[Path]:
        """The six files."""
        return [
            _path(f"{part}.{language}.gz", tmp_dir)
            for part in _PARTS.values()
            for language in ("en", self._language)
        ]

    def identity(self) -> Any:
        """The other language."""
        return self._language

    def _find(self, file: str, tmp_dir: Path) -> None:
        """Downloads a file, unless it is there; a file that is not the published one is used with a
        warning.
        """
        archive = Archive(
            file,
            (f"{_ADDRESS}/{file}",),
            CHECKSUMS[file],
            "the problem translate_files takes files of any name",
        )
        find_or_download(archive, _path(file, tmp_dir).parent, self.name)


def _path(file: str, tmp_dir: Path) -> Path:
    """The path of a file of Multi30k, whether or not it is there."""
    return tmp_dir / file if (tmp_dir / file).is_file() else tmp_dir / FOLDER / file
