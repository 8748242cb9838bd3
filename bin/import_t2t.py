"""ut-import-t2t: makes a run directory of ours from one of tensor2tensor's; the former name of
``ut-import --from=tensor2tensor``.

``ut-import-t2t --t2t_dir=t2t_train/reverse --output_dir=runs/imported``
"""

import sys

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point
from ut_tf.bin.import_flags import TENSOR2TENSOR, import_tensor2tensor

COMMAND = "ut-import-t2t"
DESCRIPTION = """ut-import-t2t: makes a run directory from tensor2tensor's output directory, with
its weights and hyperparameters.

  ut-import-t2t --t2t_dir=t2t_train/reverse --problem=algorithmic_reverse_decimal40 \\
      --output_dir=runs/imported
  ut-eval --output_dir=runs/imported
  ut-import-t2t --t2t_dir=t2t_train/ende --output_dir=runs/ende \\
      --vocab=t2t_data/vocab.translate_ende_wmt32k.32768.subwords
  ut-decoder --output_dir=runs/ende --decode_from_file=news.en"""

FLAGS = TENSOR2TENSOR


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    import_tensor2tensor(flags.parse(COMMAND, DESCRIPTION, FLAGS, argv))


if __name__ == "__main__":
    sys.exit(main())
