"""Subword vocabularies: trained with sentencepiece or read from a file. Needs no TensorFlow.

How it is used::

    model = train_subwords(lines, size=8000, kind="bpe", exact=True)     # a sentencepiece model
    subwords = Subwords(model, "my.model")
    subwords.size, subwords.encode(["Ein Hund läuft."])  # 8000, [[17, 403, 96, 5, 1]]

Ids: 0 padding, 1 end, 2 unknown, then 256 bytes, so that no character is lost. The ids of a model
from elsewhere are shifted by 2, unless its padding and end are 0 and 1 too. Text is normalized to
NFC, and control characters become blanks.
"""

import functools
import io
import itertools
import re
import tempfile
import typing
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from ut_tf.errors import UserError
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID, PADDING_ID

SubwordKind = Literal["bpe", "unigram", "char"]
SPACE_MARK = "\u2581"
"""Sentencepiece's sign for a blank, which becomes one where it stands in a text."""
# Characters that make up this share of the text have pieces of their own; the rest is written as
# bytes.
_COVERAGE = 0.9999
# Sentencepiece splits its work in this many parts; a fixed number, so that a vocabulary does not
# follow from the machine.
_THREADS = 16
_LONGEST_WORD = 16
# Bytes; of longer ones sentencepiece says nothing.
_LONGEST_LINE = 4192
_BYTES_OF_A_CHARACTER = 4
# Padding, end, unknown and the bytes have ids in any vocabulary. A subword is three to four
# characters of text, so that each is seen some thirty times.
_BYTES_AND_SPECIAL = 259
_CHARACTERS_OF_A_SUBWORD = 100
# Runs of blanks are subwords of their own.
_KEEPING_BLANKS: dict[str, Any] = {
    "remove_extra_whitespaces": False,
    "allow_whitespace_only_pieces": True,
}
# Sentencepiece keeps the size as a 32-bit number.
_LARGEST_SIZE = 2**31 - 1


class SubwordOptions(TypedDict, total=False):
    """The arguments of a problem that say which vocabulary it has.

    Args:
      vocab_size: ids of the vocabulary at most; 0: the problem's own number.
      subword_model: "bpe", "unigram" or "char".
      vocab_file: a sentencepiece model or a vocabulary of tensor2tensor to use instead of training
        one; empty: none.
    """

    vocab_size: int
    subword_model: SubwordKind
    vocab_file: str


def check_kind(kind: str) -> None:
    """Raises UserError where there is no such kind of vocabulary."""
    if kind not in typing.get_args(SubwordKind):
        raise UserError(f"`subword_model`={kind!r}: expected bpe, unigram or char.")


def fit_texts(texts: Iterable[str], size: int) -> tuple[Iterable[str], int]:
    """The texts of a vocabulary, and how many ids suit them: of a small text fewer than `size`, so
    that each subword is seen often enough to be learnt.

    Args:
      texts: lines; of a small text they are kept in memory.
      size: ids of the vocabulary at most.
    """
    every = iter(texts)
    begin: list[str] = []
    alphabet: set[str] = set()
    characters = 0
    for text in every:
        begin.append(text)
        characters += len(text)
        alphabet.update(text)
        fitting = _BYTES_AND_SPECIAL + len(alphabet) + characters // _CHARACTERS_OF_A_SUBWORD
        if fitting >= size:
            return itertools.chain(begin, every), size
    return begin, min(size, fitting) if begin else size


