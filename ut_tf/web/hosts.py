"""The names under which a server answers: the Host header of each request, and the page that a
browser asks for, are compared with them.

How it protects: a page from elsewhere can make its own name point to this machine (DNS rebinding),
so that the browser lets it read what a server here answers. The browser then sends that name as
Host. An IP address as Host cannot come about in this way.

A page from elsewhere can also have the browser send a request whose answer it cannot read, to make
the server work. The browser then names the page's host as Origin, or says Sec-Fetch-Site:
cross-site.
"""

import ipaddress
import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from ut_tf.errors import UserError, shown

ANY = "*"
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:/@\[\],]+)(?::\d{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(rf"https?://{_HOST.pattern}", re.IGNORECASE)


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
        self._names = {bound, *(_allowed_name(name) for name in allowed if name != ANY)}

    def check(self, method: str, headers: Headers) -> None:
        """Compares the names in a request with those of the server.

        Args:
          method: of HTTP.
          headers: of the request, with one Host; that of HTTP/1.0 may lack it.

        Raises:
          HTTPException: its name is not a name of the server, or the page of another host asks.
        """
        host = self._name_of_host(headers["Host"]) if "Host" in headers else ""
        if not self._any:
            self._check_page(method, headers, host)

    def _name_of_host(self, given: str) -> str:
        match = _HOST.fullmatch(given)
        if match is None:
            raise HTTPException(400, "Host: expected one header with the name of the server")
        name = _plain(match["name"])
        is_address = self._any_address and _is_address(name)
        if not (self._any or name in self._names or _is_own(name) or is_address):
            raise HTTPException(
                403,
                f"the host {shown(name)} is not a name of this server: add it to"
                " `allowed_hosts`, or ask for localhost on the machine of the server.",
            )
        return name

    def _check_page(self, method: str, headers: Headers, host: str) -> None:
        """Refuses the page of another host; only the server's own pages may ask, on any port."""
        if "Origin" not in headers:
            # Images and frames have no Origin. A link that somebody follows may lead here.
            is_link = method == "GET" and headers.get("Sec-Fetch-Dest") == "document"
            if headers.get("Sec-Fetch-Site") != "cross-site" or is_link:
                return
        origin = ", ".join(headers.getlist("Origin"))
        match = _ORIGIN.fullmatch(origin)
        name = "" if match is None else _plain(match["name"])
        if name and (name in self._names or name == host or (_is_own(name) and _is_own(host))):
            return
        page = f"the page of {shown(origin)}" if origin else "the page of another host"
        raise HTTPException(
            403, f"{page} may not ask this server: add its name to `allowed_hosts` if it may."
        )


def _plain(name: str) -> str:
    return name.lower().strip("[]").rstrip(".")


def _is_own(name: str) -> bool:
    """Whether a name is one of every machine for itself."""
    return name == "localhost" or name.endswith(".localhost") or _is_address(name, "is_loopback")


def _allowed_name(allowed: str) -> str:
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
