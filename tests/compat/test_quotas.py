"""Quotas as clients observe them, at a node of ours and at Apache Kafka 4.3.1.

Times are measured, so they agree within a tolerance; `java.test_quotas` compares the arithmetic.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from ottla.logstore.words.errors import ErrorCode
from tests.compat.batches import batch
from tests.compat.java.jars import reason_to_skip
from tests.compat.servers import Server, start_kafka, start_ottla
from tests.compat.topics import new_topic
from tests.compat.wire_client import Closed, WireClient, eventually, only
from tests.integration.cluster.conftest import Cluster

QUOTA_EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
VALUE_BYTES = 20_000
# Throttle times differ by up to this: for example, Kafka starts its first window a moment earlier.
TOLERANCE_MS = 1_200

pytestmark = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture(params=["ottla", "reference"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def client(server: Server) -> Iterator[WireClient]:
    """Connect a client with an id of its own, and so with a quota of its own."""
    with WireClient(server.bootstrap, client_id=f"client-{uuid4().hex[:8]}") as made:
        yield made


def set_quota(bootstrap: str, key: str, value: float | None, **entity: str | None) -> None:
    """Set a quota, or remove it if the value is None, and wait until it is in force on each node."""
    parts = [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()]
    op = {"key": key, "value": value or 0.0, "remove": value is None}
    addresses = bootstrap.split(",")
    with WireClient(addresses[0], client_id="admin") as admin:
        answer = admin.call("alter_client_quotas", 1, entries=[{"entity": parts, "ops": [op]}])
        assert only(answer.entries).error_code == 0, only(answer.entries).error_message
    wanted = [] if value is None else [(key, value)]
    for address in addresses:
        with WireClient(address, client_id="admin") as admin:
            described = partial(describe_quotas, admin, parts)
            assert eventually(described, lambda found: found == wanted, 10) == wanted
    time.sleep(0.3)  # the parts of a broker apply new metadata one after another


def describe_quotas(admin: WireClient, entity: list[dict[str, str | None]]) -> list[tuple[str, float]]:
    request = [
        {"entity_type": one["entity_type"], "match_type": 0, "match": one["entity_name"]} for one in entity
    ]
    found = admin.call("describe_client_quotas", 1, components=request, strict=True)
    return [(one.key, one.value) for entry in found.entries or () for one in entry.values]


def entity_of(client: WireClient) -> dict[str, str | None]:
    """Return the most specific entity of a client, which overrides quotas of users that other tests leave."""
    return {"user": "ANONYMOUS", "client_id": client.client_id}


def produce(client: WireClient, topic: str, size: int, acks: int = 1) -> int:
    """Return the throttle time of one Produce request."""
    partition = {"index": 0, "records": batch([bytes(size)])}
    sent = client.send(
        "produce",
        9,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[{"name": topic, "partition_data": [partition]}],
    )
    answer = client.receive("produce", 9, sent)
    assert only(only(answer.responses).partition_responses).error_code == 0
    throttle_ms: int = answer.throttle_time_ms
    return throttle_ms


def fetch(client: WireClient, topic: str, version: int = 12) -> tuple[int, int]:
    """Return the throttle time and the bytes of records of one Fetch request."""
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    answer = client.call(
        "fetch",
        version,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [wanted]}],
    )
    size = sum(len(one.records or b"") for topic in answer.responses for one in topic.partitions)
    return answer.throttle_time_ms, size


def is_throttled_for(client: WireClient, throttle_ms: int) -> bool:
    """Return True if the next request is answered when the throttle time is over, and not before."""
    began_s = time.monotonic()
    client.call("api_versions", 2)
    took_ms = (time.monotonic() - began_s) * 1_000
    return throttle_ms * 0.8 - 100 <= took_ms <= throttle_ms + 1_500


def test_a_consumer_beyond_its_quota_gets_nothing_and_waits(server: Server, client: WireClient) -> None:
    topic = new_topic(server.bootstrap)
    with WireClient(server.bootstrap, client_id="other") as other:
        produce(other, topic, VALUE_BYTES)
    set_quota(server.bootstrap, "consumer_byte_rate", VALUE_BYTES * 1.5 / 10, **entity_of(client))

    first_ms, first_bytes = fetch(client, topic)
    second_ms, second_bytes = fetch(client, topic)

    assert first_ms == 0 and first_bytes > VALUE_BYTES
    # Two responses are 1.34 times the bytes that are allowed in ten seconds.
    assert second_bytes == 0 and second_ms == pytest.approx(3_400, abs=TOLERANCE_MS)
    assert is_throttled_for(client, second_ms)


def test_a_produce_beyond_the_quota_is_carried_out_and_the_producer_waits(
    server: Server, client: WireClient
) -> None:
    topic = new_topic(server.bootstrap)
    set_quota(server.bootstrap, "producer_byte_rate", VALUE_BYTES * 1.5 / 10, **entity_of(client))

    first_ms = produce(client, topic, VALUE_BYTES)
    second_ms = produce(client, topic, VALUE_BYTES)

    assert first_ms == 0 and second_ms == pytest.approx(3_400, abs=TOLERANCE_MS)
    assert is_throttled_for(client, second_ms)


def test_requests_that_take_longer_than_the_quota_wait_for_a_second_at_most(
    server: Server, client: WireClient
) -> None:
    set_quota(server.bootstrap, "request_percentage", 0.0001, **entity_of(client))

    def throttle_ms() -> int:
        found: int = client.call("api_versions", 2).throttle_time_ms
        return found

    # Kafka describes the new quota a little before it enforces it.
    assert eventually(throttle_ms, bool, 10) == 1_000
    assert client.call("list_groups", 4).throttle_time_ms == 1_000
    assert is_throttled_for(client, 1_000)
    set_quota(server.bootstrap, "request_percentage", None, **entity_of(client))
    assert client.call("api_versions", 2).throttle_time_ms == 0


def test_a_raised_quota_does_not_shorten_the_throttle_time_that_was_sent(
    server: Server, client: WireClient
) -> None:
    topic = new_topic(server.bootstrap)
    set_quota(server.bootstrap, "producer_byte_rate", 1_500, **entity_of(client))
    produced_ms = produce(client, topic, VALUE_BYTES)
    began_s = time.monotonic()
    assert produced_ms > 2_000

    set_quota(server.bootstrap, "producer_byte_rate", 1e9, **entity_of(client))
    client.call("api_versions", 2)

    assert (time.monotonic() - began_s) * 1_000 >= produced_ms * 0.8
    assert produce(client, topic, VALUE_BYTES) == 0


@pytest.mark.parametrize("is_strict", [True, False])
def test_mutations_beyond_the_quota_are_rejected_or_throttled(
    server: Server, client: WireClient, is_strict: bool
) -> None:
    prefix = uuid4().hex[:8]
    set_quota(server.bootstrap, "controller_mutation_rate", 1, **entity_of(client))

    def create(*partitions: int) -> tuple[list[int], int]:
        topics = [
            {"name": f"{prefix}-{number}-{count}", "num_partitions": count, "replication_factor": 1}
            for number, count in enumerate(partitions)
        ]
        answer = client.call("create_topics", 6 if is_strict else 5, timeout_ms=10_000, topics=topics)
        codes = {one.name: one.error_code for one in answer.topics}
        return [codes[topic["name"]] for topic in topics], answer.throttle_time_ms

    codes, throttle_ms = create(13, 2)

    # There are eleven tokens: the first topic takes more, and the second is rejected or waited for.
    left = 2 if is_strict else 4
    assert codes == ([0, QUOTA_EXCEEDED] if is_strict else [0, 0])
    assert throttle_ms == pytest.approx(left * 1_000, abs=TOLERANCE_MS)
    assert is_throttled_for(client, throttle_ms)
    time.sleep(0.5)
    grown = client.call(
        "create_partitions",
        3 if is_strict else 2,
        timeout_ms=10_000,
        topics=[{"name": f"{prefix}-0-13", "count": 20, "assignments": None}],
    )
    assert only(grown.results).error_code == 0
    deleted = client.call(
        "delete_topics", 5 if is_strict else 4, timeout_ms=10_000, topic_names=[f"{prefix}-0-13"]
    )
    assert only(deleted.responses).error_code == (QUOTA_EXCEEDED if is_strict else 0)
    assert deleted.throttle_time_ms > 2_000


def test_a_topic_that_is_only_validated_takes_mutations_too(server: Server, client: WireClient) -> None:
    set_quota(server.bootstrap, "controller_mutation_rate", 1, **entity_of(client))

    def validate() -> list[int]:
        topic = {"name": f"v-{uuid4().hex[:8]}", "num_partitions": 30, "replication_factor": 1}
        request = {"timeout_ms": 10_000, "topics": [topic], "validate_only": True}
        return [one.error_code for one in client.call("create_topics", 7, **request).topics]

    assert validate() == [0]
    assert validate() == [QUOTA_EXCEEDED]


def is_served(server: Server) -> bool:
    """Return True if a new connection is served; a throttled one is closed after a while."""
    try:
        with WireClient(server.bootstrap, client_id="many", timeout_s=5) as one:
            one.call("api_versions", 2)
            return True
    except (TimeoutError, Closed, ConnectionError):
        return False


def test_connections_of_an_address_beyond_its_rate_are_closed_after_a_while(server: Server) -> None:
    set_quota(server.bootstrap, "connection_creation_rate", 2, ip="127.0.0.1")
    try:
        served = [is_served(server) for _ in range(25)]
        began_s = time.monotonic()
        assert not is_served(server)
        throttled_s = time.monotonic() - began_s
    finally:
        # The removal of the quota needs connections of its own.
        eventually(lambda: is_served(server), bool, 15)
        time.sleep(1)
        set_quota(server.bootstrap, "connection_creation_rate", None, ip="127.0.0.1")

    # Twenty in ten seconds; some of them are those that set the quota.
    assert 12 <= sum(served) <= 21 and not served[-1]
    assert 0.2 <= throttled_s <= 1.6


def test_three_nodes_count_mutations_together(three_nodes: Cluster) -> None:
    addresses = three_nodes.bootstrap.split(",")
    client_id, prefix = f"client-{uuid4().hex[:8]}", uuid4().hex[:8]
    set_quota(three_nodes.bootstrap, "controller_mutation_rate", 1.0, client_id=client_id)

    codes = []
    for number, address in enumerate(addresses * 2):
        topic = {"name": f"{prefix}-{number}", "num_partitions": 6, "replication_factor": 1}
        with WireClient(address, client_id=client_id) as client:
            answer = client.call("create_topics", 7, timeout_ms=10_000, topics=[topic])
            codes.append(only(answer.topics).error_code)
            assert (answer.throttle_time_ms > 0) == bool(codes[-1])

    # Eleven tokens for all nodes together: the second topic takes the last of them.
    assert codes == [0, 0, *[QUOTA_EXCEEDED] * 4] or codes == [0, 0, 0, *[QUOTA_EXCEEDED] * 3]


@pytest.mark.parametrize("start", [start_ottla, start_kafka])
def test_connections_beyond_the_rate_of_a_node_wait_until_they_are_accepted(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    if start is start_kafka and (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    server = start(tmp_path, "max.connection.creation.rate=2")
    try:
        began_s = time.monotonic()
        served = [is_served(server) for _ in range(30)]
        took_s = time.monotonic() - began_s
    finally:
        server.stop()

    # Twenty at once, and each of the others waits for up to a second: the rate is that of the last ten
    # seconds.
    assert all(served)
    assert took_s == pytest.approx(10.0, abs=4.0)
