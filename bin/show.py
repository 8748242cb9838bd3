"""ut-show: how many steps a trained model takes for each fact or symbol, what it attends to, and
its answer, in the terminal.

``ut-show`` shows a small model that comes with ut-tf.
"""

from __future__ import annotations

import sys
import textwrap
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf.bin.examples.input import given_texts, is_question, known_words_message
from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import (
    EXIT_USER_ERROR,
    entry_point,
    import_tensorflow,
    is_typed,
    standard_input,
    stdout_to_stderr,
    tell,
)
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import load_run
from ut_tf.bin.frame.terminal import Terminal
from ut_tf.data.text.sentences import sentences
from ut_tf.data.text.utf8 import surrogate_in
from ut_tf.errors import UserError
from ut_tf.figures.style import check_installed
from ut_tf.inference.text_files import input_lines
from ut_tf.insights.story_lines import stories
from ut_tf.notices import printable, warn
from ut_tf.paths import expanded
from ut_tf.sharing.places import shipped_models
from ut_tf.storage.find_checkpoint import check_checkpoint

if TYPE_CHECKING:
    from ut_tf.inference.translator import Translator
    from ut_tf.insights.inspector import Inspector

COMMAND, DESCRIPTION, FLAGS = declaration("show")

# In the words of babi_sim.
_SAMPLE = """Anna went to the attic.
Boris moved to the studio.
Anna took the lamp.
Boris grabbed the coin.
Anna walked to the pantry.
Where is the lamp?"""

_SHIPPED = "babi"
_CONTINUED = "sampling=true,temperature=0.8,top_k=20,extra_length=30,batch_size=1"
_LEAVE, _HELP = frozenset({"exit", "quit"}), frozenset({"help", "?"})
_COMMANDS = '"exit", "quit" or Ctrl-D leaves; "help" or "?" shows this again.'
# At least so many test examples are looked at for the one that is shown first.
_LOOKED_AT = 4


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> int:
    """Runs the command, given the words of its command line."""
    values: Any = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    _check(values)
    texts = given_texts(values)
    types = not texts and values.examples is None and is_typed()
    if not texts and values.examples is None and not types:
        lines = input_lines(standard_input(), "standard input")
        texts = [("standard input", "\n".join(lines))]
    if not (values.output_dir or values.model):
        # Its folder: one of that name in the working directory was not asked for.
        values.model = str(shipped_models().get(_SHIPPED, _SHIPPED))
    run = load_run(values).in_use(values.hparams)
    check_checkpoint(run.output_dir, values.checkpoint)
    import_tensorflow()
    from ut_tf.insights.inspector import Inspector

    with stdout_to_stderr():
        inspector = Inspector.from_run(run, checkpoint=values.checkpoint)
    show = _Show(inspector, Terminal.of(sys.stdout))
    print(printable(show.title()), file=sys.stderr, flush=True)
    shows_all = [show.read(text, name) for name, text in texts]
    show.test_examples(values.examples or 0)
    if types:
        show.sample()
        _converse(show)
    if values.animate:
        show.animate(expanded(values.animate))
    if values.html:
        _write_page(show, expanded(values.html), opens=not values.no_open)
    return 0 if all(shows_all) else EXIT_USER_ERROR


