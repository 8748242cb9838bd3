"""The progress line: rewritten in place on a terminal, one plain line per log point elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO


class ProgressLine:
    """Shows step, loss, learning rate, speed, mean ponder time and the time left, on stderr.

    Args:
      train_steps: where training ends.
      unit: what the speed counts: "tokens", or "examples" where an example has one target.
      stream: where to write; None: stderr.
      silent: writes nothing, on workers that are not the chief.
    """

    def __init__(
        self,
        train_steps: int,
        unit: str = "tokens",
        stream: IO[str] | None = None,
        silent: bool = False,
    ) -> None:
        self._silent = silent
        self._stream = stream or sys.stderr
        self._first_step = 0
        self._train_steps = train_steps
        self._unit = unit
        self._in_place = self._stream.isatty()
        self._width = 0
        self._started = time.monotonic()

    def start(self, step: int) -> None:
        """Begins to measure the time at `step`."""
        self._first_step = step
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since ``start``."""
        return time.monotonic() - self._started

    def seconds_left(self, step: int) -> float:
        """The time until training ends, as fast as it has been since ``start``."""
        return self.elapsed / max(step - self._first_step, 1) * (self._train_steps - step)

    def show(
        self,
        step: int,
        loss: float,
        rate: float,
        speed: float,
        ponder_time: float | None,
        step_losses: Sequence[float | None] = (),
    ) -> None:
        """Shows a log point: `speed` in units per second; `ponder_time` is None without dynamic
        halting; of `step_losses` the first and the last that are known.
        """
        left = self.seconds_left(step)
        ponder = "" if ponder_time is None else f"  ponder {ponder_time:.2f}"
        # Right after the first update nothing is known of the speed.
        pace = f"  {speed:,.0f} {self._unit}/s" if speed else ""
        left_over = f"  left {format_duration(left)}" if speed else ""
        known = [
            f"{number}: {each:.3g}"
            for number, each in enumerate(step_losses, 1)
            if each is not None
        ]
        by_step = f"  by step {known[0]} ... {known[-1]}" if len(known) > 1 else ""
        self._write(
            f"step {step}/{self._train_steps}  loss {loss:.4f}{by_step}  rate"
            f" {rate:.3g}{pace}{ponder}{left_over}"
        )

    def say(self, text: str) -> None:
        """Writes a line that stays."""
        self.finish()
        if not self._silent:
            print(text, file=self._stream, flush=True)

    def finish(self) -> None:
        """Ends the line that is rewritten in place, if there is one."""
        if self._width:
            print(file=self._stream, flush=True)
            self._width = 0

    def _write(self, line: str) -> None:
        if self._silent:
            return
        if not self._in_place:
            print(line, file=self._stream, flush=True)
            return
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)


class Speedometer:
    """Tokens (or examples) per second since ``start``."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Counts from here on."""
        self._started = time.monotonic()
        self._tokens = 0.0

    def count(self, tokens: float) -> None:
        """Adds the tokens of an update."""
        self._tokens += tokens

    @property
    def per_second(self) -> float:
        """The speed; 0 before any update."""
        return self._tokens / max(time.monotonic() - self._started, 1e-9)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Does not count the time within the context."""
        began = time.monotonic()
        yield
        self._started += time.monotonic() - began


def format_duration(seconds: float) -> str:
    """Days and hours, or hours, minutes and seconds: "3 d 4 h", "1:02:03", "2:03"."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
