"""A server in a thread that speaks TensorFlow Serving's REST protocol, as its documentation has it,
for one model.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.serving.toy import Loaded

Answer = Callable[[list[dict[str, str]]], list[dict[str, Any]]]


class RestServer:
    """A context that serves signatures; ``requests`` holds the bodies it was sent.

    Args:
      signatures: names of the inputs of each signature, and what answers a list of examples.
      reply: where given, (status, text) that answers every POST instead.
      delay: event that every POST waits for.
      name: of the model.
      port: 0: any.
    """

    def __init__(
        self,
        signatures: dict[str, tuple[list[str], Answer]],
        reply: tuple[int, str] | None = None,
        delay: threading.Event | None = None,
        name: str = "toy",
        port: int = 0,
    ) -> None:
        self.signatures = signatures
        self.reply = reply
        self.delay = delay
        self.name = name
        self.requests: list[dict[str, Any]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(*owner.metadata(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._send(*owner.predict(self.path, body))

            def _send(self, status: int, text: str) -> None:
                content = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: Any) -> None:
                del arguments

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> RestServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.delay is not None:
            self.delay.set()
        self._server.shutdown()
        self._server.server_close()

    def metadata(self, path: str) -> tuple[int, str]:
        model = f"/v1/models/{self.name}"
        if path not in (f"{model}/metadata", f"{model}/versions/3/metadata"):
            return 404, json.dumps({"error": f"Servable not found for request: {path}"})
        text = {
            "dtype": "DT_STRING",
            "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
            "name": "x:0",
        }
        # The server's maps have no order: here they come turned around.
        known = {
            name: {"inputs": dict.fromkeys(reversed(inputs), text)}
            for name, (inputs, _) in self.signatures.items()
        }
        specification = {"name": self.name, "signature_name": "", "version": "3"}
        return 200, json.dumps(
            {"model_spec": specification, "metadata": {"signature_def": {"signature_def": known}}}
        )

    def predict(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        self.requests.append({"path": path, **body})
        if self.delay is not None:
            self.delay.wait(10)
        if self.reply is not None:
            return self.reply
        inputs, answer = self.signatures[body["signature_name"]]
        if any(set(example) != set(inputs) for example in body["instances"]):
            return 400, json.dumps({"error": f"expected the inputs {inputs}"})
        predictions = answer(body["instances"])
        # The value of a single output stands alone.
        return 200, json.dumps(
            {
                "predictions": [
                    next(iter(one.values())) if len(one) == 1 else one for one in predictions
                ]
            }
        )


def signatures_of(loaded: Loaded) -> dict[str, tuple[list[str], Answer]]:
    """Returns the signatures of a SavedModel, as a server would offer them."""

    def answer(name: str, examples: list[dict[str, str]]) -> list[dict[str, Any]]:
        values = loaded.ask(
            name, **{field: [example[field] for example in examples] for field in examples[0]}
        )
        return [
            {output: _plain(value.tolist()[row]) for output, value in values.items()}
            for row in range(len(examples))
        ]

    return {
        name: (
            list(signature.structured_input_signature[1]),
            lambda examples, name=name: answer(name, examples),
        )
        for name, signature in loaded.signatures.items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value
