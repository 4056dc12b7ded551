"""/debug/state: the current state machines of this process, including soft state, which no log has.

It shows the groups, transactions and share-partitions whose coordinator is on this node, the replicas on it,
and the node itself. One machine is described at a time, between two turns of the node's loop: each is
consistent, but a page of them may not be.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from ottla.groupcoord.share_state.share_state_shard import KnownState
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.metadata_raft.acl import AclOperation
from ottla.node.node_view import NodeView
from ottla.node.replica.partition import Partition
from ottla.node.rest_api.operation_words import record
from ottla.node.rest_api.resource import DataPieces
from ottla.node.rest_api.route import (
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
from ottla.node.rest_api.state_words import in_words

NODE, PARTITIONS, GROUPS, TRANSACTIONS = "node", "partitions", "groups", "transactions"
SHARE_PARTITIONS: Final = "share-partitions"
_PARTS: Final = (NODE, PARTITIONS, GROUPS, TRANSACTIONS, SHARE_PARTITIONS)
DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200

_MACHINE: Final = record({"name": STRING, "state": {"type": "object"}}, title="StateMachine")
_STATE: Final = record(
    {
        "node_id": INT32,
        "part": STRING,
        "machines": {"type": "array", "items": _MACHINE, "maxItems": MAX_LIMIT},
        "next": {"type": ["integer", "null"]},
    },
    title="DebugState",
)


async def get_state(context: RestContext, request: RestRequest) -> Answer:
    query = request.query
    part, begin, limit = query.get("part", NODE), query.get("begin", 0), query.get("limit", DEFAULT_LIMIT)
    name: str | None = query.get("name")

    def find(node: NodeView) -> list[tuple[str, Any]]:
        named = (one for one in _machines(node, part) if name in (None, one[0]))
        return list(islice(named, begin, begin + limit + 1))

    found = await context.facts.ask(find)
    data = DataPieces(request.answer_part)
    for label, machine in found[:limit]:
        state = await context.facts.ask(partial(_in_words, machine))
        data.add([{"name": label, "state": state}])
    return Answer(
        body={
            "node_id": context.node_id,
            "part": part,
            "machines": data.whole(),
            "next": begin + limit if len(found) > limit else None,
        }
    )


def _machines(node: NodeView, part: str) -> Iterator[tuple[str, Any]]:
    """Yield the state machines of a part with their names, in no particular order."""
    if part == NODE:
        yield str(node.config.node_id), node
    elif not node.state.has_started:
        return
    elif part == PARTITIONS:
        yield from ((str(one.topic_partition), one) for one in node.services.replica_manager)
    elif part == GROUPS:
        for group_shard in node.services.groups.shards.values():
            if group_shard.coordinator is not None:
                yield from group_shard.coordinator.shard.groups.items()
    elif part == SHARE_PARTITIONS:
        for share_shard in node.services.share_states.shards.values():
            if share_shard.coordinator is not None:
                states = share_shard.coordinator.shard.states
                yield from ((key.coordinator_key, known) for key, known in states.items())
    else:
        for txn_shard in node.services.txns.shards.values():
            if txn_shard.coordinator is not None:
                shard = txn_shard.coordinator.shard
                yield from ((one, (shard, one)) for one in shard.transactions)


def _in_words(machine: Any, node: NodeView) -> Any:
    match machine:
        case Partition():
            return in_words(_of_replica(machine))
        case (TransactionShard() as shard, str(transactional_id)):
            return in_words(_of_transaction(shard, transactional_id))
        case KnownState():
            return in_words(_of_share_partition(machine))
        case NodeView():
            return in_words(_of_node(node))
        case _:
            return in_words(machine)


def _of_node(node: NodeView) -> dict[str, Any]:
    quorum = node.quorum_services
    replicas = node.services.replica_manager if node.has_services else None
    return {
        "lifecycle": None if quorum is None else quorum.lifecycle.state,
        "is_serving": node.state.is_serving,
        "is_cut_off": node.state.is_cut_off,
        "quorum": None if quorum is None else quorum.quorum.status(),
        "controller": None if quorum is None else quorum.metadata.controller_state(),
        "connections": {one.name: len(one.connections) for one in node.listeners},
        "waiting_requests": {} if replicas is None else replicas.waiting_counts(),
        "replicas": 0 if replicas is None else len(replicas),
        "fetch_sessions": 0 if replicas is None else len(replicas.sessions),
    }


def _of_replica(partition: Partition) -> dict[str, Any]:
    log = partition.log
    return {
        "assignment": partition.assignment,
        "is_leader": partition.is_leader,
        "leader_epoch": partition.leader_epoch,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "high_watermark": log.high_watermark,
        "isr": partition.isr,
        "waiting_fetches": len(partition.delayed_fetches),
        "waiting_produces": len(partition.delayed_produces),
        "waiting_deletes": len(partition.delayed_deletes),
    }


def _of_transaction(shard: TransactionShard, transactional_id: str) -> dict[str, Any]:
    return {
        "transaction": shard.transactions.get(transactional_id),
        "markers_left": shard.markers_left.get(transactional_id, ()),
        "waiting": shard.waiting.get(transactional_id, ()),
        "ended_by": shard.ended_by.get(transactional_id),
        "coordinator_epoch": shard.coordinator_epoch,
    }


def _of_share_partition(known: KnownState) -> dict[str, object]:
    return {
        "state": known.current,
        "highest_leader_epoch": known.leader_epoch,
        "highest_state_epoch": known.state_epoch,
        "updates": known.updates,
    }


_QUERY: Final = (
    QueryParameter(
        name="part",
        schema={"type": "string", "enum": list(_PARTS), "default": NODE},
        description="The kind of state machine.",
    ),
    QueryParameter(
        name="name",
        description="Only the state machine with this name: TOPIC-PARTITION, a group, a transactional id, or "
        "GROUP:TOPIC ID:PARTITION.",
    ),
    QueryParameter(
        name="begin",
        schema={**INT64, "maximum": 2**31 - 1, "default": 0},
        description="Skip this many: the `next` of the previous page.",
    ),
    QueryParameter(
        name="limit",
        schema={"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        description="Return at most this many.",
    ),
)

ROUTES: Final = (
    Route(
        method="GET",
        path="/debug/state",
        asks=AclOperation.DESCRIBE,
        handler=get_state,
        operation_id="getDebugState",
        summary="The current state of this process's state machines.",
        description="For troubleshooting: the contents mirror the code and change with it. Long "
        "values are shortened; records' contents and secrets are left out.",
        tag="Node",
        query=_QUERY,
        uses_cluster=False,
        responses={200: Response(description="The current state.", schema=_STATE)},
    ),
)
