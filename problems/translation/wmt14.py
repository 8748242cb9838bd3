"""WMT14: news translation between English and German or French, through tensorflow-datasets'
wmt14_translate.

Training text: Europarl v7, Common Crawl and News Commentary v9 (4.5 million pairs with German), for
French UN and Giga as well (about 40 million). Validation newstest2013, test newstest2014. What
tensorflow-datasets prepared before in the data directory is used; otherwise it downloads the
archives to the temporary directory. Vaswani et al. (arXiv 1706.03762) share 37,000 subwords between
English and German; tensor2tensor's translate_ende_wmt32k has about 32,000 of the same text.
"""

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack

import tensorflow_datasets as tfds

from ut_tf.data.corpus.encoding import Pair
from ut_tf.data.download import check_reachable
from ut_tf.errors import UserError
from ut_tf.notices import report
from ut_tf.problems.translation.problem import Translation, TranslationOptions

_SERVER = "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"
_BATCH = 1000
_ADVICE = (
    "prepare wmt14_translate/{config} with tensorflow-datasets on a machine with a network and copy"
    " its folder wmt14_translate into {data_dir}, or give files of your own to the problem"
    " translate_files"
)


@dataclass(frozen=True)
class TfdsPairs:
    """The pairs of a split of a tensorflow-datasets translation builder, in its order.

    Args:
      builder: prepared.
      split: "train", "validation" or "test".
      languages: of source and target, as the builder names them.
    """

    builder: Any
    split: str
    languages: tuple[str, str]

    def __iter__(self) -> Iterator[Pair]:
        """Yields (source, target); a line feed inside a text becomes a blank."""
        config = tfds.ReadConfig(interleave_cycle_length=1)
        batches = self.builder.as_dataset(
            split=self.split, shuffle_files=False, read_config=config
        ).batch(_BATCH)
        for batch in batches.as_numpy_iterator():
            pairs = zip(*(batch[language] for language in self.languages), strict=True)
            for source, target in pairs:
                yield _line(source), _line(target)


class TranslateWmt14(Translation):
    """WMT14 between English and another language.

    Args:
      language: "de" or "fr".
      default_vocab_size: where `vocab_size` is 0.
      name: of the problem, for messages.
      **options: see ``TranslationOptions``.
    """

    def __init__(
        self,
        language: Literal["de", "fr"] = "de",
        default_vocab_size: int = 37_000,
        name: str = "translate_ende_wmt14",
        **options: Unpack[TranslationOptions],
    ) -> None:
        self._language = language
        super().__init__(name, f"wmt14-en{language}", default_vocab_size, **options)

    def pairs(self, data_dir: Path, tmp_dir: Path) -> Mapping[str, Iterable[Pair]]:
        """The pairs that tensorflow-datasets prepared, or prepares now.

        Raises:
          UserError: they are not there and cannot be downloaded.
        """
        builder = tfds.builder(
            f"wmt14_translate/{self._language}-en", data_dir=str(data_dir), try_gcs=False
        )
        if not builder.is_prepared():
            _download(builder, self.name, data_dir, tmp_dir)
        return {split: TfdsPairs(builder, split, ("en", self._language)) for split in self.splits}

    def identity(self) -> Any:
        """The other language."""
        return self._language


def _download(builder: Any, name: str, data_dir: Path, tmp_dir: Path) -> None:
    advice = _ADVICE.format(config=builder.builder_config.name, data_dir=data_dir)
    # Without a network tensorflow-datasets would try for minutes.
    check_reachable(_SERVER, f"the text of {name}", advice)
    report(f"tensorflow-datasets prepares {builder.info.full_name} in {data_dir}")
    config = tfds.download.DownloadConfig(try_download_gcs=False)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            builder.download_and_prepare(download_dir=str(tmp_dir), download_config=config)
    except (
        OSError,
        tfds.download.DownloadError,
        tfds.download.download_manager.NonMatchingChecksumError,
    ) as error:
        if (
            isinstance(error, OSError)
            and error.errno is not None
            and not isinstance(error, ConnectionError)
        ):
            raise  # The disk refused, which is told elsewhere.
        raise UserError(
            f"tensorflow-datasets could not download the text of {name} ({error}): try again, or"
            f" {advice}."
        ) from error


def _line(text: bytes) -> str:
    return text.decode("utf-8").replace("\n", " ")
