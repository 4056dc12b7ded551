"""/v1/health, /v1/quorum and /v1/log-dirs: the state of the cluster."""

from typing import Any, Final

from ottla.node.client.cluster_admin import describe_cluster
from ottla.node.client.cluster_health import cluster_health
from ottla.node.client.log_dirs import BrokerLogDirs, LogDirView, describe_log_dirs
from ottla.node.client.quorum_admin import describe_quorum, quorum_as_json
from ottla.node.client.quorum_silence import moment_as_text
from ottla.node.client.refusal import find_broker
from ottla.node.rest_api.findings import FINDINGS, causes
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.operation_words import (
    MAX_LISTED,
    NULL_INT64,
    NULL_STRING,
    PARTITIONS,
    counted,
    error_words,
    listed,
    place,
    record,
)
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    INT64,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Operations: cluster"
PROBLEM_KINDS: Final = ("leaderless", "under_replicated", "under_min_isr", "offline", "unclean")
DEFAULT_LISTED: Final = 100  # as many as a person reads; a program may ask for more

_BROKER: Final = record(
    {
        "id": INT32,
        "host": STRING,
        "port": INT32,
        "rack": NULL_STRING,
        "state": {"type": "string", "enum": ["active", "fenced"]},
        "replicas": INT64,
        "in_sync": INT64,
        "leads": INT64,
    },
    title="BrokerHealth",
)
_HEALTH: Final = record(
    {
        "cluster_id": STRING,
        "controller_id": {"type": ["integer", "null"]},
        "is_healthy": BOOLEAN,
        "reason": NULL_STRING,
        "cut_off_since": NULL_STRING,
        "causes": FINDINGS,
        "brokers": listed(_BROKER),
        "topics": INT64,
        "partitions": INT64,
        **dict.fromkeys(PROBLEM_KINDS, PARTITIONS),
    },
    title="ClusterHealth",
)
MEMBER: Final = record(
    {
        "node": INT32,
        "directory_id": NULL_STRING,
        "log_end_offset": NULL_INT64,
        "last_fetch_ms": NULL_INT64,
        "last_caught_up_ms": NULL_INT64,
        "is_disk_old": {
            **BOOLEAN,
            "description": (
                "Its disk was restored to an earlier state: it cannot vote until it has all the "
                "metadata that it had acknowledged."
            ),
        },
        "is_disk_copied": {
            **BOOLEAN,
            "description": "Its data directory is a copy: it cannot vote until a leader followed "
            "by a majority of the other voters has confirmed the metadata that it "
            "may have acknowledged, or until all voters are running.",
        },
        "listeners": listed(record({"name": STRING, "host": STRING, "port": INT32}, title="Endpoint")),
    },
    title="QuorumMember",
)
_QUORUM: Final = record(
    {
        "leader": {"type": ["integer", "null"]},
        "leader_epoch": {"type": "integer"},
        "high_watermark": {"type": "integer", "format": "int64"},
        "voters": listed(MEMBER),
        "observers": listed(MEMBER),
        "cut_off_since": NULL_STRING,
    },
    title="Quorum",
)
_ERROR_OR_NULL: Final[Schema] = {
    "anyOf": [{"type": "null"}, record({"error_code": STRING, "message": STRING}, title="InnerError")]
}
_LOG_DIR: Final = record(
    {
        "path": STRING,
        "is_offline": BOOLEAN,
        "error": _ERROR_OR_NULL,
        "total_bytes": NULL_INT64,
        "usable_bytes": NULL_INT64,
        "replicas": INT64,
        "replica_bytes": {**INT64, "description": "The size of all replicas, future ones included."},
        "future_replicas": INT64,
        "partitions": listed(
            record(
                {
                    "topic": STRING,
                    "partition": INT32,
                    "size_bytes": INT64,
                    "offset_lag": {"type": "integer", "format": "int64"},
                    "is_future": BOOLEAN,
                },
                title="ReplicaInLogDir",
            )
        ),
    },
    title="LogDir",
    optional=["partitions"],
)
_LOG_DIRS: Final = record(
    {
        "brokers": listed(
            record(
                {"broker_id": INT32, "error": _ERROR_OR_NULL, "log_dirs": listed(_LOG_DIR)},
                title="BrokerLogDirs",
            )
        )
    },
    title="LogDirs",
)
_LIMIT: Final = QueryParameter(
    name="limit",
    schema={"type": "integer", "minimum": 0, "maximum": MAX_LISTED},
    description=f"List at most this many partitions per problem (default {DEFAULT_LISTED}).",
)


