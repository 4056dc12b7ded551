"""Requests whose fields parse but make no sense: each is answered with an error code that says what is wrong.

UNKNOWN_SERVER_ERROR with a stack trace in the log means an unhandled case. Each run has a seed.
"""

import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema import Field, Kind, schema_of
from ottla.node.kafka_api.served_apis import SERVED
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from tests.compat.batches import batch
from tests.compat.wire_client import Closed, WireClient, eventually, plain
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded
from tests.thorough import some_of

pytestmark = pytest.mark.slow
TIMEOUT_S = 1.0  # a request may wait, as a JoinGroup does for other members
TOPIC, GROUP, NODE_ID = "here", "group", 4_711
Learned: TypeAlias = dict[str, list[Any]]
REQUESTS = 25  # for each API
KEPT = 5  # how many of the newest values are remembered, by name
LENGTHS_OF_ARRAYS = (0, 0, 1, 1, 1, 2, 3)
BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.UINT16: 16, Kind.INT32: 32, Kind.UINT32: 32, Kind.INT64: 64}
UNSIGNED = (Kind.UINT16, Kind.UINT32)
TEXTS = (
    TOPIC,
    TOPIC,
    GROUP,
    GROUP,
    "absent",
    "",
    " ",
    ".",
    "..",
    "../../etc/passwd",
    "__consumer_offsets",
    "__transaction_state",
    "__cluster_metadata",
    "a b",
    "\x00",
    "\ufffd\U0001f600",
    "x" * 249,
    "x" * 250,
    "x" * 1_024,
    "x" * 1_025,
    "-1",
    "0",
    str(NODE_ID),
    "99999999999999999999",
    "retention.ms",
    "cleanup.policy",
    "consumer",
    "range",
    "uniform",
    "(",
    ".*",
)
# Requests that remove what others need, such as internal topics and features, come last.
LAST = (ApiKey.UPDATE_FEATURES, ApiKey.DELETE_TOPICS)
# Kafka answers these with UNKNOWN_SERVER_ERROR, and clients expect it; no stack trace is logged.
AS_KAFKA = {
    (ApiKey.PRODUCE, "compressed records that do not open"),
    (ApiKey.WRITE_TXN_MARKERS, "a marker without a producer"),
    (ApiKey.JOIN_GROUP, "a consumer's metadata that do not parse, at a consumer group"),
}
ALLOWED = {api for api, _ in AS_KAFKA}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    started = start_embedded(tmp_path, node_id=NODE_ID)
    topic_id_of(started)
    with WireClient(started.bootstrap) as client:
        for key_type in (0, 1):
            eventually(
                lambda kind=key_type: client.call("find_coordinator", 3, key=GROUP, key_type=kind).error_code,
                lambda code: not code,
            )
        eventually(
            lambda: (
                client.call(
                    "init_producer_id", 4, transactional_id=GROUP, transaction_timeout_ms=60_000
                ).error_code
            ),
            lambda code: not code,
        )
    yield started
    started.stop()


def topic_id_of(node: EmbeddedBroker) -> bytes:
    """Return the id of the topic, which is recreated if a request has deleted it."""
    with WireClient(node.bootstrap) as client:
        topics = [{"name": TOPIC, "num_partitions": 3, "replication_factor": 1}]
        client.call("create_topics", 7, topics=topics, timeout_ms=30_000)
    topic_id: bytes = node.call(lambda broker: broker.quorum_services.image.topics.by_name[TOPIC].topic_id)
    return topic_id


# Values with which a request often passes the first checks.
LIKELY: Mapping[str, Sequence[Any]] = {
    "acks": (-1, 1),
    "replica_id": (-1,),
    "session_id": (0,),
    "isolation_level": (0, 1),
    "key_type": (0, 1),
    "resource_type": (2, 4, 8, 16, 32),
    "config_operation": (0, 1, 2, 3),
    "session_timeout_ms": (6_000, 45_000),
    "group_id": (GROUP, "classic", "new"),
    "transactional_id": (GROUP, "new"),
    "v3_and_below_transactional_id": (GROUP, "new"),
    "name": (TOPIC,),
    "topic": (TOPIC,),
    "partition_index": (0, 1),
    "partition": (0, 1),
    "index": (0, 1),
    "partition_max_bytes": (1_000,),
    "protocol_type": ("consumer",),
    "server_assignor": (None, "uniform"),
    "replication_factor": (1, -1),
    "num_partitions": (1, -1),
    "cluster_id": (None,),
    "endpoint_type": (1,),
    "member_id": ("",),
    "member_epoch": (0, 1, -1, -2),
    "upgrade_type": (1, 2, 3),
    "feature": ("metadata.version", "group.version", "transaction.version"),
}
# Fields of responses that later requests use.
LEARNED = ("member_id", "producer_id", "producer_epoch", "generation_id", "member_epoch", "topic_id")


