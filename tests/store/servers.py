"""Object stores on loopback, started as processes of their own, and a proxy that makes the way to one bad."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

KEY, SECRET = "AKIDLOOPBACK", "a-secret-that-must-not-show"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(command: list[str], port: int, within_s: float = 60.0) -> Iterator[None]:
    """A server that is up while the context lasts."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + within_s
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if running.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"{command[0]} does not start")
            time.sleep(0.05)
        yield
    finally:
        running.terminate()
        running.wait()


@contextmanager
def s3() -> Iterator[str]:
    """An S3 server: its endpoint."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with process(command, port):
        yield f"http://127.0.0.1:{port}"


def client(endpoint: str) -> Any:
    """What puts objects there without any code of ours."""
    import boto3

    return boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=KEY, aws_secret_access_key=SECRET
    )


def azurite_command(port: int, folder: Path) -> list[str] | None:
    """How to start an Azure Blob server; None where npm is not there to install it."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    main = folder / "node_modules/azurite/dist/src/blob/main.js"
    if not main.exists():
        subprocess.run(
            [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), "azurite@3"],
            check=True,
            capture_output=True,
            timeout=240,
        )
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck"]
    return ["node", str(main), *options, "--silent", "--disableTelemetry"]


Fault = Callable[[str, int], str | None]
"""What is to go wrong with a request, by its first line and number: a status and a code, `cut`, `drop` or `refuse`."""


@dataclass
class Proxy:
    """Passes requests on, one a connection, and does to some of them what `fault` says.

    `cut` sends the first half of the answer, `drop` nothing of it, though the request has come through; `refuse` does
    not even pass it on.
    """

    upstream: int
    fault: Fault = lambda _line, _number: None
    requests: list[str] = field(default_factory=list)
    port: int = 0
    _listener: Any = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Proxy:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = _message(connection)
            if request is None:
                return
            line = request.split(b"\r\n", 1)[0].decode()
            self.requests.append(line)
            what = self.fault(line, len(self.requests))
            if what == "refuse":
                return
            if what and what[:3].isdigit():
                status, _, code = what.partition(" ")
                body = f"<Error><Code>{code or 'SlowDown'}</Code><Message>Says the proxy.</Message></Error>".encode()
                head = f"HTTP/1.1 {status} Refused\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                connection.sendall(head.encode() + body)
                return
            answer = self._answer(request)
            if what == "drop":
                return
            connection.sendall(answer[: len(answer) - _body_length(answer) // 2] if what == "cut" else answer)

    def _answer(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        with socket.create_connection(("127.0.0.1", self.upstream)) as upstream:
            upstream.sendall(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body)
            chunks = []
            while chunk := upstream.recv(1 << 16):
                chunks.append(chunk)
        return b"".join(chunks)


def _message(connection: socket.socket) -> bytes | None:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(1 << 16)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")), 0)
    if b"expect: 100-continue" in head.lower():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def _body_length(answer: bytes) -> int:
    return len(answer.partition(b"\r\n\r\n")[2])


def make_container(endpoint: str, name: str, key: str) -> None:
    """Make a container of Azure with a request signed by hand (Azure Storage, "Authorize with Shared Key")."""
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": now, "x-ms-version": "2021-08-06", "Content-Type": "a/b"}
    account = endpoint.rpartition("/")[2]
    named = "".join(f"{header}:{headers[header]}\n" for header in ("x-ms-date", "x-ms-version"))
    resource = f"/{account}/{account}/{name}\nrestype:container"
    text = "PUT\n\n\n\n\na/b\n" + "\n" * 6 + named + resource
    signature = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {account}:{signature}"
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", b"", headers, method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


@contextmanager
def gcs(binary: Path) -> Iterator[str]:
    """A server of Google Cloud Storage in memory: its endpoint."""
    port = free_port()
    where = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    where += ["-public-host", f"127.0.0.1:{port}"]
    with process([str(binary), *where, "-external-url", f"http://127.0.0.1:{port}"], port):
        yield f"http://127.0.0.1:{port}"
