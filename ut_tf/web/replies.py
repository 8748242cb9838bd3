"""Requests, their routes and the answers to them.

::

    routes = {("GET", "/"): lambda body: Reply("<p>hello", HTML)}
    routed(routes)("GET", "/?a=1", b"").content    # '<p>hello'
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

JSON = "application/json; charset=utf-8"
HTML = "text/html; charset=utf-8"
_SHOWN = 100
_MOST_OF_A_MESSAGE = 1_000


@dataclass(frozen=True)
class Reply:
    """The answer to a request.

    Fields:
      content: the body.
      kind: the media type of the body.
      status: of HTTP.
      headers: further ones.
    """

    content: str
    kind: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class RequestError(Exception):
    """A request that gets an error for an answer.

    Args:
      status: of HTTP.
      message: one sentence for the client.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Answer = Callable[[str, str, bytes], Reply]
"""Answers a request, given its method, its path with the query, and its body; raises RequestError
where the answer is an error.
"""

Routes = Mapping[tuple[str, str], Callable[[bytes], Reply]]
"""What answers the body of a request, by its method and its path without the query."""


@dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    Fields:
      body_bytes: size of a request's body.
      timeout: seconds until a request must have arrived, and again until its answer is there.
      connections: open at the same time; each has a thread.
    """

    body_bytes: int = 8_000_000
    timeout: float = 60.0
    connections: int = 512


def refuse(method: str, path: str, body: bytes) -> NoReturn:
    """Raises RequestError: nothing is at this path."""
    del body
    raise RequestError(404, f"nothing answers {method} {shown(path)}: ask for /.")


def routed(routes: Routes, otherwise: Answer = refuse) -> Answer:
    """Answers by the route of a request's method and path, and otherwise by `otherwise`."""

    def answer(method: str, path: str, body: bytes) -> Reply:
        route = routes.get((method, path.partition("?")[0]))
        return otherwise(method, path, body) if route is None else route(body)

    return answer


def redirect(location: str) -> Reply:
    """The answer that sends a client on to `location`, with the same method and body."""
    return Reply("", HTML, 308, {"Location": location})


def shown(text: Iterable[str], most: int = _SHOWN) -> str:
    """What a client sent, as a message quotes it: the first `most` characters.

    Args:
      text: a text, or its parts, of which no more are made than are shown.
      most: characters.
    """
    beginning = ""
    for part in text:
        beginning += part[: most + 1]
        if len(beginning) > most:
            return f"{beginning[:most]}..."
    return beginning


def error_json(message: str) -> str:
    """The body of an answer with an error: one line of at most 1,000 characters, whatever the
    message quotes.
    """
    line = shown(" ".join(message.split()), _MOST_OF_A_MESSAGE)
    return json.dumps({"error": line}, ensure_ascii=False)
