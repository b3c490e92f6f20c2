"""
Tells addresses in an object store from paths on this machine, and never takes one for the other.

An address is a path of its own kind: it has a name, a parent and children, and whatever would open
it on a local disk is refused.
"""

import os
import re
from pathlib import Path, PosixPath
from typing import Any, NoReturn

from ledger_audit.errors import UnreadableError, UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_OURS = "s3"
_RELATED = ("s3a", "s3n")
"""What others call the same stores."""


class Address(PosixPath):
    """
    A place in an object store: `s3://BUCKET/KEY`.

    Every function of the operating system refuses it, and says so as a `UsageError`: what does not
    know of object stores cannot touch a folder named `s3:` instead.
    """

    __slots__ = ()

    @property
    def bucket(self) -> str:
        """The bucket that it is in."""
        return self.parts[1]

    @property
    def key(self) -> str:
        """The key below the bucket; empty: the bucket itself."""
        return "/".join(self.parts[2:])

    def absolute(self) -> "Address":
        """Give itself: it depends on no working directory."""
        return self

    def is_absolute(self) -> bool:
        """Say that it depends on no working directory."""
        return True

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse what some versions of Python do with the text of a path."""
        raise self._refusal

    iterdir = _refuse
    glob = _refuse
    rglob = _refuse
    walk = _refuse

    @property
    def _refusal(self) -> UsageError:
        return UsageError(
            f"{self}: is in an object store, and this needs a place on a local disk",
            hint="name a local file or folder; `aws s3 sync` copies between the two",
        )

    def __str__(self) -> str:
        return f"{_OURS}://{'/'.join(self.parts[1:])}"

    def __fspath__(self) -> str:
        raise self._refusal


def check_name(path: str | os.PathLike[str]) -> None:
    """
    Refuse a path that the libraries which read columns cannot be told.

    Raises:
        UnreadableError: the bytes of its name are no UTF-8.
    """
    if not is_text(path):
        raise UnreadableError(
            f"{path}: the bytes of its name are no UTF-8", hint="rename it, and read it then"
        )


def is_text(path: str | os.PathLike[str]) -> bool:
    """Tell whether the bytes of a path's name are UTF-8."""
    name = str(path)
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def place_of(named: str | os.PathLike[str]) -> Path:
    """
    Give the path, or the address, that a text names.

    Raises:
        UsageError: it is an address in a store that is not known, or none that a key can have.
    """
    if isinstance(named, Address):
        return named
    text = os.fspath(named)
    found = _SCHEME.match(text)
    if found is None:
        return Path(text)
    scheme, rest = found[1].lower(), text[found.end() :].removesuffix("/")
    if scheme != _OURS:
        hint = "of object stores s3:// is known; copy the ledger to a local folder"
        if scheme in _RELATED:
            hint = f"write s3://{rest}"
        raise UsageError(f"{text}: {scheme}:// is no address that is known here", hint=hint)
    parts = rest.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise UsageError(
            f"{text}: is no address of an object: a bucket or a part of its key is missing",
            hint="write s3://BUCKET/FOLDER, without empty parts, . and ..",
        )
    return Address(f"{_OURS}:", *parts)
