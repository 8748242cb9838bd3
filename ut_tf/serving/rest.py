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

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import requests

from ut_tf.errors import UserError, did_you_mean

# Seconds: a day. More than some months the system's clock cannot count.
LONGEST_TIMEOUT = 86_400.0
# A signature's inputs come without an order: this is the one in which people give them.
_ORDER = ("inputs", "story", "question", "targets")
_SHOWN = 300


class RestClient:
    """One served model.

    Args:
      server: address, with or without http:// in front.
      model_name: under which it is served.
      version: number; None: the server's choice, which is the highest.
      timeout: seconds to wait for an answer, at most a day.

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
                f"timeout={timeout}: expected a number of seconds above 0, at most"
                f" {LONGEST_TIMEOUT:.0f}."
            )
        self._server = (server if "://" in server else f"http://{server}").rstrip("/")
        self._model = f"{self._server}/v1/models/{model_name}" + (
            f"/versions/{version}" if version is not None else ""
        )
        self._timeout = timeout
        self._session = requests.Session()

    def inputs(self, signature: str) -> tuple[str, ...]:
        """The names of a signature's inputs: texts, then targets; others by the alphabet.

        Raises:
          UserError: as for ``predict``; also where the model has no such signature.
        """
        reply = self._ask("GET", f"{self._model}/metadata", None)
        try:
            known = reply["metadata"]["signature_def"]["signature_def"]
            if signature in known:
                names = list(known[signature]["inputs"])
                return tuple(
                    sorted(
                        names,
                        key=lambda name: (
                            _ORDER.index(name) if name in _ORDER else len(_ORDER),
                            name,
                        ),
                    )
                )
        except (KeyError, TypeError) as error:
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
            reply = self._session.request(method, url, json=body, timeout=self._timeout)
        except requests.Timeout as error:
            raise UserError(
                f"{url}: no answer within {self._timeout:g} seconds: allow more time, or send fewer"
                " texts at once."
            ) from error
        except requests.ConnectionError as error:
            raise UserError(
                f"{self._server} does not answer ({_cause(error)}): start the server, or give its"
                " address."
            ) from error
        except requests.RequestException as error:
            raise UserError(
                f"{url} cannot be asked ({error}): give the server's address, such as"
                " http://localhost:8501."
            ) from error
        if not reply.ok:
            raise UserError(f"{url} answered with status {reply.status_code}: {_error_text(reply)}")
        try:
            return reply.json()
        except ValueError as error:
            raise UserError(
                f"{url}: expected JSON, got {_shown(reply.text)}: is this TensorFlow Serving's REST"
                " port?"
            ) from error


def _error_text(reply: requests.Response) -> str:
    """The server's own message: TensorFlow Serving sends {"error": ...}."""
    try:
        message = reply.json()["error"]
    except (ValueError, KeyError, TypeError):
        message = reply.text or reply.reason
    return _shown(message)


def _cause(error: BaseException) -> str:
    """The message of the operating system, of an error that wraps it in several others."""
    cause: Any = error
    while cause is not None:
        if (
            isinstance(cause, OSError)
            and cause.strerror
            and not isinstance(cause, requests.RequestException)
        ):
            return str(cause.strerror).lower()
        arguments = [
            inner
            for inner in (getattr(cause, "reason", None), *getattr(cause, "args", ()))
            if isinstance(inner, BaseException)
        ]
        cause = cause.__cause__ or cause.__context__ or next(iter(arguments), None)
    return "no connection"


def _shown(content: Any) -> str:
    text = " ".join(str(content).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
