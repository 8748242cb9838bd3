"""A stand-in for the Hugging Face hub on this machine: one repository of files, which can be read
and committed to.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The repository "user/model".

    Args:
      files: contents by name.
      sizes: those that the hub tells of a file where they are not its content's.
    """

    def __init__(self, files: dict[str, bytes], sizes: Mapping[str, int] | None = None) -> None:
        self.files = files
        self.sizes = sizes or {}
        self.fetched: list[str] = []

    def siblings(self) -> list[dict[str, Any]]:
        return [
            {"rfilename": name, "size": self.sizes.get(name, len(content))}
            for name, content in self.files.items()
        ]

    def tree(self) -> list[dict[str, Any]]:
        return [
            {"type": "file", "path": name, "size": len(content), "oid": _etag(content)}
            for name, content in self.files.items()
        ]

    def commit(self, lines: list[bytes]) -> None:
        for line in lines:
            operation = json.loads(line)
            if operation["key"] == "file":
                value = operation["value"]
                self.files[value["path"]] = base64.b64decode(value["content"])


def _etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._get(with_content=False)

    def do_GET(self) -> None:
        self._get(with_content=True)

    def _get(self, with_content: bool) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/user/model/resolve/"):
            name = path.split("/", 5)[5]
            content = self.hub.files[name]
            self.hub.fetched.append(name)
            headers = {"ETag": f'"{_etag(content)}"', "X-Repo-Commit": COMMIT}
            self._send(content, headers, with_content)
        elif "/tree/" in path:
            self._json(self.hub.tree())
        elif path.startswith("/api/models/user/model"):
            self._json({"id": "user/model", "sha": COMMIT, "siblings": self.hub.siblings()})
        else:
            self._json({"error": f"there is no {path}"}, status=404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/repos/create"):
            address = f"http://{self.headers['Host']}"
            self._json({"url": f"{address}/user/model", "name": "user/model"})
        elif self.path.endswith("/validate-yaml"):
            self._json({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            regular = {"uploadMode": "regular", "shouldIgnore": False}
            self._json({"files": [{"path": file["path"], **regular} for file in files]})
        elif "/commit/" in self.path:
            self.hub.commit(body.splitlines())
            address = f"http://{self.headers['Host']}"
            commit = {"commitUrl": f"{address}/user/model/commit/{COMMIT}", "commitOid": COMMIT}
            self._json({**commit, "commitMessage": "", "commitDescription": ""})
        else:
            self._json({"error": f"there is no {self.path}"}, status=404)

    def _json(self, value: Any, status: int = 200) -> None:
        headers = {"Content-Type": "application/json"}
        if status == 404:
            headers["X-Error-Code"] = "RepoNotFound"
        self._send(json.dumps(value).encode(), headers, True, status)

    def _send(
        self, content: bytes, headers: dict[str, str], with_content: bool, status: int = 200
    ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_content:
            self.wfile.write(content)


@contextmanager
def serving(hub: Hub) -> Iterator[str]:
    """Serves the hub within the context; gives its address."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("localhost", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://localhost:{server.server_address[1]}"
        finally:
            server.shutdown()