def train_subwords(
    texts: Iterable[str],
    size: int,
    kind: SubwordKind = "bpe",
    exact: bool = True,
    sized: bool = True,
    keep_blanks: bool = False,
) -> bytes:
    """A sentencepiece model trained on `texts`.

    Args:
      texts: lines, of any length.
      size: ids of the vocabulary, padding, end, unknown and bytes included.
      kind: "bpe" (byte pair encoding, Sennrich et al., arXiv 1508.07909), "unigram" (Kudo, arXiv
        1804.10959) or "char" (single characters).
      exact: whether `size` must be met; otherwise, and of characters, the vocabulary is as large as
        the text supports, at most `size`.
      sized: whether the user gave the size; the model notes it as a limit, as ut-tf 0.4 did, so
        that data prepared again has equal bytes.
      keep_blanks: whether runs of blanks, blanks at the ends of a text and tabs are kept.

    Raises:
      UserError: `size` is no size, too small for the characters of the text or, with `exact`,
        larger than what the text supports; the message names the bound.
    """
    import sentencepiece

    if not 0 < size <= _LARGEST_SIZE:
        raise UserError(
            f"`vocab_size`={size}: expected a whole number from 1 to {_LARGEST_SIZE:,}, such as"
            " 32000."
        )
    written = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        rules.write(_normalization_rules(keep_blanks))
        rules.flush()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(part for text in texts for part in cut_line(text)),
                model_writer=written,
                vocab_size=size,
                model_type=kind,
                hard_vocab_limit=exact,
                normalization_rule_tsv=rules.name,
                character_coverage=_COVERAGE,
                byte_fallback=True,
                pad_id=PADDING_ID,
                eos_id=END_ID,
                unk_id=FIRST_SYMBOL_ID,
                bos_id=-1,
                max_sentencepiece_length=_LONGEST_WORD,
                num_threads=_THREADS,
                minloglevel=2,
                **(_KEEPING_BLANKS if keep_blanks else {}),
            )
        except RuntimeError as error:
            raise _told(error, size) from error
    return _reproducible(written.getvalue(), sized)


def cut_line(text: str) -> Iterator[str]:
    """Yields a line in parts of at most 4,192 bytes, since sentencepiece leaves out longer ones:
    cut at blanks, which no part has then, and where there are none between characters.
    """
    begin = 0
    while _is_too_long(text, begin):
        content = text[begin : begin + _LONGEST_LINE + 1].encode()
        longest = len(content[:_LONGEST_LINE].decode(errors="ignore"))
        blank = text.rfind(" ", begin + 1, begin + longest + 1)
        if blank > begin:
            yield text[begin:blank]
            begin = blank + 1
        else:
            yield text[begin : begin + longest]
            begin += longest
    yield text[begin:]


def _is_too_long(text: str, begin: int) -> bool:
    characters = len(text) - begin
    if characters * _BYTES_OF_A_CHARACTER <= _LONGEST_LINE:
        return False
    return characters > _LONGEST_LINE or len(text[begin:].encode()) > _LONGEST_LINE


def smaller_vocabulary(name: str, kind: SubwordKind, size: int, wanted: int) -> str:
    """The line that says that a vocabulary has fewer subwords than were wanted; empty where it has
    as many, or is of characters, of which a text has few.

    Args:
      name: of the problem.
      kind: of the vocabulary.
      size, wanted: numbers of subwords.
    """
    if size >= wanted or kind == "char":
        return ""
    return (
        f"{name}: the vocabulary has {size:,} subwords instead of {wanted:,}: the training text"
        " is too small for more"
    )


