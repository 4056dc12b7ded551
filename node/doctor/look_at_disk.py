"""Examines a log directory, and measures a sync in an unnamed file, so that nothing is left behind."""

import errno
import fcntl
import os
import pwd
import time
from pathlib import Path
from typing import Final

from ottla.logstore.disk import OsDisk
from ottla.logstore.meta_properties import read_meta_properties
from ottla.logstore.volume import LOCK_FILE
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.node.doctor.disk_findings import DiskFacts

SYNCS: Final = 5  # the result is their median
SYNC_BYTES: Final = 4096
_MAX_PID_BYTES: Final = 20


def look_at_disk(directory: Path) -> DiskFacts:
    """Return the facts about a log directory. Blocks."""
    facts = DiskFacts(str(directory), user=_name_of(os.geteuid()))
    try:
        status = directory.stat()
    except FileNotFoundError:
        above = next(one for one in directory.absolute().parents if one.exists())
        return facts._replace(exists=False, is_writable=os.access(above, os.W_OK | os.X_OK))
    except OSError as error:
        return facts._replace(error=error.strerror)
    if not directory.is_dir():
        return facts._replace(is_directory=False)
    volume = os.statvfs(directory)
    facts = facts._replace(
        is_read_only=bool(volume.f_flag & os.ST_RDONLY),
        is_writable=os.access(directory, os.W_OK | os.X_OK),
        owner=_name_of(status.st_uid),
        total_bytes=volume.f_blocks * volume.f_frsize,
        usable_bytes=volume.f_bavail * volume.f_frsize,
        free_inodes=volume.f_favail if volume.f_files else None,  # some file systems do not count inodes
    )
    facts = facts._replace(locked_by=_holder(directory))
    try:
        owner = read_meta_properties(OsDisk(), directory)
        if owner is not None:
            facts = facts._replace(cluster_id=uuid_to_text(owner.cluster_id), node_id=owner.node_id)
    except KafkaError as error:
        facts = facts._replace(meta_error=error.detail)
    except OSError as error:
        facts = facts._replace(meta_error=f"meta.properties of {directory} cannot be read: {error.strerror}")
    if facts.is_writable and not facts.is_read_only:
        try:
            facts = facts._replace(sync_ms=_sync_ms(directory))
        except OSError as error:
            # Not every file system has unnamed files; other facts show if the directory is writable.
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                facts = facts._replace(error=error.strerror)
    return facts


def _sync_ms(directory: Path) -> float:
    fd = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    try:
        took_ms = []
        for _ in range(SYNCS):
            os.pwrite(fd, os.urandom(SYNC_BYTES), 0)
            began = time.perf_counter()
            os.fdatasync(fd)
            took_ms.append((time.perf_counter() - began) * 1000)
        return sorted(took_ms)[SYNCS // 2]
    finally:
        os.close(fd)


def _holder(directory: Path) -> str | None:
    """Return the process that holds the lock, if any; the test takes a shared lock for a moment."""
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        holder = os.pread(fd, _MAX_PID_BYTES, 0).decode("ascii", "replace").strip()
        return f"process {holder}" if holder.isdigit() else "another process"
    finally:
        os.close(fd)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
