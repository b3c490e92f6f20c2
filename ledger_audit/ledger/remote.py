"""
Reads ledgers that are in an object store: lists them once, and fetches objects or their ends.

Polars and Arrow each have a client of their own; both get what is resolved here, so that they see
one bucket with one identity. What a server refuses is never taken for a ledger without records.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa

from ledger_audit.errors import UnreadableError, VanishedError
from ledger_audit.ledger.address import Address

ATTEMPTS = 4
"""Times that one request is made, the waits between them growing, before it is given up."""
CONNECT_S, SILENT_S = 5, 20
"""Seconds that a connection may take, and that a server may say nothing in the middle."""
AT_ONCE = 16
"""Requests that are under way at once."""
LONGEST = 400
"""Characters that are told of what a server says."""

_DEFAULT_REGION = "us-east-1"
_REFUSED = re.compile(
    r"ACCESS_DENIED|AccessDenied|Forbidden|403|401|InvalidAccessKeyId|SignatureDoesNotMatch"
    r"|INVALID_ACCESS_KEY|INVALID_SIGNATURE|SIGNATURE|ExpiredToken|InvalidToken|TokenRefresh",
    re.IGNORECASE,
)
_NO_OBJECT = re.compile(r"404 Not Found|NoSuchKey")
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket", re.IGNORECASE)
_XML = re.compile(r"<Code>(.*?)</Code>(?:.*?<Message>(.*?)</Message>)?", re.DOTALL)


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Access:
    """How a bucket is reached, resolved once for every client."""

    endpoint: str | None
    """The address of the server; null: Amazon's."""
    region: str
    key: str
    secret: str = field(repr=False)
    token: str | None = field(repr=False)

    @property
    def server(self) -> str:
        """Name the server, for messages."""
        return self.endpoint or f"Amazon S3 ({self.region})"

    def options(self) -> dict[str, Any]:
        """Give the same as the engine's options."""
        told: dict[str, Any] = {
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_region": self.region,
            "aws_session_token": self.token,
            "aws_endpoint_url": self.endpoint,
            "aws_allow_http": str((self.endpoint or "").startswith("http://")).lower(),
            "connect_timeout": f"{CONNECT_S}s",
            "timeout": f"{3 * SILENT_S}s",
        }
        return {name: value for name, value in told.items() if value is not None}


def access_of(address: Address) -> Access:
    """
    Resolve how the bucket of an address is reached, from the usual variables.

    Raises:
        UnreadableError: there are no credentials.
    """
    endpoint = _variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    region = _variable("AWS_REGION", "AWS_DEFAULT_REGION")
    if endpoint is not None and not re.match("https?://.", endpoint):
        raise UnreadableError(
            f"{address}: AWS_ENDPOINT_URL is {endpoint!r}, which is no address of a server",
            hint="write it with its scheme: https://HOST or http://HOST:PORT",
        )
    key, secret, token = _credentials(address)
    if region is None:
        region = _region_of(address.bucket) if endpoint is None else _DEFAULT_REGION
    return Access(endpoint and endpoint.rstrip("/"), region, key, secret, token)


