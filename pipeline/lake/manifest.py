"""The content of a lake's batch and the owner of its directory: two small JSON files, checked when read.

`batch=N/_batch.json` becomes visible by the same rename as the files that it names, so the offsets in it are
as exactly once as the rows are. `_lake.json` names the writer that may add batches.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.pipeline.source.source_offsets import SourceOffsets, read_offsets
from ottla.pipeline.words import OptionError

VERSION: Final = 1
MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024  # a million files of sixty bytes
_MAX_NUMBER: Final = 2**63 - 1


class LakeError(Exception):
    """A fault in a directory of batches: `where` is a file or directory of it."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFile:
    """One Parquet file; `path` is relative to the directory of its batch."""

    path: str
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The offsets that a batch of a load read, from `start` to before `end`, and the load's progress."""

    start: SourceOffsets
    end: SourceOffsets
    progress: SourceOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of one batch; `offsets` if it belongs to a load."""

    writer: str
    batch: int
    files: tuple[LakeFile, ...]
    offsets: Offsets | None = None

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)

    def to_json(self) -> str:
        document: dict[str, object] = {
            "version": VERSION,
            "writer": self.writer,
            "batch": self.batch,
            "rows": self.rows,
            "files": [{"path": one.path, "bytes": one.size_bytes, "rows": one.rows} for one in self.files],
        }
        if self.offsets is not None:
            document["startOffsets"] = self.offsets.start.to_json()
            document["endOffsets"] = self.offsets.end.to_json()
            document["progress"] = self.offsets.progress.to_json()
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: bytes, where: str) -> "Manifest":
        """Read a manifest; LakeError, with `where` and the place in it, unless `to_json` wrote it."""
        reader = _Reader(where)
        document = reader.document(text)
        files = tuple(
            LakeFile(
                path=reader.path(one, f"files[{number}].path"),
                size_bytes=reader.number(one, "bytes", f"files[{number}].bytes"),
                rows=reader.number(one, "rows", f"files[{number}].rows"),
            )
            for number, one in enumerate(reader.objects(document, "files"))
        )
        manifest = cls(
            writer=reader.text(document, "writer"),
            batch=reader.number(document, "batch", "batch"),
            files=files,
            offsets=reader.offsets(document),
        )
        if reader.number(document, "rows", "rows") != manifest.rows:
            raise LakeError(where, "rows is not the sum of the rows of its files")
        return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The writer of a directory's batches, and the columns by which they are laid out in it."""

    writer: str
    partition_by: tuple[str, ...]

    def to_json(self) -> str:
        document = {"version": VERSION, "writer": self.writer, "partitionBy": list(self.partition_by)}
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: bytes, where: str) -> "Owner":
        """Read an owner; LakeError unless `to_json` wrote it."""
        reader = _Reader(where)
        document = reader.document(text)
        names = document.get("partitionBy")
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise LakeError(where, "partitionBy is not a list of names")
        return cls(writer=reader.text(document, "writer"), partition_by=tuple(names))


class _Reader:
    """Reads the members of a document; each error has the file and the place in it."""

    def __init__(self, where: str) -> None:
        self._where = where

    def document(self, text: bytes) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise self._problem("is not JSON") from None
        if not isinstance(found, dict):
            raise self._problem("is not a JSON object")
        if found.get("version") != VERSION:
            raise self._problem(f"has version {str(found.get('version'))[:20]}; this Ottla reads {VERSION}")
        return found

    def text(self, members: Mapping[str, Any], key: str) -> str:
        value = members.get(key)
        if not isinstance(value, str) or not value:
            raise self._problem(f"{key} is not text")
        return value

    def number(self, members: Mapping[str, Any], key: str, place: str) -> int:
        value = members.get(key)
        # In Python true is a number, too.
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_NUMBER:
            raise self._problem(f"{place} is not a number of at least 0")
        return value

    def path(self, members: Mapping[str, Any], place: str) -> str:
        """Return a path that stays in its directory."""
        value = members.get("path")
        if not isinstance(value, str) or not value or "\0" in value:
            raise self._problem(f"{place} is not a path")
        if value.startswith("/") or ".." in value.split("/"):
            raise self._problem(f"{place} points outside the batch")
        return value

    def objects(self, members: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        value = members.get(key)
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self._problem(f"{key} is not a list of objects")
        return value

    def offsets(self, members: Mapping[str, Any]) -> Offsets | None:
        if not any(key in members for key in ("startOffsets", "endOffsets", "progress")):
            return None
        start, end, progress = (
            self._offsets(members, key) for key in ("startOffsets", "endOffsets", "progress")
        )
        if start.offsets.keys() != end.offsets.keys():
            raise self._problem("endOffsets has other partitions than startOffsets")
        for partition, offset in end.offsets.items():
            if offset < start.offsets[partition] or progress.offsets.get(partition) != offset:
                raise self._problem(f"endOffsets of {partition} does not match startOffsets and progress")
        return Offsets(start=start, end=end, progress=progress)

    def _offsets(self, members: Mapping[str, Any], key: str) -> SourceOffsets:
        try:
            return read_offsets(members.get(key), key)
        except OptionError as error:
            raise self._problem(str(error)) from None

    def _problem(self, problem: str) -> LakeError:
        return LakeError(self._where, problem)
