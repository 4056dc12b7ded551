"""Judges log directories: free space, permissions, owner, lock, time of a sync; finds offline directories."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.node.client.log_dirs import BrokerLogDirs
from ottla.node.doctor.finding import Finding, note, problem

# The default size of a segment. With less free space the disk is soon full: retention deletes whole segments.
LEAST_FREE_BYTES: Final = 1024**3
LEAST_FREE_SHARE: Final = 0.05
# Each change of metadata waits for a sync on a majority of the voters. An SSD takes a few ms.
SLOW_SYNC_MS: Final = 50.0


class DiskFacts(NamedTuple):
    """A log directory of this machine; unknown facts are None."""

    path: str
    error: str | None = None  # of the operating system, if it cannot be examined
    exists: bool = True
    is_directory: bool = True
    is_read_only: bool = False
    is_writable: bool = True
    owner: str | None = None
    user: str | None = None  # the user that the doctor runs as, and a node started here would
    total_bytes: int | None = None
    usable_bytes: int | None = None
    free_inodes: int | None = None
    sync_ms: float | None = None
    cluster_id: str | None = None  # in its meta.properties
    node_id: int | None = None
    meta_error: str | None = None
    locked_by: str | None = None  # the process that holds the lock


class Expected(NamedTuple):
    """The owner of the directories by the configuration; None for a cluster id that it does not name."""

    cluster_id: str | None
    node_id: int
    is_serving: bool  # True if a node answers at the listeners of the configuration


def of_disks(disks: Iterable[DiskFacts], expected: Expected) -> Iterator[Finding]:
    """Yield the problems of each directory, and those between directories."""
    disks = list(disks)
    for one in disks:
        yield from _of_disk(one, expected)
    ids = {one.cluster_id for one in disks if one.cluster_id is not None}
    if len(ids) > 1 and expected.cluster_id is None:
        yield problem(
            "disk", f"The log directories belong to {len(ids)} different clusters: {', '.join(sorted(ids))}."
        )


def _of_disk(one: DiskFacts, expected: Expected) -> Iterator[Finding]:
    name = f"The log directory {one.path}"
    if one.error is not None:
        yield problem("disk", f"{name} cannot be examined: {one.error}.")
        return
    if not one.exists:
        if not one.is_writable:
            yield problem("disk", f"{name} does not exist, and {one.user} cannot create it.")
        return  # the node creates it
    if not one.is_directory:
        yield problem("disk", f"{name} is not a directory: choose another log.dirs.")
        return
    if one.is_read_only:
        yield problem("disk", f"{name} is on a file system that is mounted read-only.")
    elif not one.is_writable:
        yield problem(
            "disk", f"{name} belongs to {one.owner}, and {one.user} cannot write to it: change its owner."
        )
    elif one.owner != one.user and one.owner is not None:
        yield note("disk", f"{name} belongs to {one.owner}, and the doctor runs as {one.user}.")
    yield from _of_room(name, one)
    if one.sync_ms is not None and one.sync_ms > SLOW_SYNC_MS:
        yield problem(
            "disk",
            f"{name} takes {one.sync_ms:.0f} ms to sync 4 KiB, which slows down metadata changes "
            "and elections: use a faster disk for metadata.log.dir.",
        )
    yield from _of_owner(name, one, expected)


def _of_room(name: str, one: DiskFacts) -> Iterator[Finding]:
    yield from _of_free_bytes(name, one.usable_bytes, one.total_bytes)
    if one.free_inodes == 0:
        yield problem(
            "disk", f"The file system of {one.path} has no free inodes: no new segments can be created."
        )


def _of_free_bytes(name: str, usable_bytes: int | None, total_bytes: int | None) -> Iterator[Finding]:
    if usable_bytes is not None and total_bytes:
        least = min(LEAST_FREE_BYTES, int(total_bytes * LEAST_FREE_SHARE))
        if usable_bytes < least:
            yield problem(
                "disk",
                f"{name} has {usable_bytes // 1024**2} MiB of {total_bytes // 1024**2} MiB "
                "free: when the disk is full, the directory goes offline. Shorten retention, "
                "move partitions away, or add disk space.",
            )


def of_brokers(brokers: Iterable[BrokerLogDirs]) -> Iterator[Finding]:
    """Yield the problems of the directories of running nodes."""
    for broker in brokers:
        for one in broker.log_dirs:
            name = f"The log directory {one.path} of node {broker.broker_id}"
            if one.error is not None:
                yield problem(
                    "disk",
                    f"{name} is offline ({one.error.code.name}), with all its replicas: repair or "
                    "replace the disk, then restart the node.",
                )
            else:
                yield from _of_free_bytes(name, one.usable_bytes, one.total_bytes)


def _of_owner(name: str, one: DiskFacts, expected: Expected) -> Iterator[Finding]:
    if one.meta_error is not None:
        yield problem("disk", f"{one.meta_error.rstrip('.')}.")
    if one.cluster_id is not None and expected.cluster_id not in (None, one.cluster_id):
        yield problem(
            "disk",
            f"{name} belongs to cluster {one.cluster_id}, but the configuration is for cluster "
            f"{expected.cluster_id}: correct log.dirs or cluster.id.",
        )
    if one.node_id is not None and one.node_id != expected.node_id:
        yield problem(
            "disk",
            f"{name} belongs to node {one.node_id}, but the configuration is for node "
            f"{expected.node_id}: correct log.dirs or node.id.",
        )
    if one.locked_by is not None and not expected.is_serving:
        yield problem(
            "disk",
            f"{name} is locked by {one.locked_by}, but no node answers at the listeners: that "
            "process is starting, hanging, or uses another configuration.",
        )
