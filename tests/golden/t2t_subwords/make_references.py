"""Ids and texts of tensor2tensor's SubwordTextEncoder.

tests/data/text/test_subwords.py compares ours with them.

::

    python make_references.py ../../../README.md ../../../docs/*.md   # Python 3.7, tensor2tensor

Writes a vocabulary trained on the files and on German lines, the ids of strange lines (without the
blanks at their ends, as tensor2tensor's decoder reads them), and what random ids are decoded to.
"""

import json
import random
import sys
from pathlib import Path

from tensor2tensor.data_generators.text_encoder import SubwordTextEncoder

HERE = Path(__file__).parent
GERMAN = [
    "Zwei Hunde laufen über eine grüne Wiese, und ein Mann sieht ihnen zu.",
    "Fußgänger überqueren die Straße; es regnet seit Tagen.",
    "„Größer als gestern“, sagte sie – und lächelte.",
]
FIXED = [
    "",
    "a",
    " ",
    "  two  blanks   and three ",
    "\ttabs\tbetween\twords\t",
    "a b",
    "a . b",
    "a.b",
    "a .b",
    "don't won't 'tis",
    "snake_case __init__ _ __ ___",
    "back\\slash \\u \\\\ \\95; \\9999999999; \\;",
    "under\\_score",
    "100% of 3.14159 or 1,000,000.00 €",
    "½ ² ① Ⅷ ٣ ৪ 五",
    "日本語のテキスト、句読点。",
    "中文没有空格",
    "Ελληνικά και кириллица",
    "naïve café résumé",
    "nai\u0308ve cafe\u0301",
    "שלום עולם مرحبا بالعالم",
    "हिन्दी में पाठ",
    "emoji 😀 👩‍👩‍👧 🇩🇪",
    "zero\u200bwidth\u200djoiner\ufeffmark",
    "nbsp\u00a0between and\u3000wide",
    "line\u2028separator\u0085next",
    "control\x00\x01\x7fcharacters",
    "quotes ' \" ` ´ ‘ ’ “ ”",
    "<pad> <EOS> <pad>_ <EOS>_ <unk>",
    "http://example.org/a_b?c=d&e=f#g",
    "user@example.org, (brackets) [and] {braces}",
    "MiXeD CaSe ALLCAPS lower",
    "supercalifragilisticexpialidocious" * 3,
    "x" * 200,
    "!" * 50,
    "1" * 60,
    "a-b–c—d−e",
    "...!?;:,,",
    "\U0001f600",
    "𝒜𝓁𝓅𝒽𝒶 𝟙𝟚𝟛",
    "\ud7a3 \ue000 \ufffd \uffff",
    "ǅ ʰ ª º",
    "und\u00adtrenn\u00adbar",
    "n+1 <= 2*m, a != b",
]


def lines(draws):
    """The fixed lines, and random ones of words, signs and characters."""
    words = ["the", "Universal", "Hund", "über", "42", "straße", "state's", "halting", "π", "日"]
    signs = [" ", " ", " ", "  ", ", ", ". ", "-", "_", "\\", "'", " (", ") ", "…", "\t", "", "\n"]
    for _ in range(90):
        yield "".join(draws.choice(words) + draws.choice(signs) for _ in range(draws.randint(1, 9)))
    ranges = [(32, 126), (160, 0x24F), (0x370, 0x5FF), (0x900, 0xDFF), (0x2000, 0x2BFF)]
    ranges += [(0x3040, 0x30FF), (0x4E00, 0x9FFF), (0x1F300, 0x1F5FF), (0, 31)]
    for _ in range(70):
        low, high = draws.choice(ranges)
        text = [chr(draws.randint(low, high)) for _ in range(draws.randint(1, 30))]
        yield "".join(character + draws.choice(["", "", " ", "a"]) for character in text)


def main(files):
    draws = random.Random(0)
    texts = [line.strip() for name in files for line in Path(name).read_text("utf-8").split("\n")]
    encoder = SubwordTextEncoder.build_from_generator(texts + GERMAN * 20, 512)
    encoder.store_to_file(str(HERE / "vocab.toy.512.subwords"))
    encoder = SubwordTextEncoder(str(HERE / "vocab.toy.512.subwords"))
    encoded = []
    for text in [*FIXED, *lines(draws)]:
        try:
            encoded.append([text, encoder.encode(text.strip())])
        except AssertionError:
            # It has no subword for a letter of "<pad>" or "<EOS>".
            print("tensor2tensor cannot encode", repr(text))
    decoded = []
    escape = [encoder._subtoken_string_to_id[character] for character in "\\u_;09"]
    for _ in range(60):
        ids = [draws.randrange(2, encoder.vocab_size) for _ in range(draws.randint(1, 12))]
        ids = [draws.choice(escape) if draws.random() < 0.3 else number for number in ids]
        decoded.append([ids, encoder.decode(ids)])
    for numbers in ("\\228;_", "\\8364;a_", "\\99999999;_", "\\1114112;_", "\\0;x_", "\\u\\\\u_"):
        ids = [encoder._subtoken_string_to_id[character] for character in numbers]
        decoded.append([ids, encoder.decode(ids)])
    values = {"vocab_size": encoder.vocab_size, "encoded": encoded, "decoded": decoded}
    (HERE / "references.json").write_text(json.dumps(values) + "\n")
    print(encoder.vocab_size, len(encoded), len(decoded))


if __name__ == "__main__":
    main(sys.argv[1:])
