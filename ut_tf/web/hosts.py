"""The names under which a server answers: the Host header of each request is compared with them.

How it protects: a page from elsewhere can make its own name point to this machine (DNS rebinding),
so that the browser lets it read what a server here answers. The browser then sends that name as
Host. An IP address as Host cannot come about in this way.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from ut_tf.errors import UserError
from ut_tf.web.replies import RequestError

ANY = "*"
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:/@\[\],]+)(?::\d{1,5})?", re.IGNORECASE)
_SHOWN = 80


class Hosts:
    """The names of a server.

    Args:
      bound: the name or address that it listens at. At all addresses of the machine (0.0.0.0, ::)
        it answers to every IP address. It always answers to the names of the machine for itself
        (localhost, 127.0.0.1, ::1).
      allowed: further names, without ports; "*": any.

    Raises:
      UserError: one of `allowed` is no name.
    """

    def __init__(self, bound: str, allowed: Sequence[str] = ()) -> None:
        bound = bound.lower().strip("[]")
        self._any = ANY in allowed
        self._any_address = not bound or _is_address(bound, "is_unspecified")
        self._names = {bound, *(_named(name) for name in allowed if name != ANY)}

    def check(self, given: Sequence[str], is_needed: bool) -> None:
        """Compares the Host headers of a request.

        Args:
          given: the headers.
          is_needed: whether a request must have one, as of HTTP/1.1.

        Raises:
          RequestError: there is none, or more than one, or its name is not a name of the server.
        """
        if not given and not is_needed:
            return
        match = _HOST.fullmatch(given[0].strip()) if len(given) == 1 else None
        if match is None:
            raise RequestError(400, "Host: expected one header with the name of the server")
        name = match["name"].lower().strip("[]").rstrip(".")
        if not (self._any or name in self._names or self._is_own(name)):
            raise RequestError(
                403,
                f"the host {name[:_SHOWN]} is not a name of this server: add it to"
                " `allowed_hosts`, or ask for localhost on the machine of the server.",
            )

    def _is_own(self, name: str) -> bool:
        if name == "localhost" or name.endswith(".localhost"):
            return True
        return _is_address(name, "is_loopback") or (self._any_address and _is_address(name))


def _named(allowed: str) -> str:
    name = allowed.strip().lower()
    match = _HOST.fullmatch(name if name.count(":") < 2 else f"[{name.strip('[]')}]")
    if match is None or match["name"] != match[0] or ANY in name:
        raise UserError(
            f"`allowed_hosts`={allowed}: expected names such as models.example.org, without ports,"
            " or * for any."
        )
    return match["name"].strip("[]").rstrip(".")


def _is_address(name: str, kind: str = "") -> bool:
    """Whether a name is an IP address, and one of a kind where that is given."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return not kind or bool(getattr(address, kind))
