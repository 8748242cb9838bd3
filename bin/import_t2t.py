"""ut-import-t2t: makes a run directory of ours from one of tensor2tensor's; the former name of
``ut-import --from=tensor2tensor``.

``ut-import-t2t --t2t_dir=t2t_train/reverse --output_dir=runs/imported``
"""

import sys

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.import_flags import import_tensor2tensor

COMMAND, DESCRIPTION, FLAGS = declaration("import_t2t")


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    import_tensor2tensor(flags.parse(COMMAND, DESCRIPTION, FLAGS, argv))


if __name__ == "__main__":
    sys.exit(main())
