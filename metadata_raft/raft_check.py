"""Checks the metadata log and the snapshots of a running voter for damage.

The voter continues meanwhile: removed files are skipped, an entry that is being written is not checked, and a
file that seems damaged is read a second time. Nothing is changed; the next start cuts off the damage and gets
the entries again from the leader.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.disk import Disk
from ottla.logstore.record_batch import check_batch
from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.raft_entry import check_entry
from ottla.metadata_raft.raft_journal import was_synced

_FILE: Final = re.compile(r"(\d{20})(\.log|-\d{10}\.checkpoint)")


class MetadataDamage(NamedTuple):
    """The first damage in a file."""

    path: Path
    position: int
    problem: str


def damage_in(directory: Path, disk: Disk) -> Iterator[MetadataDamage]:
    """Yield the first damage of each file of a voter. Blocks; raises OSError from the disk."""
    if not disk.exists(directory):
        return
    names = sorted(name for name in disk.list_directory(directory) if _FILE.fullmatch(name))
    last = max((name for name in names if name.endswith(".log")), default="")
    for name in names:
        path, is_last = directory / name, name == last
        found = _damage(path, disk, is_last=is_last)
        if found is not None and found == _damage(path, disk, is_last=is_last):
            yield found


def _damage(path: Path, disk: Disk, *, is_last: bool) -> MetadataDamage | None:
    try:
        content = disk.read_file(path)
    except FileNotFoundError:
        return None
    position = 0
    while position < len(content):
        try:
            if path.suffix == ".log":
                position += check_entry(content, position).size_bytes
            else:
                position += check_batch(content, position).size_bytes
        except KafkaError as error:
            if is_last and not was_synced(content, position):
                return None
            return MetadataDamage(path, position, error.detail)
    return None
