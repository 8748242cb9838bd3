"""ut-serve as a process."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path


class Process:
    """A process of ut-serve with a model named "digits" that has one version.

    Args:
      export_dir: of the model.
      flags: further ones.

    Fields:
      address: http://127.0.0.1:PORT.
      lines: what it has written so far.
    """

    def __init__(self, export_dir: Path, *flags: str) -> None:
        command = [sys.executable, "-m", "ut_tf.bin.serve", f"--export_dir={export_dir}"]
        self.process = subprocess.Popen(
            [*command, "--port=0", "--model_name=digits", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        loading = self.process.stdout.readline()
        assert loading.startswith("ut-serve: loading "), loading
        self.lines = [self.process.stdout.readline()]
        match = re.fullmatch(
            r"ut-serve: digits, version 1 of \S+/export, at (\S+) \(.*\)\n", self.lines[0]
        )
        assert match is not None, self.lines[0] + self.process.stdout.read()
        self.address = match[1]
        self._reading = threading.Thread(target=lambda: self.lines.extend(self.process.stdout))
        self._reading.start()

    def end(self) -> int:
        """Waits for the end and returns the exit status."""
        status = self.process.wait()
        self._reading.join()
        return status

    def kill(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.end()

    def memory(self, kind: str = "VmRSS") -> float:
        """Megabytes that it takes now; "VmHWM": that it has taken at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(rf"{kind}:\s+(\d+)", status)[1]) / 1_000