class _Show:
    """Shows examples in a terminal, and keeps them for a page.

    Args:
      inspector: of the model.
      terminal: where they are shown.
    """

    def __init__(self, inspector: Inspector, terminal: Terminal) -> None:
        self._inspector = inspector
        self._thinker = inspector.thinkers[0]
        self._terminal = terminal
        self._shown: list[dict[str, Any]] = []
        self._has_test_examples = False
        self._writer: Translator | None = None
        self.reads_stories = self._thinker.model.spec.inputs == "facts"

    def title(self) -> str:
        """What is shown, in a line."""
        run, model = self._thinker.run, self._thinker.model
        return (
            f"{run.problem} with {run.hparams_set}: a {run.hparams.model} of"
            f" {model.count_params():,} parameters after {self._thinker.step:,} updates"
        )

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self._terminal.width

    @property
    def hint(self) -> str:
        """What to type."""
        if self.reads_stories:
            return (
                'Type facts, one a line, then a question that ends with "?".\n'
                "An empty line begins a new story; words that the model does not know are named.\n"
                f"{_COMMANDS}"
            )
        return f"Type {self._thinker.hint}.\nEach line is answered at once.\n{_COMMANDS}"

    @property
    def vocabulary(self) -> str:
        """A sentence about the words that the model knows; empty where it reads any."""
        known = self._thinker.codec.known_words
        return known_words_message(known) if known else ""

    def read(self, text: str, name: str) -> bool:
        """Shows the examples in a text, and warns of those that cannot be read. The return value is
        whether all were shown.

        Raises:
          UserError: none can be read.
        """
        lines = text.split("\n")
        parts = (
            stories(text) if self.reads_stories else [range(n, n + 1) for n in range(len(lines))]
        )
        parts = [part for part in parts if any(lines[number].strip() for number in part)]
        refusals: list[UserError] = []
        shown = 0
        for part in parts or [range(len(lines))]:
            try:
                examples = self._examples(lines, part, name)
            except UserError as error:
                refusals.append(error)
                continue
            self._print(examples)
            if self._thinker.is_language_model:
                self._print_continuations([example["input"] for example in examples])
            shown += 1
        if not shown:
            raise refusals[0]
        for refusal in refusals:
            warn(f"{refusal} This {'story' if self.reads_stories else 'line'} is left out.")
        return not refusals

    def _examples(self, lines: Sequence[str], part: range, name: str) -> list[dict[str, Any]]:
        """The examples in some lines of a text."""
        written = [number for number in part if lines[number].strip()]
        asks = any({*"?\t"} & {*lines[number]} for number in part)
        if self.reads_stories and written and not asks:
            raise UserError(
                f'{name}, line {written[-1] + 1}: the story has no question: end one with "?".'
            )
        # Empty lines in the place of those before keep the numbers in messages.
        text = "\n".join([*[""] * part.start, *lines[part.start : part.stop]])
        with stdout_to_stderr():
            return self._inspector.read(text, name)

    def test_examples(self, count: int) -> None:
        """Shows test examples of the problem, first one whose answers change."""
        if count:
            self._print(self._lively_examples(count))

    def sample(self) -> None:
        """Shows an example that needs no data, if there is one whose words the model knows; else a
        test example, where the data can be had.
        """
        text = _SAMPLE if self.reads_stories else self._thinker.codec.sample
        if text and not self._thinker.codec.unknown_words([text]):
            self.read(text, "the sample")
            return
        try:
            examples = self._lively_examples(1)
        except UserError as error:
            tell(COMMAND, f"no example is shown first: {error}")
            return
        self._print(examples)

    def document(self) -> dict[str, Any]:
        """The document of all that was shown; with test examples, also how long others take."""
        from ut_tf.insights.inspector import HISTOGRAM_EXAMPLES

        counted = HISTOGRAM_EXAMPLES if self._has_test_examples else 0
        return self._inspector.document(self._shown, counted)

    def animate(self, path: Path) -> None:
        """Writes the steps of the first example that was shown.

        Raises:
          UserError: none was shown, it has no board, or the file cannot be written.
        """
        from ut_tf.figures.board_steps import board_steps, save_animation

        if not self._shown:
            raise UserError("no example was shown that can be animated: give a board, or examples.")
        save_animation(board_steps(self._shown[0]), path)
        print(f"\n{path} shows the board step by step.", flush=True)

    def _lively_examples(self, count: int) -> list[dict[str, Any]]:
        """Test examples, with that in front whose answers change most."""
        with stdout_to_stderr():
            examples = self._inspector.test_examples(max(count, _LOOKED_AT))
        self._has_test_examples = True
        return _liveliest_first(examples)[:count]

    def _print(self, examples: Sequence[dict[str, Any]]) -> None:
        # numpy, which --help need not wait for.
        from ut_tf.bin.examples.lines import example_lines

        for example in examples:
            self._check_shows(example)
            print("\n".join(["", *example_lines(example, self._terminal)]), flush=True)
        self._shown += examples

    def _print_continuations(self, texts: Sequence[str]) -> None:
        """Prints what a language model writes behind texts, drawn with one seed for all."""
        from ut_tf.inference.translator import Translator
        from ut_tf.search.config import DecodeConfig

        if self._writer is None:
            config = DecodeConfig.from_text(_CONTINUED)
            self._writer = Translator(self._thinker.model, self._thinker.codec, config)
        with stdout_to_stderr():
            written = [best.text for (best,) in self._writer.translate((text,) for text in texts)]
        for text in written:
            line = f"  goes on: {text.strip() or '(the text ends here)'}"
            width = self._terminal.width
            print(printable(textwrap.fill(line, width, subsequent_indent="    ")), flush=True)

    def _check_shows(self, example: dict[str, Any]) -> None:
        """Raises UserError where the model shows nothing but its answers."""
        shown = ("state_change", "attention", "memory_attention", "predictions")
        if not any(part[name] for part in example["thoughts"][0]["parts"] for name in shown):
            raise UserError(
                f"the model {self._thinker.run.hparams.model} shows neither states of its steps nor"
                " attention: ut-decoder prints its answers."
            )


