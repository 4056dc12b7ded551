"""/v1/node: facts that only this process knows: its clock, its open files, its refused requests."""

import asyncio
import os
import resource
import time
from itertools import islice
from typing import Any, Final

from ottla.logstore.compression import missing_codecs
from ottla.metadata_raft.acl import AclOperation
from ottla.node.metrics.read_node import voter_of
from ottla.node.net.peer_client import SOFTWARE_VERSION
from ottla.node.node_view import NodeView
from ottla.node.rest_api.operation_words import NULL_STRING, listed, record
from ottla.node.rest_api.route import INT32, INT64, STRING, Answer, Response, RestContext, RestRequest, Route
from ottla.node.wire.api_keys import ApiKey

_REFUSED: Final = record(
    {"software": NULL_STRING, "api": STRING, "version": {"type": "integer"}, "count": INT64},
    title="RefusedRequest",
)
_UNCLEANABLE: Final = record({"topic": STRING, "partition": INT32, "reason": STRING}, title="UncleanableLog")
_DAMAGED: Final = record(
    {
        "topic": STRING,
        "partition": INT32,
        "path": STRING,
        "position": INT64,
        "offset": INT64,
        "reason": STRING,
    },
    title="DamagedFile",
)
_UNLINKED: Final = record({"node_id": INT32, "problem": STRING}, title="UnlinkedVoter")
_CODEC: Final = record({"codec": STRING, "needed_by": listed(STRING)}, title="MissingCodec")
_REFUSED_CERTIFICATE: Final = record({"listener": STRING, "reason": STRING}, title="RefusedCertificate")
MAX_LOGS: Final = 100  # that are named; these are enough to find the cause
_NODE: Final = record(
    {
        "node_id": INT32,
        "cluster_id": STRING,
        "software_version": STRING,
        "now_ms": INT64,
        "clock_jumped_ms": {"type": "integer", "format": "int64"},
        "open_files": INT64,
        "open_files_limit": INT64,
        "refused_requests": listed(_REFUSED),
        "uncleanable_logs": listed(_UNCLEANABLE),
        "uncleanable_log_count": INT64,
        "damaged_files": listed(_DAMAGED),
        "damaged_file_count": INT64,
        "unlinked_voters": listed(_UNLINKED),
        "missing_codecs": listed(_CODEC),
        "refused_certificates": listed(_REFUSED_CERTIFICATE),
        "unjudged_acls": INT64,
    },
    title="Node",
)


def clock_offset_ms() -> int:
    """Return the wall clock minus the monotonic one: it changes if the clock is set or the machine sleeps."""
    return round((time.time() - time.monotonic()) * 1000)


async def get_node(context: RestContext, request: RestRequest) -> Answer:
    refused = await context.facts.ask(_refused)
    uncleanable, uncleanable_count = await context.facts.ask(_uncleanable)
    damaged, damaged_count = await context.facts.ask(_damaged)
    return Answer(
        body={
            "node_id": context.node_id,
            "cluster_id": context.cluster_id,
            "software_version": SOFTWARE_VERSION,
            "now_ms": int(time.time() * 1000),
            "clock_jumped_ms": clock_offset_ms() - _OFFSET_AT_START_MS,
            "open_files": len(os.listdir("/proc/self/fd")),
            "open_files_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "refused_requests": refused,
            "uncleanable_logs": uncleanable,
            "uncleanable_log_count": uncleanable_count,
            "damaged_files": damaged,
            "damaged_file_count": damaged_count,
            "missing_codecs": await _missing_codecs(context),
            "unlinked_voters": await context.facts.ask(_unlinked),
            "refused_certificates": await context.facts.ask(_refused_certificates),
            "unjudged_acls": await context.facts.ask(_ignored_acls),
        }
    )


def _refused(node: NodeView) -> list[dict[str, Any]]:
    return [
        {
            "software": kind.software or None,
            "api": _name_of(kind.api_key),
            "version": kind.version,
            "count": count,
        }
        for kind, count in (node.services.refused_requests.kinds() if node.has_services else ())
    ]


