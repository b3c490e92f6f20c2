"""A server that speaks S3 on loopback, and a bad network between it and the program."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import boto3
import pytest

BUCKET = "ledgers"
SECRET = "a-secret-that-nobody-may-be-told"
_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")
_FORBIDDEN = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@dataclass
class Network:
    """
    Passes on what goes to and from the server, and does it harm.

    It counts what passes, and never looks into it but for the first lines of requests.
    """

    server: int
    refuses: bool = False
    """Every connection is closed at once, and those that are open are."""
    forbids: bool = False
    """Every request is answered as one that is not allowed."""
    delay_s: float = 0.0
    """What is waited before each answer."""
    is_silent: bool = False
    """Nothing is answered at all."""
    cuts_after: int | None = None
    """Bytes of one connection, both ways together, after which it is cut."""
    cuts_each: int = 1
    """Only each so-manieth connection is."""
    cuts: int = 0
    """Connections that were cut."""
    refused: int = 0
    """Connections that were refused."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    down: int = 0
    """Bytes that came from the server."""
    _open: set[socket.socket] = field(default_factory=set)
    _connections: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the server behind it."""
        return f"http://127.0.0.1:{self.port}"

    def heal(self) -> None:
        """Do no harm any more, and forget what passed."""
        self.refuses = self.forbids = self.is_silent = False
        self.delay_s, self.cuts_after, self.cuts_each, self.cuts, self.down = 0.0, None, 1, 0, 0
        self.refused = 0
        self.requests.clear()

    def refuse(self) -> None:
        """Refuse every connection from now on."""
        self.refuses = True
        for one in list(self._open):
            _shut(one)

    def count(self, method: str, pattern: str) -> int:
        """Count the requests whose address holds a pattern."""
        return sum(how == method and bool(re.search(pattern, to)) for how, to in self.requests)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            self._connections += 1
            if self.refuses:
                self.refused += 1
                _reset(client)
                continue
            threading.Thread(
                target=self._serve, args=(client, self._connections), daemon=True
            ).start()

    def _serve(self, client: socket.socket, number: int) -> None:
        address = ("127.0.0.1", self.server)
        with suppress(OSError), client, socket.create_connection(address) as server:
            passed = [0 if number % self.cuts_each == 0 else -(1 << 60)]
            self._open |= {client, server}
            back = threading.Thread(target=self._back, args=(server, client, passed), daemon=True)
            back.start()
            while data := client.recv(1 << 16):
                found = [(how.decode(), to.decode()) for how, to in _REQUEST.findall(data)]
                self.requests += found
                if self.forbids and found:
                    head = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\n"
                    body = b"" if found[0][0] == "HEAD" else _FORBIDDEN
                    size = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    client.sendall(head + size + body)
                    break
                if self._is_cut(passed, len(data), client, server):
                    break
                server.sendall(data)
            self._open -= {client, server}
            _shut(client)
            _shut(server)
            back.join()

    def _back(self, server: socket.socket, client: socket.socket, passed: list[int]) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 14):
                while self.is_silent and not self.refuses:
                    time.sleep(0.05)
                time.sleep(self.delay_s)
                self.down += len(data)
                if self._is_cut(passed, len(data), client, server):
                    break
                client.sendall(data)
        _shut(client)

    def _is_cut(self, passed: list[int], more: int, *ends: socket.socket) -> bool:
        passed[0] += more
        if self.cuts_after is None or passed[0] <= self.cuts_after:
            return False
        self.cuts += 1
        for one in ends:
            _shut(one)
        return True


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _reset(one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    one.close()


@dataclass(frozen=True)
class Store:
    """A bucket, and the network that leads to it."""

    network: Network
    direct: str
    """The address of the server, past the network."""

    @property
    def variables(self) -> dict[str, str]:
        """What a user sets."""
        return {
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_ENDPOINT_URL": self.network.url,
        }

    def put(self, name: str, data: bytes) -> None:
        """Put an object, past the network."""
        self.client.put_object(Bucket=BUCKET, Key=name, Body=data)

    def upload(self, folder: Path, prefix: str) -> str:
        """Put all files of a folder, past the network; give their address."""
        client = self.client
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(folder).as_posix()}"
                client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
        return f"s3://{BUCKET}/{prefix}"

    def objects(self, prefix: str) -> dict[str, bytes]:
        """Get all objects below a prefix by their last names, past the network."""
        client = self.client
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return {
            key.rpartition("/")[2]: client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            for key in keys
        }

    @cached_property
    def client(self):  # type: ignore[no-untyped-def]  # boto3 has no types
        """A client of our own."""
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.direct,
            region_name="eu-central-1",
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key=SECRET,
        )


@contextmanager
def served() -> Iterator[Store]:
    """Run moto's server, with an empty bucket in it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = shutil.which("moto_server", path=str(Path(sys.executable).parent))
    assert program is not None, "pip install -e '.[test,remote]'"
    process = subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MOTO_S3_CUSTOM_ENDPOINTS": ""},
    )
    try:
        until(lambda: _answers(port), seconds=30)
        store = Store(Network(port), f"http://127.0.0.1:{port}")
        place = {"LocationConstraint": "eu-central-1"}
        store.client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
        yield store
        store.client.close()
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def until(is_so, *, seconds: float = 20.0) -> None:  # type: ignore[no-untyped-def]
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never was so"
        time.sleep(0.02)


@contextmanager
def variables(store: Store, **others: str) -> Iterator[None]:
    """Set what a user sets, and nothing else of the kind."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in {**store.variables, **others}.items():
            patch.setenv(name, value)
        yield
