"""Each request of a classic group in each state, over the wire: Ottla and Kafka answer as one table says."""

import select
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from ottla.logstore.words.errors import ErrorCode
from tests.compat.wire_client import WireClient, eventually, only
from tests.unit.groupcoord.classic.classic_table import READS, REQUESTS, STATES, Joined, expected, found

# The times without a response that count as "waits". A response may be late on a busy machine, so a case that
# fails with the shorter time is repeated with the longer one.
TIMEOUT_S = (0.2, 5.0)
JOIN_DIRECT_VERSION, JOIN_VERSION, SYNC_VERSION = 3, 7, 5


class WireDriver:
    """A driver that sends the table's requests to a group of its own.

    Each join and sync has a connection, since it may wait.
    """

    def __init__(self, connect: Callable[..., WireClient], timeout_s: float) -> None:
        self._connect, self._timeout_s = connect, timeout_s
        self._group = f"table-{uuid4().hex[:10]}"
        self._client = connect()
        self._waiting: list[tuple[WireClient, str, int, int]] = []
        # A server that has just created its internal topic becomes leader of the group's partition a little
        # later.
        assert eventually(lambda: self.commit("", -1), lambda error: error == "NONE") == "NONE"
        assert self.delete_group() == "NONE"

    def start_join(
        self,
        member_id: str = "",
        *,
        metadata: bytes = READS,
        protocol: str = "range",
        protocol_type: str = "consumer",
        instance: str | None = None,
        member_id_required: bool = False,
    ) -> int:
        fields = {
            "group_id": self._group,
            "member_id": member_id,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": protocol_type,
            "protocols": [{"name": protocol, "metadata": metadata}],
        }
        if member_id_required or instance is not None:
            return self._start("join_group", JOIN_VERSION, **fields, group_instance_id=instance)
        return self._start("join_group", JOIN_DIRECT_VERSION, **fields)

    def start_sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes],
        *,
        protocol: str = "range",
        protocol_type: str = "consumer",
    ) -> int:
        return self._start(
            "sync_group",
            SYNC_VERSION,
            group_id=self._group,
            generation_id=generation_id,
            member_id=member_id,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[{"member_id": each, "assignment": given} for each, given in assignments.items()],
        )

    def _start(self, api: str, version: int, **fields: object) -> int:
        client = self._connect()
        self._waiting.append((client, api, version, client.send(api, version, **fields)))
        return len(self._waiting) - 1

    def waits(self, request: int) -> bool:
        client, *_ = self._waiting[request]
        readable, _, _ = select.select([client.socket], [], [], self._timeout_s)
        return not readable

    def joined(self, join: int) -> Joined:
        client, api, version, correlation_id = self._waiting[join]
        answer = client.receive(api, version, correlation_id)
        return Joined(
            error=ErrorCode(answer.error_code).name,
            member_id=answer.member_id,
            generation_id=answer.generation_id,
        )

    def synced(self, sync: int) -> str:
        client, api, version, correlation_id = self._waiting[sync]
        answer = client.receive(api, version, correlation_id)
        return "ok" if answer.assignment else ErrorCode(answer.error_code).name

    def heartbeat(self, member_id: str, generation_id: int) -> str:
        answer = self._client.call(
            "heartbeat", 4, group_id=self._group, generation_id=generation_id, member_id=member_id
        )
        return ErrorCode(answer.error_code).name

    def commit(self, member_id: str, generation_id: int) -> str:
        partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        answer = self._client.call(
            "offset_commit",
            9,
            group_id=self._group,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            topics=[{"name": "read", "partitions": [partition]}],
        )
        return ErrorCode(only(only(answer.topics).partitions).error_code).name

    def leave(self, member_id: str, instance: str | None = None) -> str:
        member = {"member_id": member_id, "group_instance_id": instance}
        answer = self._client.call("leave_group", 4, group_id=self._group, members=[member])
        assert answer.error_code == 0
        return ErrorCode(only(answer.members).error_code).name

    def delete_offset(self, topic: str) -> str:
        request = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        answer = self._client.call("offset_delete", 0, group_id=self._group, topics=request)
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        return ErrorCode(only(only(answer.topics).partitions).error_code).name

    def delete_group(self) -> str:
        answer = self._client.call("delete_groups", 2, groups_names=[self._group])
        return ErrorCode(only(answer.results).error_code).name

    def reaches(self, state: str) -> None:
        assert eventually(self.state, lambda found: found == state) == state

    def state(self) -> str:
        return str(only(self._client.call("describe_groups", 4, groups=[self._group]).groups).group_state)


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Iterator[None]:
    """Create the two topics that the table's members name, and wait for a coordinator of groups."""
    names = ("read", "other")
    with WireClient(bootstrap) as client:
        wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        client.call("create_topics", 7, topics=wanted, timeout_ms=10_000)
        eventually(
            lambda: client.call("find_coordinator", 3, key="table", key_type=0),
            lambda answer: answer.error_code == 0,
        )
        yield
        client.call("delete_topics", 6, topics=[{"name": name} for name in names], timeout_ms=5_000)


@pytest.mark.slow
@pytest.mark.parametrize("request_", REQUESTS)
def test_each_request_is_answered_by_the_table_in_each_state(
    request_: str, connect: Callable[..., WireClient], topics: None
) -> None:
    wrong = []
    for state in STATES:
        wanted = expected(request_, state)
        answers = [found(WireDriver(connect, TIMEOUT_S[0]), request_, state)]
        if answers != [wanted]:
            answers.append(found(WireDriver(connect, TIMEOUT_S[1]), request_, state))
        if answers[-1] != wanted:
            wrong.append((state, answers, wanted))

    assert wrong == []