def _uncleanable(node: NodeView) -> tuple[list[dict[str, Any]], int]:
    """Return the first compacted logs that the cleaner has marked uncleanable, and the number of all."""
    found = node.services.maintenance.cleaner.uncleanable if node.has_services else {}
    named = [
        {"topic": one.topic, "partition": one.partition, "reason": reason}
        for one, reason in islice(found.items(), MAX_LOGS)
    ]
    return named, len(found)


def _damaged(node: NodeView) -> tuple[list[dict[str, Any]], int]:
    """Return the first damaged log files that are not repaired, and the number of all."""
    found = node.services.maintenance.scrub.unrepaired if node.has_services else []
    named = [
        {
            "topic": one.topic_partition.topic,
            "partition": one.topic_partition.partition,
            "path": one.path,
            "position": one.position,
            "offset": one.offset,
            "reason": one.reason,
        }
        for one in found[:MAX_LOGS]
    ]
    return named, len(found)


def _unlinked(node: NodeView) -> list[dict[str, Any]]:
    """Return the voters to which this node has no connection, with their addresses and the errors."""
    quorum = node.quorum_services
    voter = None if quorum is None else voter_of(quorum.quorum)
    found = {} if voter is None else voter.unlinked()
    return [{"node_id": node_id, "problem": problem} for node_id, problem in found.items()]


def _refused_certificates(node: NodeView) -> list[dict[str, str]]:
    """Return the listeners that keep their old certificates, each with the reason.

    They include the CA certificates that verify the host of an OAuth provider.
    """
    refused = list(node.listener_tls.refused().items())
    if node.has_services:
        refused += node.services.token_verifiers.refused().items()
    return [{"listener": name, "reason": reason} for name, reason in refused]


def _ignored_acls(node: NodeView) -> int:
    """Return the number of ACLs in the metadata if this node does not enforce them, else 0."""
    quorum = node.quorum_services
    return 0 if quorum is None or node.config.authorizer is not None else len(quorum.image.acls)


async def _missing_codecs(context: RestContext) -> list[dict[str, Any]]:
    """Return the compressions whose packages are not installed, and the topics that use them."""
    missing = await asyncio.to_thread(missing_codecs)
    if not missing:
        return []
    codecs = await context.facts.ask(_compression_types)
    return [
        {"codec": codec, "needed_by": [f"compression.type of {topic}" for topic in codecs.get(codec, ())]}
        for codec in (one.name.lower() for one in missing)
    ]


def _compression_types(node: NodeView) -> dict[str, list[str]]:
    """Return topics of this node by their compression.type, the first of each."""
    found: dict[str, dict[str, None]] = {}
    for partition in node.services.replica_manager if node.has_services else ():
        topics = found.setdefault(partition.log.config.compression_type, {})
        if len(topics) < MAX_LOGS:
            topics[partition.topic_partition.topic] = None
    return {codec: list(topics) for codec, topics in found.items()}


def _name_of(api_key: int) -> str:
    try:
        return ApiKey(api_key).api_name
    except ValueError:
        return f"API key {api_key}"


# This module is imported when the REST API of a process starts.
_OFFSET_AT_START_MS: Final = clock_offset_ms()

ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/node",
        asks=AclOperation.DESCRIBE,
        handler=get_node,
        operation_id="getNode",
        summary="Facts that only this process knows about itself.",
        description="Its clock, and how far it was set since startup; its open files and their "
        "limit; API versions that clients requested but it does not support, with "
        "the clients' software; compacted logs that it cannot clean and damaged log "
        f"files, of each at most {MAX_LOGS}; compression types that it cannot decompress, "
        "with the topics that use them; if it is a voter, the voters that it cannot "
        "reach, with the reasons; new certificates that it refused, keeping the "
        "old ones; and the number of ACLs that have no effect because it has no "
        "authorizer.",
        tag="Node",
        uses_cluster=False,
        responses={200: Response(description="Now.", schema=_NODE)},
    ),
)
