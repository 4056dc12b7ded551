"""Attacks by members of share groups, and by strangers that write the state of share groups.

Members acknowledge records one by one, with unexpected epochs, or come in masses, with masses of sessions.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from attacks.attack import GROWTH_MIB, Attack
from attacks.hostile import TIMEOUT_S, codes_in, in_words
from attacks.nodes import Nodes
from ottla.logstore.words.errors import ErrorCode
from ottla.node.wire.request_limits import SEVERAL
from tests.compat.batches import batch
from tests.compat.wire_client import Closed, WireClient, eventually, only

GROUP: Final = "attacked-workers"
TOPIC: Final = "attacked-queue"
STATE_TOPIC: Final = "__share_group_state"
GROUPS_TOPIC: Final = "__consumer_offsets"
ACCEPT, RELEASE, REJECT = 1, 2, 3
WAIT_LIMIT_S: Final = 60.0
# The default of group.share.max.partition.max.record.locks. Each record in flight may have its own state.
LOCKS: Final = 4_000
PARTITIONS: Final = 10
SPARE: Final = 16
# Four plain numbers of an array count as one element of a request.
SINGLES: Final = SEVERAL - SPARE
STATES: Final = SEVERAL - SPARE
SESSIONS: Final = 3_000  # more than a node keeps
GROUPS: Final = 10_000
MEMBERS: Final = 400  # twice as many as a group may have
ID_CHARS: Final = 1_000
RACK_CHARS: Final = 1_000
CONNECTIONS: Final = 8
PIPELINED: Final = 64
ROUNDS: Final = 10
WAITLESS: Final = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "batch_size": LOCKS}
NOWHERE: Final = bytes(15) + b"\x01"

Fields = dict[str, Any]


# ---- preparations ------------------------------------------------------------------------------------------


def _topic_id(client: WireClient) -> bytes:
    found = only(
        client.call("metadata", 12, topics=[{"name": TOPIC}], allow_auto_topic_creation=False).topics
    )
    assert found.error_code == 0, found
    return bytes(found.topic_id)


def _make_queue(nodes: Nodes) -> None:
    """Create a topic, and a group with the largest limits that reads it, unless they exist."""
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        if not only(
            client.call("metadata", 12, topics=[{"name": TOPIC}], allow_auto_topic_creation=False).topics
        ).error_code:
            return
        wanted = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": -1}
        made = client.call("create_topics", 7, topics=[wanted], timeout_ms=30_000)
        assert not only(made.topics).error_code, made
        configs = [
            {"name": name, "config_operation": 0, "value": value}
            for name, value in (
                ("share.auto.offset.reset", "earliest"),
                ("share.partition.max.record.locks", str(LOCKS)),
                ("share.delivery.count.limit", "10"),
            )
        ]
        resources = [{"resource_type": 32, "resource_name": GROUP, "configs": configs}]
        altered = client.call("incremental_alter_configs", 1, resources=resources)
        assert not only(altered.responses).error_code, altered
        eventually(
            lambda: client.call("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP]).coordinators[0],
            lambda one: not one.error_code,
            WAIT_LIMIT_S,
        )
        _lead_here(client, nodes, TOPIC, GROUPS_TOPIC)
        _begin_states(client, _topic_id(client))
        _lead_here(client, nodes, STATE_TOPIC)


def _lead_here(client: WireClient, nodes: Nodes, *names: str) -> None:
    """Make the attacked node the leader of these topics, if there are several nodes."""
    if len(nodes.processes) == 1:
        return
    node_id = nodes.attacked
    replicas = sorted(range(len(nodes.processes)), key=lambda one: one != node_id)

    def not_led() -> dict[str, list[int]]:
        named = [{"name": name} for name in names]
        topics = client.call("metadata", 12, topics=named, allow_auto_topic_creation=False).topics
        return {
            topic.name: [one.partition_index for one in topic.partitions if one.leader_id != node_id]
            for topic in topics
        }

    moved = [
        {"name": name, "partitions": [{"partition_index": one, "replicas": replicas} for one in partitions]}
        for name, partitions in not_led().items()
    ]
    answer = client.call("alter_partition_reassignments", 0, timeout_ms=30_000, topics=moved)
    assert not codes_in(answer).keys() - {0}, answer

    def left() -> dict[str, list[int]]:
        client.call("elect_leaders", 2, election_type=0, topic_partitions=None, timeout_ms=30_000)
        return not_led()

    unready = eventually(left, lambda found: not any(found.values()), WAIT_LIMIT_S)
    assert not any(unready.values()), unready


def _begin_states(client: WireClient, topic_id: bytes) -> None:
    """Initialize the states of the group by a subscription to the topic, as its coordinator does."""
    beat = {"group_id": GROUP, "member_id": "beginner", "member_epoch": 0, "subscribed_topic_names": [TOPIC]}
    eventually(
        lambda: client.call("share_group_heartbeat", 1, **beat), lambda one: not one.error_code, WAIT_LIMIT_S
    )
    groups = [{"group_id": GROUP, "topics": None}]
    described = eventually(
        lambda: only(client.call("describe_share_group_offsets", 1, groups=groups).groups),
        lambda found: sum(len(one.partitions) for one in found.topics) == PARTITIONS,
        WAIT_LIMIT_S,
    )
    assert described.topics, described


def _fill(client: WireClient) -> None:
    """Produce as many records to each partition as the group may have in flight there."""
    for index in range(PARTITIONS):
        data = {"index": index, "records": batch([b"x"] * LOCKS)}
        answer = client.call(
            "produce", 9, acks=-1, timeout_ms=30_000, topic_data=[{"name": TOPIC, "partition_data": [data]}]
        )
        assert not codes_in(answer).keys() - {0}, answer


class Member:
    """A hostile member of the group."""

    def __init__(self, client: WireClient, name: str) -> None:
        self.client, self._name, self._epoch = client, name, 0
        self._topic_id = _topic_id(client)

    def fetch(self, **fields: Any) -> list[tuple[int, int, int]]:
        """Acquire records; return partition, first and last offset of each range."""
        partitions = [{"partition_index": one} for one in range(PARTITIONS)] if not self._epoch else []
        answer = self.client.call(
            "share_fetch",
            2,
            **{**WAITLESS, "max_records": PARTITIONS * LOCKS, **self._session_fields()},
            topics=[{"topic_id": self._topic_id, "partitions": partitions}] if partitions else [],
            **fields,
        )
        assert not answer.error_code, answer
        self._epoch += 1
        return [
            (data.partition_index, one.first_offset, one.last_offset)
            for topic in answer.responses
            for data in topic.partitions
            for one in data.acquired_records
        ]

    def acquire(self) -> list[tuple[int, int, int]]:
        return eventually(lambda: self.fetch(), bool, WAIT_LIMIT_S)

    def acknowledge(self, acknowledged: dict[int, list[Fields]]) -> Counter[int]:
        """Acknowledge batches by partition; return the error codes of the response."""
        partitions = [
            {"partition_index": index, "acknowledgement_batches": batches}
            for index, batches in acknowledged.items()
        ]
        topics = [{"topic_id": self._topic_id, "partitions": partitions}]
        answer = self.client.call("share_acknowledge", 2, **self._session_fields(), topics=topics)
        self._epoch += not answer.error_code
        return codes_in(answer)

    def end(self) -> None:
        self._epoch = -1
        self.client.call("share_acknowledge", 2, **self._session_fields(), topics=[])

    def _session_fields(self) -> Fields:
        return {"group_id": GROUP, "member_id": self._name, "share_session_epoch": self._epoch}


def _alternating(first: int, last: int) -> Fields:
    """Return a batch of acknowledgements that accepts and releases records in turn."""
    types = [ACCEPT if offset % 2 else RELEASE for offset in range(first, last + 1)]
    return {"first_offset": first, "last_offset": last, "acknowledge_types": types}


def _singly(first: int, last: int) -> list[Fields]:
    """Return a batch of acknowledgements for each record."""
    return [_alternating(offset, offset) for offset in range(first, last + 1)]


# ---- acknowledgements --------------------------------------------------------------------------------------


def _acknowledge(nodes: Nodes, batches: Callable[[int, int], list[Fields]], most: int) -> str:
    """Acquire all that may be in flight; acknowledge up to `most` records a request, as `batches` says."""
    codes: Counter[int] = Counter()
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        _fill(client)
        member = Member(client, "singles")
        for _ in range(PARTITIONS):
            acknowledged: dict[int, list[Fields]] = {}
            left = most
            for index, first, last in member.acquire():
                last = min(last, first + left - 1)
                if first <= last:
                    acknowledged.setdefault(index, []).extend(batches(first, last))
                    left -= last - first + 1
            codes += member.acknowledge(acknowledged)
        member.end()
    return in_words(codes)


def _hold_and_leave(nodes: Nodes) -> str:
    """Acquire every second record, each as a range of its own; close the connection with them held."""
    held = 0
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        _fill(client)
        member = Member(client, "first")
        for index, first, last in member.acquire():
            member.acknowledge({index: [_alternating(first, last)]})
        while ranges := member.fetch():
            held += len(ranges)
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        other = Member(client, "other")
        other.acquire()  # once the node has released them
        other.end()
    return f"{held:,} ranges were held"


def _beyond_bounds(nodes: Nodes) -> str:
    """Acknowledge offsets that no member holds: before, after and across all records, and impossible ones."""
    most = 2**63 - 1
    edge_cases = [(0, most), (most, most), (most - 1, most), (2**62, 2**62 + 5), (-1, 0), (5, 1), (0, 2**31)]
    codes: Counter[int] = Counter()
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        member = Member(client, "odd")
        member.fetch()
        for first, last in edge_cases:
            for types in ([ACCEPT], [4], [0], [9], [-1], [], [ACCEPT, REJECT]):
                one = {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                for _ in range(ROUNDS):
                    codes += member.acknowledge({0: [one]})
        far = [
            {"first_offset": 2**40 + 2 * one, "last_offset": 2**40 + 2 * one, "acknowledge_types": [ACCEPT]}
            for one in range(SINGLES // 2)
        ]
        codes += member.acknowledge({0: far})
        member.end()
    return in_words(codes)


# ---- sessions ----------------------------------------------------------------------------------------------


def _sessions(nodes: Nodes) -> str:
    """Open share sessions of many members, and leave them open."""
    codes: Counter[int] = Counter()
    with ExitStack() as stack:
        clients = [stack.enter_context(nodes.connect(timeout_s=TIMEOUT_S)) for _ in range(CONNECTIONS)]
        topic_id = _topic_id(clients[0])
        partitions = [{"partition_index": one} for one in range(PARTITIONS)]

        def begin(number: int) -> Counter[int]:
            found: Counter[int] = Counter()
            for member in range(number, SESSIONS, CONNECTIONS):
                answer = clients[number].call(
                    "share_fetch",
                    2,
                    **{**WAITLESS, "max_records": 1},
                    group_id=GROUP,
                    member_id=f"m{member}",
                    topics=[{"topic_id": topic_id, "partitions": partitions}],
                )
                found[answer.error_code] += 1
            return found

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            for one in pool.map(begin, range(CONNECTIONS)):
                codes += one
    assert codes[ErrorCode.SHARE_SESSION_LIMIT_REACHED], "the number of share sessions has no limit"
    return in_words(codes)


def _giant_fetch(nodes: Nodes) -> str:
    """Fetch as many partitions as a request may name, few of which exist, and forget them again."""
    wanted = [{"partition_index": one} for one in range(SINGLES)]
    known: list[Fields] = []
    codes: Counter[int] = Counter()
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        fetch_fields = {**WAITLESS, "max_records": 500, "group_id": GROUP, "member_id": "giant"}
        for topic_id in (NOWHERE, _topic_id(client)):
            topics = [{"topic_id": topic_id, "partitions": wanted}]
            forgotten = [{"topic_id": topic_id, "partitions": list(range(SINGLES))}]
            codes += codes_in(client.call("share_fetch", 2, **fetch_fields, topics=topics))
            for epoch in range(1, ROUNDS):
                more = topics if epoch % 2 == 0 else known
                less = forgotten if epoch % 2 else known
                codes += codes_in(
                    client.call(
                        "share_fetch",
                        2,
                        **fetch_fields,
                        share_session_epoch=epoch,
                        topics=more,
                        forgotten_topics_data=less,
                    )
                )
    return in_words(codes)


def _random_epochs(nodes: Nodes) -> str:
    """Send fetches and acknowledgements with random session epochs, without waiting for responses."""
    chance = random.Random(1)
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        topics = [{"topic_id": _topic_id(client), "partitions": [{"partition_index": 0}]}]

    def send(number: int) -> int:
        with nodes.connect(timeout_s=TIMEOUT_S) as client:
            for _ in range(ROUNDS):
                for _ in range(PIPELINED):
                    member_fields = {"group_id": GROUP, "member_id": f"epochs-{number % 3}"}
                    epoch = chance.choice((0, 0, 1, 2, -1, 5, 2**31 - 1, -(2**31)))
                    if chance.random() < 0.5:
                        client.send(
                            "share_acknowledge", 2, **member_fields, share_session_epoch=epoch, topics=topics
                        )
                    else:
                        some = {**WAITLESS, "max_records": 10, "batch_size": 10}
                        client.send(
                            "share_fetch",
                            2,
                            **some,
                            **member_fields,
                            share_session_epoch=epoch,
                            topics=topics,
                        )
                for _ in range(PIPELINED):
                    client.receive_frame()
        return ROUNDS * PIPELINED

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return f"{sum(pool.map(send, range(CONNECTIONS)))} answers"


# ---- members and groups ------------------------------------------------------------------------------------


def _beats(nodes: Nodes, count: int, group: Callable[[int], str], member: Callable[[int], str]) -> str:
    """Join as many members, each with the longest rack id."""

    def join(start: int) -> Counter[int]:
        found: Counter[int] = Counter()
        with nodes.connect(timeout_s=TIMEOUT_S) as client:
            for number in range(start, count, CONNECTIONS):
                answer = client.call(
                    "share_group_heartbeat",
                    1,
                    group_id=group(number),
                    member_id=member(number),
                    member_epoch=0,
                    rack_id="r" * RACK_CHARS,
                    subscribed_topic_names=[TOPIC],
                )
                found[answer.error_code] += 1
        return found

    codes: Counter[int] = Counter()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for one in pool.map(join, range(CONNECTIONS)):
            codes += one
    return in_words(codes)


# ---- outsiders that write state ----------------------------------------------------------------------------


def _write_states(nodes: Nodes) -> str:
    """Write the state of a share-partition, with as many small batches as a request may have."""
    codes: Counter[int] = Counter()
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        topic_id = _topic_id(client)
        group_fields = {"group_id": "outsiders"}
        begun = {"topic_id": topic_id, "partitions": [{"partition": 0, "state_epoch": 1, "start_offset": 0}]}
        codes += codes_in(client.call("initialize_share_group_state", 0, **group_fields, topics=[begun]))
        for number in range(ROUNDS):
            batches = [
                {
                    "first_offset": 2 * one + number % 2,
                    "last_offset": 2 * one + number % 2,
                    "delivery_state": 2 if one % 3 else 0,
                    "delivery_count": 1 + number,
                }
                for one in range(STATES)
            ]
            state = {"partition": 0, "state_epoch": 1, "start_offset": 0, "state_batches": batches}
            topics = [{"topic_id": topic_id, "partitions": [state]}]
            codes += codes_in(client.call("write_share_group_state", 1, **group_fields, topics=topics))
    return in_words(codes)


def _begin_many_states(nodes: Nodes) -> str:
    """Initialize as many states as a request may name, of partitions that do not exist."""
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        partitions = [{"partition": one, "state_epoch": 1, "start_offset": 0} for one in range(STATES)]
        topics = [{"topic_id": NOWHERE, "partitions": partitions}]
        answer = client.call("initialize_share_group_state", 0, group_id="outsiders", topics=topics)
        return in_words(codes_in(answer))


def _junk_records(nodes: Nodes) -> str:
    """Produce junk to the topic of share group state, as a client that may write to internal topics."""
    junk = [b"", b"\0" * 7, b"\xff" * 100, b"\0\0" + b"\xff" * 20_000, None]
    codes: Counter[int] = Counter()
    with nodes.connect(client_id="__admin_client", timeout_s=TIMEOUT_S) as client:
        for _ in range(PIPELINED):
            records = batch(junk, keys=[b"\0\0", b"\0\x01", None, b"\0\0" + b"\xff" * 50, b"\0\0\x05"])
            data = {"index": 0, "records": records}
            topics = [{"name": STATE_TOPIC, "partition_data": [data]}]
            try:
                codes += codes_in(client.call("produce", 9, acks=-1, timeout_ms=30_000, topic_data=topics))
            except Closed:
                codes[ErrorCode.NETWORK_EXCEPTION] += 1
                break
    return in_words(codes)


def _attack(name: str, sends: str, send: Callable[[Nodes], str], cpu_s: float, **limits: Any) -> Attack:
    return Attack(
        name=f"share-{name}",
        sends=sends,
        send=send,
        cpu_s=cpu_s,
        prepare=_make_queue,
        **limits,
    )


def many_groups(count: int) -> Attack:
    """Return the attack with `count` groups and limits in proportion: a group takes some 9 KiB."""
    beats = partial(
        _beats, count=count, group=lambda number: f"group-{number}", member=lambda number: f"m{number}"
    )
    return _attack(
        "groups",
        f"{count:,} share groups with a member each",
        beats,
        0.006 * count,
        growth_mib=max(GROWTH_MIB, 0.012 * count),
        is_thorough=True,
    )


ATTACKS: Final[Sequence[Attack]] = (
    _attack(
        "acknowledge-alternating",
        f"ShareAcknowledge of {PARTITIONS * LOCKS:,} records, accepted and released in turn in large batches",
        partial(
            _acknowledge, batches=lambda first, last: [_alternating(first, last)], most=4 * (SINGLES - SPARE)
        ),
        20.0,
    ),
    _attack(
        "acknowledge-singly",
        f"ShareAcknowledge of {SINGLES // 2:,} records, each in a batch of its own",
        partial(_acknowledge, batches=_singly, most=SINGLES // 2),
        20.0,
    ),
    _attack("hold-and-leave", "a member that holds thousands of ranges and leaves", _hold_and_leave, 20.0),
    _attack("acknowledge-beyond", "acknowledgements of offsets that no member holds", _beyond_bounds, 10.0),
    _attack("sessions", f"{SESSIONS:,} share sessions that are never closed", _sessions, 15.0),
    _attack(
        "giant-fetch", f"ShareFetch with {SINGLES:,} partitions, added and forgotten", _giant_fetch, 10.0
    ),
    _attack("odd-epochs", "ShareFetch and ShareAcknowledge with random epochs", _random_epochs, 20.0),
    _attack(
        "members",
        f"{MEMBERS} members of one share group with racks of {RACK_CHARS:,} characters",
        partial(
            _beats,
            count=MEMBERS,
            group=lambda _: "crowded",
            member=lambda number: f"m{number}".ljust(36, "x"),
        ),
        10.0,
    ),
    many_groups(GROUPS),
    _attack(
        "write-states",
        f"WriteShareGroupState with {STATES:,} states, repeatedly",
        _write_states,
        15.0,
    ),
    _attack("begin-states", f"InitializeShareGroupState of {STATES:,} partitions", _begin_many_states, 15.0),
    _attack("junk-records", "junk records in __share_group_state", _junk_records, 5.0),
)