class Subwords:
    """A sentencepiece model and the way from its ids to ours.

    Args:
      model: the bytes of the model.
      where: file that it comes from, for messages.

    Raises:
      UserError: these bytes are no such model.
    """

    def __init__(self, model: bytes, where: str | Path = "the vocabulary") -> None:
        import sentencepiece

        # No bytes are to sentencepiece as if no model were given.
        if not model:
            raise UserError(
                f"{where} is empty: expected the .model file that sentencepiece's training wrote."
            )
        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise UserError(
                f"{where} is no sentencepiece model: expected the .model file that sentencepiece's"
                " training wrote."
            ) from error
        has_our_ids = (self._processor.pad_id(), self._processor.eos_id()) == (PADDING_ID, END_ID)
        self.shift = 0 if has_our_ids else FIRST_SYMBOL_ID
        """The difference between our ids and the model's."""
        self.size: int = self._processor.get_piece_size() + self.shift
        """Number of our ids."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, each ended by END_ID."""
        encoded: list[list[int]] = self._processor.encode(list(texts), out_type=int)
        if self.shift:
            return [[*(number + self.shift for number in ids), END_ID] for ids in encoded]
        for ids in encoded:
            ids.append(END_ID)
        return encoded

    @property
    def keeps_blanks(self) -> bool:
        """Whether runs of blanks, and blanks at the ends of a text, are kept."""
        from sentencepiece import sentencepiece_model_pb2

        proto = sentencepiece_model_pb2.ModelProto.FromString(self.model)
        return not proto.normalizer_spec.remove_extra_whitespaces

    @property
    def spelled(self) -> frozenset[int]:
        """Our ids of bytes and of the unknown, by which characters without a piece are written."""
        model = self._processor
        return frozenset(
            number + self.shift
            for number in range(model.get_piece_size())
            if model.is_byte(number) or model.is_unknown(number)
        )

    def merges(self) -> dict[str, int]:
        """Our id of each subword of a byte pair encoding, characters included, the earliest merge
        first (that of the highest score); empty for other models.
        """
        from sentencepiece import sentencepiece_model_pb2

        proto = sentencepiece_model_pb2.ModelProto.FromString(self.model)
        if proto.trainer_spec.model_type != sentencepiece_model_pb2.TrainerSpec.BPE:
            return {}
        normal = sentencepiece_model_pb2.ModelProto.SentencePiece.NORMAL
        merged = sorted(enumerate(proto.pieces), key=lambda entry: -entry[1].score)
        return {
            piece.piece: number + self.shift for number, piece in merged if piece.type == normal
        }


@functools.cache
def _normalization_rules(keeps_tabs: bool = False) -> str:
    """Sentencepiece's rules (hexadecimal code points, tab, what they become) for NFC and control
    characters.
    """
    rules = {chr(code): " " for code in [*range(1, 0x20), *range(0x7F, 0xA0)]}
    if keeps_tabs:
        del rules["\t"]
    rules["\ufeff"] = ""
    for code in range(0xA0, 0x30000):
        if 0xAC00 <= code <= 0xD7A3 or 0xD800 <= code <= 0xDFFF:
            continue  # Hangul syllables, whose 11,172 rules would be most of all, and surrogates.
        character = chr(code)
        step = unicodedata.decomposition(character)
        if step and not step.startswith("<"):
            composed = unicodedata.normalize("NFC", character)
            parts = "".join(chr(int(part, 16)) for part in step.split())
            for spelled in (character, parts, unicodedata.normalize("NFD", character)):
                if spelled != composed:
                    rules[spelled] = composed
    return "".join(
        f"{_hexadecimal(old)}\t{_hexadecimal(new)}\n" for old, new in sorted(rules.items())
    )


def _hexadecimal(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def _reproducible(model: bytes, sized: bool) -> bytes:
    """The model with what follows from text and size alone, so that equal text gives equal bytes:
    without the name of the temporary file with its rules.
    """
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.normalization_rule_tsv = ""
    proto.trainer_spec.hard_vocab_limit = sized
    return bytes(proto.SerializeToString(deterministic=True))


def _told(error: RuntimeError, size: int) -> Exception:
    text = str(error)
    too_high = re.search(r"too high .*<= (\d+)", text)
    if too_high:
        return UserError(
            f"`vocab_size`={size}: the training text supports at most {too_high[1]} subwords; give"
            " that or less."
        )
    if "sentences_.empty()" in text:
        return UserError(
            "the training text has no line that a vocabulary could be trained on: give more text,"
            " or other filters."
        )
    if "char_model_trainer" in text:
        return UserError(
            f"`vocab_size`={size}: padding, end, unknown and the 256 bytes need"
            f" {_BYTES_AND_SPECIAL}; give more, one for each character."
        )
    too_low = re.search(r"smaller than required_chars\. \d+ vs (\d+)", text)
    if too_low:
        return UserError(
            f"`vocab_size`={size}: the characters of the training text and the 256 bytes need at"
            f" least {too_low[1]}; give more."
        )
    return error