def _variable(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _credentials(address: Address) -> tuple[str, str, str | None]:
    """Take the variables, else what a profile, a role or this machine gives through boto3."""
    key, secret = _variable("AWS_ACCESS_KEY_ID"), _variable("AWS_SECRET_ACCESS_KEY")
    if key is not None and secret is not None:
        return key, secret, _variable("AWS_SESSION_TOKEN")
    why = "boto3, which reads profiles and roles, is not installed"
    try:
        found = _looked_up()
        if found is not None:
            frozen = found.get_frozen_credentials()
            return str(frozen.access_key), str(frozen.secret_key), frozen.token
        why = "no profile and no role gives any"
    except ImportError:
        pass
    except Exception as problem:  # whatever a profile or a server of roles does to boto3
        why = f"a profile or role fails: {problem}"
    raise UnreadableError(
        f"{address}: no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, "
        f"and {why}",
        hint="set the two variables; for profiles and roles: pip install 'ledger-audit[s3]'",
    )


@lru_cache(maxsize=1)
def _looked_up() -> Any:
    """Let boto3 look for an identity, once: it renews by itself what it found."""
    import boto3  # noqa: PLC0415  # whoever has the variables need not wait for it

    return boto3.Session().get_credentials()


@lru_cache(maxsize=8)
def _region_of(bucket: str) -> str:
    """Ask Amazon which region a bucket is in; without an answer its default is as good as any."""
    import pyarrow.fs  # noqa: PLC0415  # most ledgers are on local disks

    try:
        return str(pyarrow.fs.resolve_s3_region(bucket))
    except (OSError, pa.ArrowException):
        return _DEFAULT_REGION


@lru_cache(maxsize=8)
def _files_of(access: Access) -> Any:
    """Give Arrow's client, one for each identity."""
    import pyarrow.fs  # noqa: PLC0415

    scheme, _, host = (access.endpoint or "").rpartition("://")
    where = {"scheme": scheme, "endpoint_override": host} if scheme else {}
    return pyarrow.fs.S3FileSystem(
        access_key=access.key,
        secret_key=access.secret,
        session_token=access.token,
        region=access.region,
        connect_timeout=CONNECT_S,
        request_timeout=SILENT_S,
        retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        **where,
    )


def options_of(path: str | Path) -> dict[str, Any]:
    """Give what the engine must be told to scan a file; of a local one, nothing."""
    if not isinstance(path, Address):
        return {}
    # it shall not look for another identity by itself
    return {"storage_options": access_of(path).options(), "credential_provider": None}


def several(act: Callable[[T], R], on: Sequence[T], *, is_far: bool) -> Iterator[R]:
    """Do one thing with each, in their order; what waits for a server, several at once."""
    if not is_far or len(on) < 2:
        yield from map(act, on)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(act, on)


@contextmanager
def reached(address: Address, access: Access) -> Iterator[None]:
    """
    Let what goes wrong with a server be said of the address, with its remedy.

    Raises:
        VanishedError: the object is not there.
        UnreadableError: the server refused, was silent or broke off.
    """
    try:
        yield
    except FileNotFoundError as problem:
        raise VanishedError.of(address) from problem
    except (OSError, pa.ArrowException) as problem:
        raise complaint(str(address), problem, access) from problem


def complaint(name: str, problem: BaseException, access: Access | None = None) -> UnreadableError:
    """Say what a server did, and what to do about it; an object that is gone has vanished."""
    text = str(problem)
    if _NO_OBJECT.search(text) and not _NO_BUCKET.search(text):
        return VanishedError.of(name)  # some versions of the engine have no word of their own
    told = _XML.search(text)
    short = " ".join((": ".join(filter(None, told.groups())) if told else text).split())
    short = scrubbed(short, access)[:LONGEST]
    server = "the object store" if access is None else access.server
    if _NO_BUCKET.search(text):
        hint = "check the name of the bucket, and AWS_ENDPOINT_URL"
    elif _REFUSED.search(text):
        hint = "check the AWS_* variables, and that they allow s3:ListBucket and s3:GetObject there"
    else:
        hint = "check that the server of AWS_ENDPOINT_URL answers, and try again"
    return UnreadableError(f"{name}: cannot be read from {server}: {short}", hint=hint)


def scrubbed(text: str, access: Access | None) -> str:
    """Take what is secret out of a text."""
    known = [_variable("AWS_SECRET_ACCESS_KEY"), _variable("AWS_SESSION_TOKEN")]
    if access is not None:
        known += [access.secret, access.token]
    for secret in filter(None, known):
        text = text.replace(secret, "***")
    return text


def is_of_store(problem: BaseException) -> bool:
    """Tell whether the engine fails because of an object store, and not of what a file holds."""
    return "object-store error" in str(problem)


def listed(folder: Address) -> Mapping[str, int]:
    """
    List every object below a folder, once.

    Returns:
        Bytes by name below the folder, in the order of the names.

    Raises:
        UnreadableError: nothing is there, or the server does not say.
    """
    import pyarrow.fs  # noqa: PLC0415

    access = access_of(folder)
    below = "/".join(folder.parts[1:])
    try:
        with reached(folder, access):
            selector = pyarrow.fs.FileSelector(below, recursive=True)
            found = _files_of(access).get_file_info(selector)
    except VanishedError:
        found = []
    files = {one.path.removeprefix(f"{below}/"): int(one.size) for one in found if one.is_file}
    if not files:
        raise UnreadableError(
            f"{folder}: does not exist: {access.server} has no object there",
            hint="check the address, and AWS_ENDPOINT_URL",
        )
    return dict(sorted(files.items()))


def fetch(address: Address, size: int | None = None, *, last: int | None = None) -> bytes:
    """
    Fetch an object, or a part of it.

    Args:
        address: of the object.
        size: bytes that it had when it was listed; what came after is left out. Null: all.
        last: bytes at its end; null: from its beginning.

    Raises:
        VanishedError: it is not there, or has shrunk.
        UnreadableError: the server refused, was silent or broke off.
    """
    access = access_of(address)
    with (
        reached(address, access),
        _files_of(access).open_input_file("/".join(address.parts[1:])) as file,
    ):
        there = file.size()
        size = there if size is None else size
        if there < size:
            raise VanishedError.of(address)
        start = 0 if last is None else max(0, size - last)
        data: bytes = file.read_at(size - start, start)
        if len(data) != size - start:
            raise OSError(f"only {len(data)} of {size - start} bytes came")
    return data


@contextmanager
def copied(address: Address) -> Iterator[Path]:
    """
    Give a copy of an object on this machine, for what reads local files; it is gone afterwards.

    Raises:
        UnreadableError: it is not there, or the server refused; what is raised of the copy is said
            of the address.
    """
    with TemporaryDirectory(prefix="ledger-audit-") as folder:
        copy = Path(folder) / (address.name or "list")
        try:
            copy.write_bytes(fetch(address))
        except VanishedError as problem:
            raise UnreadableError(
                f"{address}: does not exist", hint="check the address"
            ) from problem
        try:
            yield copy
        except UnreadableError as problem:
            said = problem.message.replace(str(copy), str(address))
            raise UnreadableError(said, hint=problem.hint, details=problem.details) from problem
