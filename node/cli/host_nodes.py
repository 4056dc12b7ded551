"""Derives the settings of several nodes of one host from those of the host (`ottla.nodes.per.host`).

The first node has the node.id, the ports and the roles of the host's settings; the others are brokers with
the next ids and ports. Their rack is the host unless `broker.rack` is set, so that no two replicas of a
partition are on one host if there are as many hosts as replicas.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.logstore.meta_properties import META_PROPERTIES
from ottla.node.cli.failure import CommandError
from ottla.node.memory.memory_budget import MIN_MEMORY_BYTES
from ottla.node.memory.memory_limit import memory_limit_bytes
from ottla.node.settings.cluster_settings import AUTO, MAX_NODES_PER_HOST, NODES_PER_HOST
from ottla.node.settings.config import BROKER_CONFIG_DEF, gathered_settings
from ottla.node.settings.listener_settings import MAX_PORT
from ottla.node.settings.rest_settings import (
    ADVERTISED_REST_LISTENER,
    DEFAULT_REST_PORT,
    PROBE_LISTENER,
    REST_LISTENERS,
)

MEMORY: Final = "ottla.memory.max.bytes"
# Lists of addresses that a node listens on: each further node has the next ports.
_OWN_ADDRESSES: Final = ("listeners", REST_LISTENERS, PROBE_LISTENER)
_ADVERTISED: Final = ("advertised.listeners", ADVERTISED_REST_LISTENER)
_DIRECTORIES: Final = ("log.dirs", "log.dir", "metadata.log.dir")
_PORT: Final = re.compile(r":(\d{1,5})(/?)$")
_HOME: Final = re.compile(r"node-(\d{1,10})")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNode:
    """One node of a host, and the settings in which it differs from those of the host."""

    node_id: int
    overrides: tuple[str, ...]


def nodes_of_host(
    config_file: Path | None, overrides: Sequence[str], *, as_on_disk: bool = False
) -> list[HostNode]:
    """Return the nodes of this host; none if it runs a single one.

    With `as_on_disk`, `auto` is the number of nodes that have directories, since the service may have other
    cores than a shell. CommandError and INVALID_CONFIG name a setting that does not allow it.
    """
    settings = gathered_settings(config_file, overrides=overrides)
    wanted = settings.get(NODES_PER_HOST, "1")
    known = len({home.name for home in _homes(settings)}) if as_on_disk and wanted == AUTO else 0
    count = known or nodes_wanted(wanted)
    nodes = derive_nodes(settings, count, _memory_bytes(settings)) if count > 1 else []
    refuse_other_layout(settings, nodes)
    return nodes


def _memory_bytes(settings: Mapping[str, str]) -> int:
    given = BROKER_CONFIG_DEF.parse(MEMORY, settings.get(MEMORY, "-1"))
    return given if isinstance(given, int) and given > 0 else memory_limit_bytes()


def nodes_wanted(text: str) -> int:
    """Return the number of nodes for a value of `ottla.nodes.per.host`; INVALID_CONFIG if it is invalid."""
    value = str(BROKER_CONFIG_DEF.parse(NODES_PER_HOST, text))
    return min(available_cpus(), MAX_NODES_PER_HOST) if value == AUTO else int(value)


def available_cpus(cpu_max: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the number of cores that this process may use, by its affinity and its cgroup's quota."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = cpu_max.read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return cores


def derive_nodes(texts: Mapping[str, str], count: int, memory_bytes: int) -> list[HostNode]:
    """Return the nodes of a host with these settings, which share `memory_bytes`.

    CommandError names a setting that does not allow so many.
    """
    if not (texts.get("controller.quorum.voters") or texts.get("controller.quorum.bootstrap.servers")):
        raise CommandError(
            f"{NODES_PER_HOST} is for hosts of a cluster: set controller.quorum.voters, with the first node "
            "of some hosts, and a listener for controllers. For a cluster on one machine, use "
            "`ottla cluster up`."
        )
    if texts.get("process.roles", "").strip() == "controller":
        raise CommandError(
            f"{NODES_PER_HOST} is for brokers, and process.roles=controller: a controller needs one core."
        )
    first_id = texts.get("node.id", texts.get("broker.id", ""))
    if not first_id.isdecimal():
        raise CommandError(f"With {NODES_PER_HOST}, node.id must be set: it is the id of the first node.")
    if not (texts.get("log.dirs") or texts.get("log.dir")):
        raise CommandError(
            f"With {NODES_PER_HOST}, log.dirs must be set: each node has a subdirectory in each."
        )
    nodes = [
        HostNode(
            node_id=int(first_id) + index,
            overrides=tuple(_overrides(texts, int(first_id), index, memory_bytes // count)),
        )
        for index in range(count)
    ]
    _refuse_shared_ports(nodes)
    return nodes


def _overrides(texts: Mapping[str, str], first_id: int, index: int, memory_bytes: int) -> Iterator[str]:
    node_id = first_id + index
    yield f"node.id={node_id}"
    if "broker.id" in texts:  # must be equal to node.id
        yield f"broker.id={node_id}"
    yield f"broker.rack={texts.get('broker.rack') or f'host-{first_id}'}"
    if index:
        yield "process.roles=broker"
    own = {REST_LISTENERS: f"http://:{DEFAULT_REST_PORT}", **texts}
    for name in (*_OWN_ADDRESSES, *_ADVERTISED):
        # The default REST port is not set for the first node: it starts without REST if that port is in use.
        if (text := own.get(name)) and (name in texts or index):
            yield f"{name}={_moved(name, text, index, _controller_names(texts))}"
    for name in _DIRECTORIES:
        if text := texts.get(name):
            yield f"{name}={','.join(str(Path(one) / f'node-{node_id}') for one in _entries(text))}"
    if text := texts.get("pid.file"):
        yield f"pid.file={text}.{node_id}"
    yield f"{MEMORY}={max(memory_bytes, MIN_MEMORY_BYTES)}"
    yield f"{NODES_PER_HOST}=1"


def _controller_names(texts: Mapping[str, str]) -> set[str]:
    return {name.upper() for name in _entries(texts.get("controller.listener.names", ""))}


def _moved(name: str, text: str, index: int, controller_names: set[str]) -> str:
    """Return the addresses of the node with this index, which is added to their ports."""
    moved = []
    for entry in _entries(text):
        if index and entry.partition("://")[0].upper() in controller_names:
            continue  # only the first node may be a controller
        found = _PORT.search(entry)
        if found is None:
            raise CommandError(f"{name}: {entry[:200]} must end with a port when {NODES_PER_HOST} is set.")
        port = int(found[1])
        if port:
            port += index
        if port > MAX_PORT:
            raise CommandError(f"{name}: the ports of that many nodes exceed {MAX_PORT}.")
        moved.append(f"{entry[: found.start()]}:{port}{found[2]}")
    return ",".join(moved)


def _refuse_shared_ports(nodes: Sequence[HostNode]) -> None:
    """Raise CommandError if the ports of one listener overlap with those of another."""
    taken: dict[int, str] = {}
    for node in nodes:
        for override in node.overrides:
            name, _, text = override.partition("=")
            for entry in _entries(text) if name in _OWN_ADDRESSES else ():
                found = _PORT.search(entry)
                port = int(found[1]) if found else 0
                if port and port in taken:
                    raise CommandError(
                        f"With {NODES_PER_HOST}, {entry[:200]} of node {node.node_id} has the port of "
                        f"{taken[port][:200]}: each listener needs as many free ports as there are nodes."
                    )
                taken[port] = f"{entry} of node {node.node_id}"


def refuse_other_layout(texts: Mapping[str, str], nodes: Sequence[HostNode]) -> None:
    """Raise CommandError if the directories have data of nodes that would not be started.

    `nodes` are those of the host, none if it runs a single node.
    """
    known = {node.node_id for node in nodes}
    for name in _DIRECTORIES:
        for directory in map(Path, _entries(texts.get(name, ""))):
            if known and _is_there(directory / META_PROPERTIES):
                raise CommandError(
                    f"{directory} has the data of one node, from before {NODES_PER_HOST} was set: first move "
                    f"its contents to {directory / f'node-{min(known)}'}."
                )
    for home in _homes(texts):
        node_id = home.name.removeprefix("node-")
        if int(node_id) not in known:
            raise CommandError(
                f"{home} has the data of node {node_id}, which would not be started: set "
                f"{NODES_PER_HOST} as it was before. To remove a node, move its replicas to others "
                "first, and then its directory away."
            )


def _homes(texts: Mapping[str, str]) -> list[Path]:
    """Return the directories of nodes with data; a directory that cannot be read is left to its node."""
    return [
        home
        for name in _DIRECTORIES
        for directory in map(Path, _entries(texts.get(name, "")))
        for home in sorted(directory.glob("node-*"))
        if _HOME.fullmatch(home.name) and _is_there(home / META_PROPERTIES)
    ]


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]