def _check(values: Any) -> None:
    if values.examples is not None and values.examples < 0:
        raise FlagError(f"--examples={values.examples}: expected a whole number from 0.")
    if values.html and Path(values.html).suffix.lower() != ".html":
        raise FlagError(f"--html={values.html}: expected a name that ends in .html.")
    if values.animate and Path(values.animate).suffix.lower() != ".gif":
        raise FlagError(f"--animate={values.animate}: expected a name that ends in .gif.")
    if values.animate:
        check_installed()
    if surrogate_in(values.input or ""):
        raise FlagError("--input has bytes that are not UTF-8: set the terminal to UTF-8.")
    if values.input is not None and values.input_file:
        raise FlagError("--input and --input_file each say what to read: give one of them.")


def _converse(show: _Show) -> None:
    """Answers what is typed until the input ends."""
    print(f"\n{show.hint}", flush=True)
    if show.vocabulary:
        print(textwrap.fill(printable(show.vocabulary), show.width), flush=True)
    story = _TypedStory(show)
    for line in _typed_lines():
        command = line.strip().lower()
        if command in _LEAVE:
            return
        if command in _HELP:
            print(show.hint, flush=True)
        elif show.reads_stories:
            story.add(line)
        else:
            _answer(show, line)


class _TypedStory:
    """The story that is being typed.

    Args:
      show: answers its questions.
    """

    def __init__(self, show: _Show) -> None:
        self._show = show
        self._facts: list[str] = []
        self._waits = False

    def add(self, line: str) -> None:
        """Takes a line: sentences, or an empty one that ends the story."""
        if not line.strip():
            self._end()
        for sentence in sentences(line):
            if sentence.endswith("?"):
                self._ask(sentence)
            else:
                self._facts.append(sentence)
                self._waits = True

    def _ask(self, question: str) -> None:
        _answer(self._show, "\n".join([*self._facts, question]))
        self._waits = False

    def _end(self) -> None:
        """Answers a question that lacks its "?"; a story without one is kept once, with a word."""
        if self._waits and is_question(self._facts[-1]):
            self._ask(self._facts.pop().rstrip(".! ") + "?")
        elif self._waits:
            self._waits = False
            tell(COMMAND, "no question yet: end it with ?; another empty line begins a new story.")
        elif self._facts:
            self._facts = []
            tell(COMMAND, "a new story begins.")


def _answer(show: _Show, text: str) -> None:
    """Shows what was typed, or says why it cannot be read."""
    if not text.strip():
        return
    try:
        show.read(text, "your text")
    except UserError as error:
        tell(COMMAND, str(error))


def _typed_lines() -> Iterator[str]:
    while True:
        try:
            line = input("> ")
            # Python reads such bytes as halves of surrogate pairs where the locale is C.
            line.encode("utf-8")
            yield line
        except UnicodeError:
            tell(COMMAND, "left out: a line that is not UTF-8.")
        except EOFError:
            print()
            return


def _liveliest_first(examples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The examples, with that in front whose answers change most from step to step."""
    from ut_tf.bin.examples.notes import changes

    first = max(examples, key=changes, default=None)
    return sorted(examples, key=lambda example: example is not first)


def _write_page(show: _Show, path: Path, opens: bool) -> None:
    from ut_tf.insights.rendering import write_document

    write_document(show.document(), path)
    print(f"\n{path} shows every step.", flush=True)
    if opens:
        webbrowser.open(path.resolve().as_uri())


if __name__ == "__main__":
    sys.exit(main())
