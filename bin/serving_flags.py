"""The flags of the commands that serve, and how they serve until they are stopped."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ut_tf.bin.frame.flags import FlagError
from ut_tf.errors import UserError
from ut_tf.notices import printable

if TYPE_CHECKING:
    from ut_tf.training.signals import StopRequest

# TensorFlow's own pool for processors keeps what the largest request has taken for ever.
_SYSTEM_ALLOCATOR = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"
_STOPPING = b"\nanswering the requests that have arrived; a second signal stops at once\n"


def checked_allowed_hosts(values: Any) -> list[str]:
    """The names in --allowed_hosts, after a check of them and of --port.

    Raises:
      FlagError: one of them cannot be.
    """
    if not 0 <= values.port <= 65535:
        raise FlagError(f"--port={values.port}: expected a number from 0 to 65535.")
    from ut_tf.web.hosts import Hosts

    names = [name.strip() for name in values.allowed_hosts.split(",") if name.strip()]
    try:
        Hosts(values.host, names)
    except UserError as error:
        raise FlagError(str(error)) from error
    return names


def give_memory_back() -> None:
    """Has TensorFlow return memory to the system after each request, unless the user has set that;
    to be called before it is imported.
    """
    os.environ.setdefault(_SYSTEM_ALLOCATOR, "1")


def log_of(command: str) -> Callable[[str], None]:
    """The log of a command that serves, on standard error: each message after the command's name.

    What a terminal would take for orders is left out: a trace may quote a request. Requests are
    answered also where nobody reads it any more.
    """

    def log(message: str) -> None:
        with contextlib.suppress(OSError):
            print(f"{command}: {printable(message)}", file=sys.stderr, flush=True)

    return log


def stop_request() -> StopRequest:
    """A context in which the first Ctrl-C or SIGTERM asks for the end of a server."""
    from ut_tf.training.signals import StopRequest

    return StopRequest(_STOPPING)


def serve_until(stop: StopRequest) -> None:
    """Returns when the end is asked for; the server's threads answer meanwhile."""
    while not stop.requested:
        time.sleep(0.1)