def likely_value(chance: random.Random, field: Field, learned: Learned) -> list[Any]:
    """Return a list with one value that such a field usually has, or an empty list."""
    if field.name in learned and chance.random() < 0.6:
        return [chance.choice(learned[field.name])]
    usual = LIKELY.get(field.name, ())
    is_struct = field.is_array or field.kind is Kind.STRUCT
    return [chance.choice(usual)] if usual and not is_struct and chance.random() < 0.7 else []


def learn(answer: Any, learned: Learned) -> None:
    """Remember the ids and epochs in a response that consists of plain values."""
    if isinstance(answer, list):
        for one in answer:
            learn(one, learned)
    elif isinstance(answer, dict):
        for name, value in answer.items():
            if name in LEARNED and isinstance(value, int | str | bytes):
                learned.setdefault(name, []).append(value)
                del learned[name][:-KEPT]
            else:
                learn(value, learned)


def odd_number(chance: random.Random, field: Field) -> int:
    if "wait" in field.name or "timeout" in field.name:
        return chance.choice((-1, 0, 1, 10, 6_000) if "session" in field.name else (-1, 0, 1, 10))
    bits = BITS[field.kind]
    low, high = (0, 2**bits - 1) if field.kind in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    chosen = chance.choice((0, 0, 0, 1, 1, 2, 3, -1, -1, -2, -3, 7, 100, low, low + 1, high, high - 1))
    return min(max(chosen, low), high)


def odd_bytes(chance: random.Random) -> bytes:
    whole = batch([b"value"], keys=chance.choice(([b"key"], None)))
    cut = chance.randrange(len(whole))
    return chance.choice(
        (b"", b"\x00", b"\xff" * 20, chance.randbytes(70), whole, whole[:cut], whole[cut:], whole + whole)
    )


def odd_value(chance: random.Random, field: Field, version: int, learned: Learned) -> Any:
    """Return a random value that the field can have on the wire."""
    if field.is_nullable(version) and chance.random() < 0.15:
        return None
    for usual in likely_value(chance, field, learned):
        if usual is not None or field.is_nullable(version):
            return usual
    if field.is_array:
        length = chance.choice(LENGTHS_OF_ARRAYS)
        one = field._replace(is_array=False, nullable_since=None)
        values = [odd_value(chance, one, version, learned) for _ in range(length)]
        return values * 2 if chance.random() < 0.1 else values
    match field.kind:
        case Kind.STRUCT:
            assert field.of is not None
            return odd_fields(chance, field.of, version, learned)
        case Kind.BOOLEAN:
            return chance.random() < 0.5
        case Kind.FLOAT64:
            return chance.choice((0.0, -1.0, float("inf"), float("nan")))
        case Kind.UUID:
            return chance.choice((bytes(16), b"\xff" * 16))
        case Kind.STRING:
            return chance.choice(TEXTS)
        case Kind.BYTES | Kind.RECORDS:
            return odd_bytes(chance)
        case _:
            return odd_number(chance, field)


def odd_fields(chance: random.Random, cls: type, version: int, learned: Learned) -> dict[str, Any]:
    return {
        field.name: odd_value(chance, field, version, learned)
        for field in schema_of(cls).fields
        if field.is_in(version)
    }


def codes_in(answer: Any) -> set[int]:
    """Return all error codes in a response that consists of plain values."""
    if isinstance(answer, list):
        return set().union(*map(codes_in, answer))
    if not isinstance(answer, dict):
        return set()
    here = {value for name, value in answer.items() if name.endswith("error_code")}
    return here.union(*map(codes_in, answer.values()))


@pytest.mark.parametrize("seed", some_of(range(10), of_each_run=1))
def test_odd_requests_are_answered_with_codes_that_say_what_is_wrong(
    node: EmbeddedBroker, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)
    learned: Learned = {}
    unexpected = []
    for api in [*(one for one in SERVED if one not in LAST), *LAST]:
        first, last = SERVED[api]
        name = api.name.lower()
        learned["topic_id"] = [topic_id_of(node)]
        client = WireClient(node.bootstrap, timeout_s=TIMEOUT_S)
        for _ in range(REQUESTS):
            version = chance.randint(max(first, 3 if api is ApiKey.PRODUCE else first), last)
            fields = odd_fields(chance, codec.request_class(api), version, learned)
            try:
                answer = plain(client.call(name, version, **fields), version)
            except (Closed, OSError):  # it waits for others, or its response has no error code
                client.close()
                client = WireClient(node.bootstrap, timeout_s=TIMEOUT_S)
                continue
            learn(answer, learned)
            if ErrorCode.UNKNOWN_SERVER_ERROR in codes_in(answer) and api not in ALLOWED:
                unexpected.append((name, version, fields, answer))
        client.close()

    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    traces = [record.exc_text or str(record.exc_info) for record in caplog.records if record.exc_info]
    assert unexpected == []
    assert traces == [], logged