async def get_health(context: RestContext, request: RestRequest) -> Answer:
    health = await cluster_health(context.client)
    since_ms = health.cut_off_since_ms
    limit = request.query.get("limit", DEFAULT_LISTED)
    body: dict[str, Any] = {
        "cluster_id": context.cluster_id,
        "controller_id": health.controller_id if health.controller_id >= 0 else None,
        "is_healthy": health.is_healthy,
        "reason": health.reason,
        "cut_off_since": None if since_ms is None else moment_as_text(since_ms),
        "causes": await causes(context, health),
        "brokers": [
            {
                "id": one.broker_id,
                "host": one.host,
                "port": one.port,
                "rack": one.rack,
                "state": "fenced" if one.is_fenced else "active",
                "replicas": health.replicas.get(one.broker_id, 0),
                "in_sync": health.in_sync.get(one.broker_id, 0),
                "leads": health.leads.get(one.broker_id, 0),
            }
            for one in health.brokers
        ],
        "topics": health.topics,
        "partitions": health.partitions,
    }
    return Answer(body=body | {name: counted(getattr(health, name), limit) for name in PROBLEM_KINDS})


async def get_quorum(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=quorum_as_json(await describe_quorum(context.client, accepts_old=True)))


async def get_log_dirs(context: RestContext, request: RestRequest) -> Answer:
    broker_id = request.query.get("broker_id")
    if broker_id is not None:
        find_broker((await describe_cluster(context.client)).brokers, broker_id)
    found = await describe_log_dirs(context.client, broker_ids=None if broker_id is None else [broker_id])
    with_partitions = request.query.get("partitions", False)
    return Answer(body={"brokers": [_log_dirs_of(one, with_partitions) for one in found]})


def _log_dirs_of(broker: BrokerLogDirs, with_partitions: bool) -> dict[str, Any]:
    return {
        "broker_id": broker.broker_id,
        "error": None if broker.error is None else error_words(broker.error),
        "log_dirs": [_log_dir(one, with_partitions) for one in broker.log_dirs],
    }


def _log_dir(one: LogDirView, with_partitions: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "path": one.path,
        "is_offline": one.error is not None,
        "error": None if one.error is None else error_words(one.error),
        "total_bytes": one.total_bytes,
        "usable_bytes": one.usable_bytes,
        "replicas": sum(not replica.is_future for replica in one.replicas),
        "replica_bytes": sum(replica.size_bytes for replica in one.replicas),
        "future_replicas": sum(replica.is_future for replica in one.replicas),
    }
    if with_partitions:
        body["partitions"] = [
            place(replica.partition)
            | {
                "size_bytes": replica.size_bytes,
                "offset_lag": replica.offset_lag,
                "is_future": replica.is_future,
            }
            for replica in one.replicas
        ]
    return body


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/health",
        handler=get_health,
        operation_id="getHealth",
        summary="The health of the cluster: its brokers, and the partitions that have a problem.",
        description="leaderless: without a leader (Kafka's offline partitions). "
        "under_replicated: with a replica that is not in sync, not counting replicas "
        "that a move is adding. under_min_isr: with fewer replicas in sync than "
        "min.insync.replicas, so that producers with acks=all are rejected. offline: "
        "with a replica on a broker or a disk that is down. unclean: only an unclean "
        "election could elect a leader now. A node that has heard no leader of the "
        "metadata quorum for broker.session.timeout.ms is not healthy: `reason` and "
        "`cut_off_since` say so, the controller is null, and everything else is as "
        "old as `cut_off_since`. `causes` has what ottla doctor finds about brokers, the quorum, "
        "partitions and disks, one sentence for each problem; /v1/doctor examines more.",
        tag=TAG,
        query=(_LIMIT,),
        responses={200: Response(description="The health of the cluster.", schema=_HEALTH)},
    ),
    Route(
        method="GET",
        path="/v1/quorum",
        handler=get_quorum,
        operation_id="getQuorum",
        summary="The metadata quorum: its leader, voters and observers, and how far each has got.",
        description="A node that is cut off from the quorum answers with the voters it knew: the "
        "leader and all progress are null, and `cut_off_since` says how old the "
        "answer is.",
        tag=TAG,
        responses={200: Response(description="The quorum as its leader sees it.", schema=_QUORUM)},
    ),
    Route(
        method="GET",
        path="/v1/log-dirs",
        handler=get_log_dirs,
        operation_id="getLogDirs",
        summary="The log directories of the brokers, with the space on their disks and their contents.",
        tag=TAG,
        query=(
            QueryParameter(
                name="broker_id", schema=INT32, description="List the directories of this broker only."
            ),
            QueryParameter(
                name="partitions", schema=BOOLEAN, description="Also list the replicas in each directory."
            ),
        ),
        responses={
            200: Response(
                description="The directories by broker, or the error of a broker that did not answer.",
                schema=_LOG_DIRS,
            )
        },
    ),
)
