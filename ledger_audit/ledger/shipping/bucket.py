"""
Puts objects into a bucket whole, and makes sure that they are there.

Arrow's own stream is not used for it: where a part of an upload fails, it completes the rest when
it is thrown away, and a cut object stands in the place of a whole one.
"""

import errno
import hashlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from ledger_audit.errors import UnreadableError
from ledger_audit.ledger.address import Address
from ledger_audit.ledger.remote import (
    ATTEMPTS,
    CONNECT_S,
    LONGEST,
    SILENT_S,
    Access,
    access_of,
    scrubbed,
)


class Bucket:
    """
    The objects of one attempt.

    Args:
        folder: the address of the attempt's folder.
    """

    def __init__(self, folder: Path) -> None:
        assert isinstance(folder, Address)
        self._folder = folder
        self._access: Access | None = None

    def put(self, name: str, data: bytes) -> None:
        """
        Put an object in its place in one request, which the server checks by a sum.

        Raises:
            OSError: it could not be done, or it is not known whether it was.
        """
        digest = b64encode(_md5(data).digest()).decode()
        with self._told(name):
            self._connected().put_object(**self._at(name), Body=data, ContentMD5=digest)

    def confirm(self, name: str, data: bytes) -> None:
        """
        Make sure that an object is what it should be; where its tag does not tell, read it back.

        Raises:
            OSError: it is not, or that cannot be told now.
        """
        with self._told(name):
            client = self._connected()
            found = client.head_object(**self._at(name))
            is_same = found["ContentLength"] == len(data)
            if is_same and found.get("ETag", "").strip('"') != _md5(data).hexdigest():
                is_same = client.get_object(**self._at(name))["Body"].read() == data
        if not is_same:
            raise OSError(errno.EIO, "the object is not what was put", str(self._folder / name))

    def remove(self, name: str) -> None:
        """Remove an object, if that is allowed: what is sealed beside it counts all the same."""
        with self._told(name):
            client = self._connected()
            try:
                client.delete_object(**self._at(name))
            except client.exceptions.ClientError as problem:
                if problem.response["ResponseMetadata"].get("HTTPStatusCode") not in (401, 403):
                    raise

    def _at(self, name: str) -> dict[str, str]:
        place = self._folder / name
        assert isinstance(place, Address)
        return {"Bucket": place.bucket, "Key": place.key}

    def _connected(self) -> Any:
        """Give the client; another one where the identity was renewed."""
        self._access = access_of(self._folder)
        return _client_of(self._access)

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Let whatever goes wrong be an OSError that names the object and no secret."""
        try:
            yield
        except UnreadableError as problem:  # there are no credentials
            raise OSError(errno.EACCES, f"{problem.message}; {problem.hint}") from problem
        except ImportError as problem:
            told = "boto3 is not installed: pip install 'ledger-audit[s3]'"
            raise OSError(errno.ENOPKG, told) from problem
        except OSError:
            raise
        except Exception as problem:  # boto3 has no base of all its errors
            text = scrubbed(" ".join(str(problem).split()), self._access)[:LONGEST]
            place = str(self._folder / name)
            raise OSError(errno.EIO, text, place) from None


@lru_cache(maxsize=4)
def _client_of(access: Access) -> Any:
    """Give boto3's client, one for each identity: to make one takes long."""
    import boto3  # noqa: PLC0415  # the extra `s3`
    from botocore.config import Config  # noqa: PLC0415

    return boto3.session.Session().client(
        "s3",
        endpoint_url=access.endpoint,
        region_name=access.region,
        aws_access_key_id=access.key,
        aws_secret_access_key=access.secret,
        aws_session_token=access.token,
        config=Config(
            connect_timeout=CONNECT_S,
            read_timeout=SILENT_S,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            s3={"addressing_style": "path"} if access.endpoint else None,
            # stores of others do not know the newer sums; MD5 is asked for by hand
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def _md5(data: bytes) -> Any:
    return hashlib.md5(data, usedforsecurity=False)
