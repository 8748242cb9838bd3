"""ut-bleu: scores translations against references.

``ut-bleu --translation=news.de --reference=news.ref.de``
"""

import sys
from collections.abc import Mapping

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flag_values import chosen_variants, files
from ut_tf.bin.frame.flags import FlagError
from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.metrics.bleu import Score, check_lines, corpus_scores
from ut_tf.paths import expanded

COMMAND, DESCRIPTION, FLAGS = declaration("bleu")


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    variants = chosen_variants(values.bleu_variant)
    if not values.translation or not values.reference:
        raise FlagError(f"--translation and --reference are needed; see {COMMAND} --help.")
    paths = [expanded(values.translation), *files(values.reference)]
    texts = [list(read_lines(path)) for path in paths]
    check_lines(len(texts[0]), [len(lines) for lines in texts[1:]], [str(path) for path in paths])
    scores = corpus_scores(texts[0], texts[1:], variants, values.tokenize, values.ter, advise=True)
    if values.rouge:
        from ut_tf.metrics.rouge import rouge_scores

        scores |= rouge_scores(texts[0], texts[1:])
    print(_table(scores))


def _table(scores: Mapping[str, Score]) -> str:
    """One line for each figure, with sacrebleu's details and signature."""
    titles = {
        name: f"BLEU_{name.removeprefix('bleu_')}" if name.startswith("bleu_") else score.name
        for name, score in scores.items()
    }
    width = max(map(len, titles.values()), default=0)
    lines = []
    for name, score in scores.items():
        details = f"  {score.details}" if score.details else ""
        lines.append(f"{titles[name]:<{width}} = {score.value:6.2f}{details}  [{score.signature}]")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
