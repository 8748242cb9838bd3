"""A client of TensorFlow Serving's REST protocol; needs no TensorFlow.

Example::

    client = RestClient("http://localhost:8501", "ende")
    client.inputs("serving_default")                                          # ("inputs",)
    # [{"outputs": "A dog runs.", "scores": -1.2}]
    client.predict([{"inputs": "Ein Hund läuft."}], "serving_default")

How it works: GET ``/v1/models/NAME[/versions/N]/metadata`` says which inputs a signature has; POST
``...:predict`` with one object per example ("instances") answers with as many ("predictions"), an
object of outputs each or, where a signature has one output, its bare value.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from ut_tf.data.download import within
from ut_tf.errors import UserError, did_you_mean, shown

# Seconds: a day. More than some months the system's clock cannot count.
LONGEST_TIMEOUT = 86_400.0
# TensorFlow Serving sends a signature's inputs without an order: this is the one in which people
# give them. Others stand as ut-serve sends them, with the targets last.
_ORDER = ("inputs", "story", "context", "question", "targets")
_SHOWN = 300
_MOST_NAMES = 100
# Bytes: an answer beyond it is no model's.
LARGEST_ANSWER = 32_000_000
_CHUNK_BYTES = 1 << 16


class RefusedError(UserError):
    """A request that the server does not understand: status 400.

    Args:
      message: of the error.
      reason: what the server says.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class RestClient:
    """One served model.

    Args:
      server: address, with or without http:// in front.
      model_name: under which it is served.
      version: number; None: the server's choice, which is the highest.
      timeout: seconds to wait for each whole answer, at most a day.

    Raises:
      UserError: `timeout` is no such number.
    """

    def __init__(
        self,
        server: str,
        model_name: str = "model",
        version: int | None = None,
        timeout: float = 60.0,
    ) -> None:
        if not 0 < timeout <= LONGEST_TIMEOUT:
            raise UserError(
                f"`timeout`={timeout}: expected a number of seconds above 0, at most"
                f" {LONGEST_TIMEOUT:.0f}."
            )
        self._server = (server if "://" in server else f"http://{server}").rstrip("/")
        self._model = f"{self._server}/v1/models/{model_name}" + (
            f"/versions/{version}" if version is not None else ""
        )
        self._timeout = timeout
        self._session = _Session()
        # What is packed may unpack to any size.
        self._session.headers["Accept-Encoding"] = "identity"

    def inputs(self, signature: str) -> tuple[str, ...]:
        """The names of a signature's inputs: texts, then targets.

        Raises:
          UserError: as for ``predict``; also where the model has no such signature.
        """
        reply = self._ask("GET", f"{self._model}/metadata", None)
        try:
            known = _named(reply["metadata"]["signature_def"]["signature_def"])
            if signature in known:
                return _in_order(_named(known[signature]["inputs"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{self._model}/metadata: expected a model's signatures, got {_shown(reply)}."
            ) from error
        near = did_you_mean(signature, known) or "."
        raise UserError(
            f"{self._model} has no signature {signature!r}{near} It has {', '.join(sorted(known))}."
        )

    def predict(
        self, examples: Sequence[Mapping[str, Any]], signature: str = "serving_default"
    ) -> list[Any]:
        """The model's answer to each example, in order.

        Args:
          examples: the values of the signature's inputs.
          signature: its name.

        Raises:
          RefusedError: the server refuses the request, such as one example that cannot be read; of
            several, each has its own "error" in its answer.
          UserError: the server does not answer, answers with an error, or not by the protocol.
        """
        body = {"signature_name": signature, "instances": [dict(example) for example in examples]}
        reply = self._ask("POST", f"{self._model}:predict", body)
        predictions = reply.get("predictions") if isinstance(reply, dict) else None
        if not isinstance(predictions, list) or len(predictions) != len(examples):
            raise UserError(
                f"{self._model}:predict: expected {len(examples)} predictions, got {_shown(reply)}."
            )
        return predictions

    def _ask(self, method: str, url: str, body: Any) -> Any:
        try:
            reply, content = within(self._timeout, lambda: self._exchange(method, url, body))
        except (TimeoutError, requests.Timeout) as error:
            raise UserError(
                f"{url}: no answer within {self._timeout:g} seconds: allow more time, or send fewer"
                " texts at once."
            ) from error
        except requests.ConnectionError as error:
            raise UserError(
                f"{self._server} does not answer ({_cause(error)}): start the server, or give its"
                " address."
            ) from error
        except (requests.RequestException, HTTPError, ValueError) as error:
            raise UserError(
                f"{url} cannot be asked ({_shown(error)}): give the server's address, such as"
                " http://localhost:8501."
            ) from error
        if reply.is_redirect:
            raise UserError(
                f"{url} answered with status {reply.status_code}, a redirect to"
                f" {_shown(reply.headers['Location'])}: give that address, if you trust it."
            )
        if not reply.ok:
            message = _error_text(content) or _shown(reply.reason)
            told = f"{url} answered with status {reply.status_code}: {message}"
            raise RefusedError(told, message) if reply.status_code == 400 else UserError(told)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{url}: expected JSON, got {_shown(_text(content))}: is this TensorFlow Serving's"
                " REST port?"
            ) from error

    def _exchange(self, method: str, url: str, body: Any) -> tuple[requests.Response, bytes]:
        """A request, and all of its answer; a server may send that byte by byte and for ever."""
        content = bytearray()
        with self._session.request(
            method, url, json=body, timeout=self._timeout, stream=True
        ) as reply:
            # Other ways to read unpack first, or read lines of any length.
            while chunk := reply.raw.read(_CHUNK_BYTES, decode_content=False):
                content += chunk
                if len(content) > LARGEST_ANSWER:
                    raise UserError(
                        f"{url}: the answer has more than {LARGEST_ANSWER:,} bytes: send fewer"
                        " texts at once."
                    )
        return reply, bytes(content)


class _Session(requests.Session):
    """A session that follows no redirects: it would read an answer of any size first, and send the
    texts to another server.
    """

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """None: there is no other address to ask."""
        return None


def _error_text(content: bytes) -> str:
    """The server's own message: TensorFlow Serving sends {"error": ...}."""
    try:
        return _shown(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return _shown(_text(content))


def _text(content: bytes) -> str:
    return content[: 4 * _SHOWN].decode("utf-8", errors="replace")


def _named(value: Any) -> dict[str, Any]:
    """An object of a server; raises ValueError where it has more names, or longer ones, than a
    model has: messages show all of them.
    """
    named = dict(value)
    if len(named) > _MOST_NAMES or any(len(name) > _SHOWN for name in named):
        raise ValueError("no names of a model")
    return named


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    given = [*names]
    if {*given} <= {*_ORDER}:
        return tuple(sorted(given, key=_ORDER.index))
    return tuple(sorted(given, key="targets".__eq__))


def _cause(error: BaseException | None) -> str:
    """The message of the operating system, of an error that wraps it in several others."""
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return str(error.strerror).lower()
        error = error.__cause__ or error.__context__
    return "no connection"


def _shown(content: Any) -> str:
    try:
        return shown(" ".join(str(content).split()), _SHOWN)
    except RecursionError:
        return "a value of many levels"
