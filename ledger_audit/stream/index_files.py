"""Opens the index files of Megatron-core: descriptions, arrays, and the lengths of documents."""

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ledger_audit.errors import UnreadableError
from ledger_audit.stream.pieces import Integers

_KINDS = ("GPTDataset", "BlendedDataset")
_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<QBQQ")
_SUFFIX = "-description.txt"


@dataclass(frozen=True)
class Description:
    """What a data set says of itself: its text is what its files are named after."""

    path: Path
    """Where it stands, or would stand: the part of a blend need have no file of its own."""
    told: Mapping[str, Any]
    text: str

    @staticmethod
    def read(path: Path) -> "Description":
        """
        Read a description file.

        Raises:
            UnreadableError: it is not there, or describes something else.
        """
        try:
            text = path.read_text(encoding="utf-8")
            told = json.loads(text)
        except (OSError, ValueError) as problem:
            raise UnreadableError(
                f"{path}: cannot be read: {problem}",
                hint="name the …-description.txt in the folder of the index files",
            ) from problem
        is_known = isinstance(told, dict) and told.get("class") in _KINDS
        if not is_known or not path.name.endswith(_SUFFIX):
            raise UnreadableError(
                f"{path}: is no description of a {' or '.join(_KINDS)}",
                hint="name the …-description.txt in the folder of the index files",
            )
        found = Description(path, told, text)
        if not path.name.startswith(found.hash):
            raise UnreadableError(
                f"{path}: its name begins with another hash than its text has",
                hint="the file was changed or renamed: copy it again from the run's cache",
            )
        return found

    @property
    def kind(self) -> str:
        """The class of the data set."""
        return str(self.told["class"])

    @property
    def hash(self) -> str:
        """The MD5 of the text, as names and fingerprints have it."""
        return hashlib.md5(self.text.encode(), usedforsecurity=False).hexdigest()

    @property
    def name(self) -> str:
        """The last part of the path of the data."""
        return Path(str(self.told.get("dataset_path"))).name

    @property
    def samples(self) -> int:
        """The number of sequences that it was built for."""
        value = self.told.get("size" if self.kind == "BlendedDataset" else "num_samples")
        if type(value) is not int or value < 1:
            raise UnreadableError(
                f"{self.path}: tells no number of sequences",
                hint="give the number that the run trains on with --samples",
            )
        return value

    def beside(self, array: str) -> Path:
        """Give the path of one of its arrays."""
        split = self.told.get("index_split" if self.kind == "GPTDataset" else "split")
        return self.path.with_name(f"{self.hash}-{self.kind}-{split}-{array}.npy")

    def parts(self) -> tuple["Description", ...]:
        """
        Give the descriptions of the data sets of a blend.

        Raises:
            UnreadableError: it names none.
        """
        told = self.told.get("datasets")
        if not isinstance(told, list) or not all(
            isinstance(one, dict) and one.get("class") == "GPTDataset" for one in told
        ):
            raise UnreadableError(
                f"{self.path}: names no GPTDataset that it blends",
                hint="only blends of GPTDataset are known",
            )
        return tuple(Description(self.path, one, json.dumps(one, indent=4)) for one in told)


def array_of(path: Path, *, dimensions: int) -> Any:
    """
    Map an index array into memory: a `.npy` file of integers.

    Raises:
        UnreadableError: it is not there, or holds something else.
    """
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        raise UnreadableError(
            f"{path}: cannot be read: {problem}",
            hint="the arrays stand beside the description: copy the whole folder",
        ) from problem
    if found.ndim != dimensions or found.dtype.kind not in "iu":
        raise UnreadableError(
            f"{path}: holds {found.dtype} of {found.ndim} dimensions, not integers of {dimensions}",
            hint="the arrays beside a description belong together: copy them all again",
        )
    return found


@dataclass(frozen=True)
class Lengths:
    """The `.idx` file of a data set, which tells how long its documents are."""

    path: Path

    @staticmethod
    def of(told: Description, prefixes: tuple[Path, ...]) -> "Lengths":
        """Find the file: at a prefix that is named, where the description says, or beside it."""
        own = Path(str(told.told.get("dataset_path")))
        named = [one for one in prefixes if one.name == own.name]
        places = [*named, own, told.path.with_name(own.name)]
        for place in places:
            file = place.with_name(f"{place.name}.idx")
            if file.is_file():
                return Lengths(file)
        raise UnreadableError(
            f"{own}.idx: is not there",
            hint=f"give its prefix with --data-prefix …/{own.name}",
        )

    def read(self) -> Integers:
        """
        Give the tokens of each document.

        Raises:
            UnreadableError: it is no such file, or is cut.
        """
        with self.path.open("rb") as file:
            head = file.read(len(_MAGIC) + _HEADER.size)
            if len(head) < len(_MAGIC) + _HEADER.size or not head.startswith(_MAGIC):
                raise self._broken("is no index of token files")
            version, _, sequences, _ = _HEADER.unpack(head[len(_MAGIC) :])
            if version != 1:
                raise self._broken(f"has version {version}, and 1 is known")
            if sequences * 4 > self.path.stat().st_size:
                raise self._broken("is cut off")
            found = np.fromfile(file, dtype="<i4", count=sequences)
        if len(found) != sequences:
            raise self._broken("is cut off")
        return found.astype(np.int64)

    def _broken(self, what: str) -> UnreadableError:
        return UnreadableError(
            f"{self.path}: {what}", hint="name the prefix of the data that the index was built from"
        )
