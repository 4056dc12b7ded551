"""A directory of batches: each is written beside it, and becomes visible by one rename.

    flights/_lake.json                  the writer of its batches, and the columns of their layout
    flights/batch=7/_batch.json         the content of batch 7
    flights/batch=7/carrier=AA/….parquet
    .flights.staging/8-…                a batch being written, or left by a writer that crashed

The rename of a directory is atomic, and onto a directory with files it fails. So even a reader that does not
know the layout sees a batch whole or not at all, and never twice, and of two writers of one batch one fails.
Staged batches lie outside, where no pattern over the directory finds them. All is on disk before the rename.
"""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyarrow.parquet as pq

from ottla.pipeline.lake.manifest import MAX_MANIFEST_BYTES, LakeError, LakeFile, Manifest, Owner
from ottla.pipeline.option_values import shown
from ottla.pipeline.words import OptionError

BATCH_COLUMN: Final = "batch"
_BATCH: Final = re.compile(rf"{BATCH_COLUMN}=(0|[1-9][0-9]{{0,17}})")
_OWNER: Final = "_lake.json"
_MANIFEST: Final = "_batch.json"


def local_path(option: str, value: str) -> Path:
    """Return the path of an absolute path or `file:///…`; OptionError for others, such as object stores.

    A lake needs directories that can be renamed.
    """
    parts = urlsplit(value)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and not parts.query:
        value = unquote(parts.path)
    elif "://" in value:
        raise OptionError(
            option,
            f"is {shown(value)}, but must be a directory that is mounted here: each "
            "batch becomes visible by a rename, which object stores do not have",
        )
    path = Path(value)
    if not path.is_absolute() or "\0" in value or path == Path("/"):
        raise OptionError(
            option,
            f"is {shown(value)}, but must be the absolute path of a directory that is used for nothing else",
        )
    return Path(os.path.normpath(path))


class LakeDirectory:
    """One writer's view of a directory.

    Raises LakeError if the directory has other content than this writer's, and OSError if the system fails.
    """

    def __init__(self, path: Path, owner: Owner) -> None:
        self.path = path
        self.owner = owner
        self._staging = path.with_name(f".{path.name}.staging")

    def claim(self) -> None:
        """Make the directory, or check that it belongs to this writer; then remove unfinished batches.

        A task that still writes such a batch fails at its rename.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._staging.mkdir(exist_ok=True)
        if self.path.stat().st_dev != self._staging.stat().st_dev:
            raise LakeError(str(self.path), "is the root of a file system: use a directory within it")
        owner = self._read_owner()
        if owner is None:
            if any(self.path.iterdir()):
                raise LakeError(str(self.path), f"has files but no {_OWNER}: use an empty directory")
            self._write_owner()
            owner = self._read_owner()
        assert owner is not None
        if owner.writer != self.owner.writer:
            raise LakeError(
                str(self.path),
                f"belongs to {owner.writer}, not to {self.owner.writer}: use another directory",
            )
        if owner.partition_by != self.owner.partition_by:
            then, now = (", ".join(one.partition_by) or "nothing" for one in (owner, self.owner))
            raise LakeError(
                str(self.path),
                f"is partitioned by {then}, not by {now}: use the same partitionBy, or another directory",
            )
        for left in self._staging.iterdir():
            self.remove(left)

    def staging_path(self, batch: int) -> Path:
        """Return a new path at which an attempt at a batch is written."""
        return self._staging / f"{batch}-{uuid4().hex}"

    def remove(self, staged: Path) -> None:
        """Remove an attempt. Tasks that still write it may leave files, which stay invisible."""
        if staged.is_dir():
            shutil.rmtree(staged, ignore_errors=True)
        else:
            staged.unlink(missing_ok=True)

    def commit(self, staged: Path, manifest: Manifest) -> None:
        """Make a staged batch visible; LakeError if a batch of its number exists."""
        (staged / _MANIFEST).write_text(manifest.to_json())
        sync_tree(staged)
        target = self.batch_path(manifest.batch)
        try:
            staged.rename(target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise LakeError(
                    str(target), "already exists: another query writes to this directory"
                ) from None
            raise
        sync(self.path)

    def batch_path(self, batch: int) -> Path:
        return self.path / f"{BATCH_COLUMN}={batch}"

    def read_batch(self, batch: int) -> Manifest | None:
        """Return the manifest of a batch, None if there is no such batch; LakeError if its files differ."""
        directory = self.batch_path(batch)
        if not directory.is_dir():
            return None
        where = directory / _MANIFEST
        manifest = Manifest.from_json(_read(where), str(where))
        if (manifest.batch, manifest.writer) != (batch, self.owner.writer):
            raise LakeError(str(where), f"is batch {manifest.batch} of {manifest.writer}")
        for one in manifest.files:
            file = directory / one.path
            size_bytes = file.stat().st_size if file.is_file() else 0
            if size_bytes != one.size_bytes:
                raise LakeError(str(file), f"has {size_bytes} bytes, but should have {one.size_bytes}")
        return manifest

    def last_batch(self) -> Manifest | None:
        """Return the manifest of the batch with the highest number, or None if there is no batch."""
        found = [_BATCH.fullmatch(one.name) for one in self.path.iterdir()]
        numbers = [int(match[1]) for match in found if match]
        return self.read_batch(max(numbers)) if numbers else None

    def _read_owner(self) -> Owner | None:
        where = self.path / _OWNER
        return Owner.from_json(_read(where), str(where)) if where.exists() else None

    def _write_owner(self) -> None:
        made = self._staging / f"owner-{uuid4().hex}"
        made.write_text(self.owner.to_json())
        sync(made)
        try:
            # A link does not replace the file of another writer that was faster.
            os.link(made, self.path / _OWNER)
        except FileExistsError:
            pass
        sync(self.path)
        sync(self.path.parent)


def measure(staged: Path) -> tuple[LakeFile, ...]:
    """Return the Parquet files of a staged batch; ArrowInvalid for one without its footer."""
    return tuple(
        LakeFile(
            path=str(file.relative_to(staged)),
            size_bytes=file.stat().st_size,
            rows=pq.read_metadata(file).num_rows,
        )
        for file in sorted(staged.rglob("*.parquet"))
    )


def sync_tree(directory: Path) -> None:
    """Sync all files and names of a directory to disk, the names last."""
    for path in _bottom_up(directory):
        sync(path)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _bottom_up(directory: Path) -> Iterator[Path]:
    for folder, _, files in os.walk(directory, topdown=False):
        yield from (Path(folder, name) for name in files)
        yield Path(folder)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise LakeError(str(path), "is missing")
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise LakeError(str(path), f"is larger than {MAX_MANIFEST_BYTES} bytes")
    return path.read_bytes()
