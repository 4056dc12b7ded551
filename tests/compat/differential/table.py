"""The requests of the differential test: per API right ones, odd ones and hostile ones, for all versions.

The cases run in order against both servers, so what one changes the next finds changed in both.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.compat.batches import CONTROL, TRANSACTIONAL, batch, now_ms
from tests.compat.wire_client import WireClient, eventually, only

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
LONG_AGO_MS = 1_700_000_000_000
UNKNOWN_ID = b"\x07" * 16
Fields = dict[str, Any]

# Pattern over "api case path" -> why the two may differ there.
ALLOWED: dict[str, str] = {
    r"describe_configs .*configs\[(advertised\.listeners|listeners|log\.dirs?|metadata\.log\.dir)\]": "its own place",
    r"describe_configs .*configs\[controller\.quorum\.(voters|bootstrap\.servers)\]": "its own quorum",
}


@dataclass(slots=True)
class Context:
    """What a case may speak of: the run's topics and their ids on this server."""

    run: str
    node: int
    version: int
    topic: str
    topic_id: bytes
    compacted: str
    start_ms: int

    @classmethod
    def create(cls, client: WireClient, run: str, node: int) -> "Context":
        topic, compacted = f"differ-{run}", f"differ-compacted-{run}"
        compact = [{"name": "cleanup.policy", "value": "compact"}]
        for name, partitions, configs in ((topic, 2, []), (compacted, 1, compact)):
            wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
            answer = client.call("create_topics", 7, topics=[wanted], timeout_ms=10_000)
            assert only(answer.topics).error_code == 0, answer
            wait_for(client, name)
        found = only(client.call("metadata", 12, topics=[{"name": topic}]).topics)
        return cls(run, node, 0, topic, bytes(found.topic_id), compacted, now_ms())

    def fresh(self, word: str) -> str:
        """A name that is new in every version of a case."""
        return f"{word}-{self.run}-{self.version}"

    def named(self, since_id: int, name: str | None = None, **fields: Any) -> Fields:
        """The topic by name, or by id from version `since_id` on."""
        if self.version < since_id:
            return {
                ("topic" if since_id == 13 and "partitions" in fields else "name"): name or self.topic,
                **fields,
            }
        return {"topic_id": UNKNOWN_ID if name else self.topic_id, **fields}


def wait_for(client: WireClient, name: str) -> None:
    wanted = {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    eventually(
        lambda: client.call("list_offsets", 5, replica_id=-1, topics=[wanted]),
        lambda found: only(only(found.topics).partitions).error_code == 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request; `since` and `until` narrow the versions that both servers have."""

    api: str
    name: str
    fields: Callable[[Context], Fields]
    since: int = 0
    until: int = 99

    def versions(self, first: int, last: int) -> Iterable[int]:
        return range(max(first, self.since), min(last, self.until) + 1)


CASES: list[Case] = []


def case(
    api: str, name: str, fields: Fields | Callable[[Context], Fields], since: int = 0, until: int = 99
) -> None:
    made = fields if callable(fields) else (lambda context: fields)
    CASES.append(Case(api=api, name=name, fields=made, since=since, until=until))


# ---- metadata ------------------------------------------------------------------------------------


def metadata(name: str, *topics: str, since: int = 0, **fields: Any) -> None:
    def ask(context: Context) -> Fields:
        listed = [{"name": context.topic if topic == "TOPIC" else topic} for topic in topics]
        asked = {"topics": listed, **fields}
        if context.version >= 4:
            asked["allow_auto_topic_creation"] = False
        return asked

    case("metadata", name, ask, since=since)


metadata("one topic", "TOPIC")
metadata("twice the same", "TOPIC", "TOPIC")
metadata("nothing", since=1)
metadata("unknown and illegal", "no-such-topic", "bad name", "", "..", "x" * 250, since=4)
metadata("authorized operations", "TOPIC", since=8, include_topic_authorized_operations=True)
case(
    "metadata",
    "cluster operations",
    {"topics": [], "include_cluster_authorized_operations": True},
    since=8,
    until=10,
)
case("metadata", "by id", lambda c: {"topics": [{"topic_id": c.topic_id, "name": None}]}, since=12)
case("metadata", "by unknown id", {"topics": [{"topic_id": UNKNOWN_ID, "name": None}]}, since=12)
case("metadata", "id and name", lambda c: {"topics": [{"topic_id": c.topic_id, "name": c.topic}]}, since=12)
case("metadata", "null name without id", {"topics": [{"name": None}]}, since=12)
case("metadata", "null name before ids", {"topics": [{"name": None}]}, since=10, until=11)


def paged(
    name: str, limit: int = 2000, cursor: tuple[str, int] | None = None, topics: tuple[str, ...] = ("TOPIC",)
) -> None:
    def ask(c: Context) -> Fields:
        def real(topic: str) -> str:
            return c.topic if topic == "TOPIC" else topic

        where = {"topic_name": real(cursor[0]), "partition_index": cursor[1]} if cursor else None
        return {
            "topics": [{"name": real(one)} for one in topics],
            "response_partition_limit": limit,
            "cursor": where,
        }

    case("describe_topic_partitions", name, ask)


paged("one topic")
paged("unknown and illegal", topics=("no-such", "bad name", "", "TOPIC"))
paged("twice the same", topics=("TOPIC", "TOPIC"))
paged("one a page", limit=1)
paged("limit zero", limit=0)
paged("negative limit", limit=-5)
paged("from a cursor", cursor=("TOPIC", 1))
paged("cursor at the end", cursor=("TOPIC", 2))
paged("cursor beyond", cursor=("TOPIC", 9))
paged("cursor negative", cursor=("TOPIC", -1))
paged("cursor at another topic", cursor=("zzz", 0))
paged("cursor before it", cursor=("aaa", 0))

for kind in (0, 1, 2, 3):
    case("describe_cluster", f"endpoint type {kind}", {"endpoint_type": kind}, since=1)
case("describe_cluster", "plain", {})
case("describe_cluster", "operations", {"include_cluster_authorized_operations": True})
case("describe_cluster", "fenced too", {"include_fenced_brokers": True}, since=2)

# ---- produce -------------------------------------------------------------------------------------


def produce(
    name: str, *partitions: tuple[int, Callable[[], bytes]], topic: str | None = None, **fields: Any
) -> None:
    def ask(c: Context) -> Fields:
        data = [{"index": index, "records": make()} for index, make in partitions]
        wanted = c.named(13, topic, partition_data=data)
        repeat = fields.get("repeat", 1)
        rest = {key: value for key, value in fields.items() if key != "repeat"}
        return {"acks": -1, "timeout_ms": 3000, "topic_data": [wanted] * repeat, **rest}

    case("produce", name, ask)


def made(values: tuple[bytes, ...] = (b"value",), **wrong: Any) -> Callable[[], bytes]:
    return lambda: batch(values, **{"base_timestamp": LONG_AGO_MS, **wrong})


produce("one record", (0, made()))
produce("two partitions", (0, made((b"a", b"b"))), (1, made()))
produce("one of them missing", (0, made()), (7, made()), (-1, made()))
produce("unknown topic", (0, made()), topic="no-such-topic")
produce("illegal topic", (0, made()), topic="bad name")
produce("acks 1", (0, made()), acks=1)
produce("acks 2", (0, made()), acks=2)
produce("no timeout", (0, made()), timeout_ms=0)
produce("negative timeout", (0, made()), timeout_ms=-1)
produce("no partitions")
produce("no topics", repeat=0)
produce("empty", (0, lambda: b""))
produce("garbage", (0, lambda: b"garbage that is longer than a batch header of sixty-one bytes is, by far"))
produce("zeros", (0, lambda: bytes(200)))
produce("two batches", (0, lambda: made()() + made()()))
produce("tail", (0, lambda: made()() + b"\0" * 11))
produce("tail of a header", (0, lambda: made()() + b"\0" * 61))
produce("a compacted topic", (0, made()), topic=None)
for field, values in {
    "magic": (0, 1, 3, -1),
    "crc": (0,),
    "batch_length": (0, -1, 48, 49, 60, 2**31 - 1),
    "base_offset": (1, -1, 2**40),
    "records_count": (0, 2, -1, 2**31 - 1),
    "last_offset_delta": (-1, 1, 2**31 - 1),
    "attributes": (CONTROL, TRANSACTIONAL, 1 << 6, 1 << 7, 1 << 15 | 0, 1 << 3),
    "partition_leader_epoch": (5,),
    "max_timestamp": (LONG_AGO_MS + 5, LONG_AGO_MS - 5, -1),
    "base_timestamp": (-1, -5),
    "base_sequence": (5, -2),
    "producer_epoch": (3,),
}.items():
    for value in values:
        if field == "attributes" and value >= 1 << 15:
            value -= 1 << 16
        produce(f"{field} {value}", (0, made(**{field: value})))
produce("idempotent without sequence", (0, made(producer_id=9, producer_epoch=0, base_sequence=-1)))
produce("idempotent without epoch", (0, made(producer_id=9, producer_epoch=-1, base_sequence=0)))
produce("idempotent first", (0, made(producer_id=900, producer_epoch=1, base_sequence=0)))
produce("idempotent again", (0, made(producer_id=900, producer_epoch=1, base_sequence=0)))
produce("idempotent gap", (0, made(producer_id=900, producer_epoch=1, base_sequence=5)))
produce("idempotent old epoch", (0, made(producer_id=900, producer_epoch=0, base_sequence=1)))
produce("idempotent new epoch", (0, made(producer_id=900, producer_epoch=2, base_sequence=0)))
produce("idempotent new epoch from 3", (0, made(producer_id=900, producer_epoch=3, base_sequence=3)))
produce("no value", (0, lambda: batch([None], base_timestamp=LONG_AGO_MS)))  # type: ignore[list-item]


def produce_compacted(name: str, keys: list[bytes | None]) -> None:
    def ask(c: Context) -> Fields:
        data = batch([b"v"] * len(keys), keys=keys, base_timestamp=LONG_AGO_MS)
        return {
            "acks": -1,
            "timeout_ms": 3000,
            "topic_data": [{"name": c.compacted, "partition_data": [{"index": 0, "records": data}]}],
        }

    case("produce", name, ask, until=12)


produce_compacted("compacted with keys", [b"a", b"b"])
produce_compacted("compacted without keys", [None, b"b", None])

# ---- fetch and offsets ---------------------------------------------------------------------------


def fetch(
    name: str, *partitions: Fields, topic: str | None = None, since: int = 0, repeat: int = 1, **fields: Any
) -> None:
    def ask(c: Context) -> Fields:
        listed = [
            {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 300, **one} for one in partitions
        ]
        own = {key: value for key, value in fields.items() if c.version >= 7 or not key.startswith("session")}
        topics = [c.named(13, topic, partitions=listed)] * repeat
        return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 100_000, "topics": topics, **own}

    case("fetch", name, ask, since=since)


fetch("from the start", {})
fetch("both partitions", {}, {"partition": 1})
fetch("from the middle", {"fetch_offset": 3})
fetch("far beyond", {"fetch_offset": 10**9})
fetch("negative offsets", {"fetch_offset": -1}, {"partition": 1, "fetch_offset": -(2**63)})
fetch("missing partitions", {"partition": 7}, {"partition": -1})
fetch("unknown topic", {}, topic="no-such-topic")
fetch("one byte", {"partition_max_bytes": 1}, max_bytes=1)
fetch("no bytes", {"partition_max_bytes": 0}, max_bytes=0)
fetch("negative bytes", {"partition_max_bytes": -1}, max_bytes=-1)
fetch("committed only", {}, isolation_level=1)
fetch("isolation 9", {}, isolation_level=9)
fetch("negative wait", {}, max_wait_ms=-1)
fetch("nothing")
fetch("no topics", repeat=0)
fetch("twice the same", {}, {})
fetch("twice the topic", {}, repeat=2)
fetch("epoch 0", {"current_leader_epoch": 0}, since=9)
fetch("epoch 5", {"current_leader_epoch": 5}, since=9)
fetch("epoch -2", {"current_leader_epoch": -2}, since=9)
fetch("last fetched epoch 0", {"last_fetched_epoch": 0}, since=12)
fetch("last fetched epoch 3", {"last_fetched_epoch": 3}, since=12)
fetch("session new", {}, session_id=0, session_epoch=0, since=7)
fetch("session unknown", {}, session_id=77, session_epoch=3, since=7)
fetch("session closing unknown", {}, session_id=77, session_epoch=-1, since=7)
fetch("session 0 epoch 4", {}, session_id=0, session_epoch=4, since=7)
fetch("session negative", {}, session_id=-3, session_epoch=-7, since=7)
fetch("rack", {}, rack_id="nowhere", since=11)
fetch("a consumer's debug id", {}, replica_id=-2, since=0)

for stamp in (-1, -2, -3, -4, -5, -6, -7, -100, 0, LONG_AGO_MS, LONG_AGO_MS + 1, 2**62):
    for isolation in (0, 1):

        def ask(c: Context, stamp: int = stamp, isolation: int = isolation) -> Fields:
            both = [{"partition_index": index, "timestamp": stamp} for index in (0, 1)]
            level = {"isolation_level": isolation} if c.version >= 2 else {}
            return {"replica_id": -1, "topics": [{"name": c.topic, "partitions": both}], **level}

        case("list_offsets", f"timestamp {stamp} isolation {isolation}", ask)


def list_offsets(
    name: str, *partitions: Fields, topic: str | None = None, since: int = 0, replica_id: int = -1
) -> None:
    def ask(c: Context) -> Fields:
        listed = [{"partition_index": 0, "timestamp": -1, **one} for one in partitions]
        return {"replica_id": replica_id, "topics": [{"name": topic or c.topic, "partitions": listed}]}

    case("list_offsets", name, ask, since=since)


list_offsets("unknown topic", {}, topic="no-such-topic")
list_offsets("missing partitions", {"partition_index": 7}, {"partition_index": -1})
list_offsets("twice the same", {}, {})
list_offsets("epoch 0", {"current_leader_epoch": 0}, since=4)
list_offsets("epoch 5", {"current_leader_epoch": 5}, since=4)
list_offsets("nothing")
list_offsets("a debugging consumer", {}, replica_id=-2)


def epoch_end(name: str, *partitions: Fields, topic: str | None = None) -> None:
    def ask(c: Context) -> Fields:
        listed = [{"partition": 0, "leader_epoch": 0, **one} for one in partitions]
        return {"replica_id": -1, "topics": [{"topic": topic or c.topic, "partitions": listed}]}

    # Version 2 has no replica id.
    case(
        "offset_for_leader_epoch",
        name,
        lambda c: {k: v for k, v in ask(c).items() if c.version >= 3 or k != "replica_id"},
    )


for number in (-1, 0, 1, 99, -5):
    epoch_end(f"epoch {number}", {"leader_epoch": number})
epoch_end("current 0", {"current_leader_epoch": 0})
epoch_end("current 5", {"current_leader_epoch": 5})
epoch_end("unknown", {}, topic="no-such-topic")
epoch_end("missing partitions", {"partition": 7}, {"partition": -1})


def delete_records(name: str, *partitions: tuple[int, int], topic: str | None = None) -> None:
    def ask(c: Context) -> Fields:
        listed = [{"partition_index": index, "offset": offset} for index, offset in partitions]
        return {"topics": [{"name": topic or c.topic, "partitions": listed}], "timeout_ms": 3000}

    case("delete_records", name, ask)


delete_records("to 0", (0, 0))
delete_records("to 1", (0, 1))
delete_records("back to 0", (0, 0))
delete_records("beyond", (0, 10**9))
delete_records("to -2", (0, -2))
delete_records("missing partitions", (7, 0), (-1, 0))
delete_records("unknown", (0, 0), topic="no-such-topic")
delete_records("twice the same", (0, 1), (0, 1))
delete_records("a whole partition", (1, -1))
fetch("what was deleted", {"partition": 1}, {"fetch_offset": 0})
list_offsets("earliest after deletion", {"timestamp": -2}, {"partition_index": 1, "timestamp": -2})


def producers(name: str, *partitions: int, topic: str | None = None) -> None:
    case(
        "describe_producers",
        name,
        lambda c: {"topics": [{"name": topic or c.topic, "partition_indexes": list(partitions)}]},
    )


producers("of a partition", 1)
producers("missing", 7, -1)
producers("unknown", 0, topic="no-such-topic")

# ---- topics and configurations -------------------------------------------------------------------


def create(
    name: str, *topics: Fields, validate_only: bool = False, since: int = 0, timeout_ms: int = 5000
) -> None:
    def ask(c: Context) -> Fields:
        listed = []
        for topic in topics:
            wanted = {
                "name": c.fresh(name.replace(" ", "-")),
                "num_partitions": 1,
                "replication_factor": 1,
                **topic,
            }
            if wanted["name"] == "TOPIC":
                wanted["name"] = c.topic
            if "assignments" in wanted:
                wanted["assignments"] = [
                    {
                        "partition_index": index,
                        "broker_ids": [c.node if one == "own" else one for one in brokers],
                    }
                    for index, brokers in wanted["assignments"]
                ]
            listed.append(wanted)
        return {"topics": listed, "timeout_ms": timeout_ms, "validate_only": validate_only}

    case("create_topics", name, ask, since=since)


def config(name: str, value: str | None) -> Fields:
    return {"configs": [{"name": name, "value": value}]}


create("plain", {})
create("two at once", {}, {"name": "TOPIC"})
create("twice the same", {}, {})
create("nothing")
create("existing", {"name": "TOPIC"})
create("only validated", {}, validate_only=True)
create("existing validated", {"name": "TOPIC"}, validate_only=True)
for illegal in ("", ".", "..", "a b", "a/b", "x" * 250, "x" * 249 + "é", "%", "-", "_a", "a.b"):
    create(f"named {illegal[:5]}", {"name": illegal}, validate_only=True)
for count in (-1, -2, 0, 3):
    create(f"{count} partitions", {"num_partitions": count})
for factor in (-1, -2, 0, 2):
    create(f"factor {factor}", {"replication_factor": factor})
ASSIGNED = {"num_partitions": -1, "replication_factor": -1}
create("assigned", {**ASSIGNED, "assignments": [(0, ["own"]), (1, ["own"])]})
create("assigned and counted", {"assignments": [(0, ["own"])]})
create("assigned with a gap", {**ASSIGNED, "assignments": [(0, ["own"]), (2, ["own"])]})
create("assigned twice", {**ASSIGNED, "assignments": [(0, ["own"]), (0, ["own"])]})
create("assigned to nobody", {**ASSIGNED, "assignments": [(0, [])]})
create("assigned to a stranger", {**ASSIGNED, "assignments": [(0, [99])]})
create("assigned to one twice", {**ASSIGNED, "assignments": [(0, ["own", "own"])]})
create("assigned negative", {**ASSIGNED, "assignments": [(-1, ["own"])]})
for key, value in {
    "retention.ms": ("1", "-1", "-2", "soon", "", None, "9223372036854775808"),
    "cleanup.policy": ("compact", "compact,delete", "none", "", "remove", " compact "),
    "compression.type": ("zstd", "lz5", "producer"),
    "segment.bytes": ("1048576", "1000", "-1", "3000000000"),
    "min.insync.replicas": ("1", "0", "7"),
    "message.timestamp.type": ("LogAppendTime", "Never"),
    "unclean.leader.election.enable": ("true", "maybe", "TRUE"),
    "min.cleanable.dirty.ratio": ("0.5", "1.5", "half"),
    "no.such.config": ("1",),
    "leader.replication.throttled.replicas": ("*", "0:1", "x"),
    "remote.storage.enable": ("true",),
    "max.message.bytes": ("0", "-1"),
    "message.format.version": ("3.0",),
}.items():
    for one in value:
        create(f"with {key} {one}", config(key, one))
create(
    "configs twice",
    {"configs": [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]},
)
create("no timeout", {}, timeout_ms=0, validate_only=True)


def grow(
    name: str, count: int, topic: str | None = None, brokers: list[list[Any]] | None = None, **fields: Any
) -> None:
    def ask(c: Context) -> Fields:
        lists = None
        if brokers is not None:
            lists = [{"broker_ids": [c.node if one == "own" else one for one in some]} for some in brokers]
        wanted = {"name": topic or c.topic, "count": count, "assignments": lists}
        return {"topics": [wanted] * fields.get("repeat", 1), "timeout_ms": 5000, "validate_only": True}

    case("create_partitions", name, ask)


grow("to 3", 3)
grow("to the same", 2)
grow("to fewer", 1)
grow("to 0", 0)
grow("to -1", -1)
grow("unknown", 3, topic="no-such-topic")
grow("illegal", 3, topic="bad name")
grow("assigned", 3, brokers=[["own"]])
grow("assigned too few", 4, brokers=[["own"]])
grow("assigned to a stranger", 3, brokers=[[99]])
grow("assigned to nobody", 3, brokers=[[]])
grow("assigned to two", 3, brokers=[["own", 99]])
grow("twice the same", 3, repeat=2)

case("delete_topics", "unknown", {"topic_names": ["no-such-topic"], "timeout_ms": 3000}, until=5)
case("delete_topics", "illegal", {"topic_names": ["", "bad name"], "timeout_ms": 3000}, until=5)
case("delete_topics", "nothing", {"topic_names": [], "timeout_ms": 3000}, until=5)
case(
    "delete_topics",
    "created before",
    lambda c: {"topic_names": [c.fresh("plain")], "timeout_ms": 3000},
    until=5,
)
case(
    "delete_topics", "unknown by state", {"topics": [{"name": "no-such-topic"}], "timeout_ms": 3000}, since=6
)
case("delete_topics", "unknown id", {"topics": [{"topic_id": UNKNOWN_ID}], "timeout_ms": 3000}, since=6)
case("delete_topics", "neither name nor id", {"topics": [{"name": None}], "timeout_ms": 3000}, since=6)
case(
    "delete_topics",
    "name and id",
    lambda c: {"topics": [{"name": c.topic, "topic_id": c.topic_id}], "timeout_ms": 3000},
    since=6,
)
case(
    "delete_topics",
    "twice the same",
    lambda c: {"topics": [{"name": "no-such"}] * 2, "timeout_ms": 3000},
    since=6,
)


def describe(
    name: str, kind: int, resource: str, keys: list[str] | None = None, repeat: int = 1, **fields: Any
) -> None:
    def ask(c: Context) -> Fields:
        real = {"TOPIC": c.topic, "OWN": str(c.node)}.get(resource, resource)
        wanted = {"resource_type": kind, "resource_name": real, "configuration_keys": keys}
        own = {
            key: value for key, value in fields.items() if c.version >= 3 or key != "include_documentation"
        }
        return {"resources": [wanted] * repeat, **own}

    case("describe_configs", name, ask)


describe("topic", TOPIC, "TOPIC", include_synonyms=True, include_documentation=True)
describe("topic without synonyms", TOPIC, "TOPIC")
describe("topic keys", TOPIC, "TOPIC", ["retention.ms", "no.such", "retention.ms"])
describe("topic no keys", TOPIC, "TOPIC", [])
describe("topic unknown", TOPIC, "no-such-topic")
describe("topic illegal", TOPIC, "bad name")
describe("topic empty", TOPIC, "")
describe("broker", BROKER, "OWN", include_synonyms=True, include_documentation=True)
describe("broker default", BROKER, "")
describe("broker other", BROKER, "987")
describe("broker word", BROKER, "word")
describe(
    "broker keys", BROKER, "OWN", ["num.partitions", "log.retention.ms", "log.retention.hours", "listeners"]
)
describe("unknown type", 3, "x")
describe("type 0", 0, "x")
describe("type 100", 100, "x")
describe("twice the same", TOPIC, "TOPIC", ["retention.ms"], repeat=2)
describe("nothing", TOPIC, "TOPIC", repeat=0)


def alter(
    name: str,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    resource: str = "TOPIC",
    **fields: Any,
) -> None:
    def ask(c: Context) -> Fields:
        listed = [
            {"name": key, "config_operation": operation, "value": value} for key, operation, value in changes
        ]
        real = {"TOPIC": c.topic, "OWN": str(c.node)}.get(resource, resource)
        wanted = {"resource_type": kind, "resource_name": real, "configs": listed}
        return {
            "resources": [wanted] * fields.get("repeat", 1),
            "validate_only": fields.get("validate_only", False),
        }

    case("incremental_alter_configs", name, ask)


alter("set", ("retention.ms", 0, "5000000"))
alter("set null", ("retention.ms", 0, None))
alter("set wrong", ("retention.ms", 0, "soon"))
alter("set and delete", ("retention.ms", 0, "1"), ("retention.ms", 1, None))
alter("delete", ("retention.ms", 1, None))
alter("delete what is not set", ("retention.bytes", 1, None))
alter("delete unknown", ("no.such", 1, None))
alter("append", ("cleanup.policy", 2, "compact"))
alter("append again", ("cleanup.policy", 2, "compact"))
alter("append wrong", ("cleanup.policy", 2, "burn"))
alter("append to a number", ("retention.ms", 2, "1"))
alter("append null", ("cleanup.policy", 2, None))
alter("subtract", ("cleanup.policy", 3, "compact"))
alter("subtract what is not there", ("cleanup.policy", 3, "compact"))
alter("subtract the last", ("cleanup.policy", 3, "delete"))
alter("unknown", ("no.such", 0, "1"))
alter("nothing")
alter("validated", ("retention.ms", 0, "77"), validate_only=True)
alter("unknown topic", ("retention.ms", 0, "1"), resource="no-such-topic")
alter("empty topic", ("retention.ms", 0, "1"), resource="")
alter("illegal topic", ("retention.ms", 0, "1"), resource="bad name")
alter("twice the resource", ("retention.ms", 0, "1"), repeat=2)
alter("broker other", ("log.cleaner.threads", 0, "2"), kind=BROKER, resource="987", validate_only=True)
alter("broker word", ("log.cleaner.threads", 0, "2"), kind=BROKER, resource="word", validate_only=True)
alter("broker read-only", ("broker.id", 0, "2"), kind=BROKER, resource="OWN", validate_only=True)
alter("broker wrong", ("log.retention.ms", 0, "soon"), kind=BROKER, resource="OWN", validate_only=True)
alter("broker dynamic", ("log.retention.ms", 0, "1000000"), kind=BROKER, resource="OWN", validate_only=True)
alter(
    "broker default dynamic", ("log.retention.ms", 0, "1000000"), kind=BROKER, resource="", validate_only=True
)
alter("type 3", ("x", 0, "1"), kind=3)
describe("topic after changes", TOPIC, "TOPIC", ["retention.ms", "cleanup.policy", "retention.bytes"])


def replace(
    name: str, *configs: tuple[str, str | None], resource: str = "TOPIC", kind: int = TOPIC, repeat: int = 1
) -> None:
    def ask(c: Context) -> Fields:
        listed = [{"name": key, "value": value} for key, value in configs]
        wanted = {
            "resource_type": kind,
            "resource_name": c.topic if resource == "TOPIC" else resource,
            "configs": listed,
        }
        return {"resources": [wanted] * repeat, "validate_only": False}

    case("alter_configs", name, ask)


replace("one", ("retention.ms", "86400000"))
replace("wrong", ("retention.ms", "soon"))
replace("null", ("retention.ms", None))
replace("unknown", ("no.such", "1"))
replace("twice", ("retention.ms", "1"), ("retention.ms", "2"))
replace("unknown topic", ("retention.ms", "1"), resource="no-such-topic")
# Not here: the same resource twice. Apache Kafka 4.3.1 never answers that.
replace("nothing left")
describe("topic after replacing", TOPIC, "TOPIC", ["retention.ms", "cleanup.policy"])

case("describe_log_dirs", "of the topic", lambda c: {"topics": [{"topic": c.compacted, "partitions": [0]}]})
case("describe_log_dirs", "unknown", {"topics": [{"topic": "no-such-topic", "partitions": [0]}]})
case("describe_log_dirs", "nothing", {"topics": []})


def move(name: str, path: str, topic: str | None = None, partition: int = 0) -> None:
    def ask(c: Context) -> Fields:
        return {"dirs": [{"path": path, "topics": [{"name": topic or c.topic, "partitions": [partition]}]}]}

    case("alter_replica_log_dirs", name, ask)


move("unknown directory", "/no/such/directory")
move("relative", "relative/path")
move("empty path", "")
move("unknown topic", "/no/such/directory", topic="no-such-topic")
move("missing partition", "/no/such/directory", partition=9)
case("alter_replica_log_dirs", "nothing", {"dirs": []})

# ---- groups --------------------------------------------------------------------------------------

for kind in (0, 2, 3, -1):
    for key in ("differ-group", ""):

        def find(c: Context, kind: int = kind, key: str = key) -> Fields:
            asked: Fields = {"key_type": kind} if c.version >= 1 else {}
            return {**asked, **({"coordinator_keys": [key, key]} if c.version >= 4 else {"key": key})}

        case("find_coordinator", f"type {kind} key {key or 'empty'}", find, since=1 if kind else 0)
case("find_coordinator", "no keys", {"coordinator_keys": []}, since=4)

JOIN: Fields = {
    "session_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"\0\0"}],
}


def join(name: str, since: int = 0, **fields: Any) -> None:
    def ask(c: Context) -> Fields:
        asked = {"group_id": c.fresh(f"join-{name}"), "member_id": "", **JOIN, **fields}
        return {**asked, **({"rebalance_timeout_ms": 10_000} if c.version >= 1 else {})}

    case("join_group", name, ask, since=since)


join("empty group id", group_id="")
join("unknown member", member_id="nobody")
join("no protocols", protocols=[])
join("no protocol type", protocol_type="")
join("session too short", session_timeout_ms=10)
join("session too long", session_timeout_ms=2_000_000_000)
join("session negative", session_timeout_ms=-1)
join("static", since=5, group_instance_id="one")
join("static empty", since=5, group_instance_id="")
join("static odd name", since=5, group_instance_id="a b/c")
join("static unknown member", since=5, group_instance_id="two", member_id="nobody")
join("plain")


def asks(
    api: str, name: str, fields: Fields | Callable[[Context], Fields], since: int = 0, until: int = 99
) -> None:
    case(api, name, fields, since, until)


for group in ("no-such-group", ""):
    label = group or "empty"
    asks("heartbeat", label, {"group_id": group, "generation_id": 1, "member_id": "x"})
    asks("heartbeat", f"{label} nobody", {"group_id": group, "generation_id": -1, "member_id": ""})
    asks("sync_group", label, {"group_id": group, "generation_id": 1, "member_id": "x", "assignments": []})
    asks("leave_group", label, {"group_id": group, "member_id": "x"}, until=2)
    asks("leave_group", f"{label} many", {"group_id": group, "members": [{"member_id": "x"}] * 2}, since=3)
    asks("leave_group", f"{label} none", {"group_id": group, "members": []}, since=3)
    asks("describe_groups", label, {"groups": [group, group]})
    asks("delete_groups", label, {"groups_names": [group]})
    asks("offset_fetch", f"{label} all", {"group_id": group, "topics": None}, since=2, until=7)
    asks("offset_fetch", f"{label} groups", {"groups": [{"group_id": group, "topics": None}] * 2}, since=8)
    asks("offset_delete", label, lambda c, g=group: {"group_id": g, "topics": [one_partition(c)]})
asks("describe_groups", "nothing", {"groups": []})
asks("describe_groups", "operations", {"groups": ["x"], "include_authorized_operations": True}, since=3)
asks("delete_groups", "nothing", {"groups_names": []})
asks("list_groups", "odd state", {"states_filter": ["Sleepy"]}, since=4)
asks("list_groups", "odd type", {"types_filter": ["sleepy"]}, since=5)


def one_partition(c: Context) -> Fields:
    return {"name": c.topic, "partitions": [{"partition_index": 0}, {"partition_index": 9}]}


def commit(name: str, *partitions: Fields, topic: str | None = None, since: int = 0, **fields: Any) -> None:
    def ask(c: Context) -> Fields:
        listed = [
            {"partition_index": 0, "committed_offset": 3, "committed_metadata": "", **one}
            for one in partitions
        ]
        named = c.named(10, topic, partitions=listed)
        return {"group_id": f"differ-{c.run}", "topics": [named], **fields}

    case("offset_commit", name, ask, since=since)


commit("plain", {})
commit("two", {}, {"partition_index": 1, "committed_metadata": "note"})
commit("twice the same", {}, {})
commit("null metadata", {"committed_metadata": None})
commit("long metadata", {"committed_metadata": "x" * 5000})
commit("negative offset", {"partition_index": 1, "committed_offset": -9})
commit("missing partition", {"partition_index": 9})
commit("negative partition", {"partition_index": -1})
commit("unknown topic", {}, topic="no-such-topic")
commit("illegal topic", {}, topic="bad name")
commit("as a member", {}, member_id="nobody", generation_id_or_member_epoch=1)
commit("as a member without generation", {}, member_id="nobody")
commit("with a generation alone", {}, generation_id_or_member_epoch=4)
commit("empty group", {}, group_id="")
commit("new group", {}, group_id="differ-new", member_id="m", generation_id_or_member_epoch=1)
commit("nothing")
commit("static", {}, since=7, group_instance_id="nobody")


def fetched(name: str, since: int = 0, **fields: Any) -> None:
    indexes = fields.get("indexes", [0, 1])

    def ask(c: Context) -> Fields:
        group = fields.get("group", f"differ-{c.run}")
        if c.version >= 8:
            topics = (
                None if fields.get("all") else [c.named(10, fields.get("topic"), partition_indexes=indexes)]
            )
            return {"groups": [{"group_id": group, "topics": topics}]}
        named = {"name": fields.get("topic") or c.topic, "partition_indexes": indexes}
        return {"group_id": group, "topics": None if fields.get("all") else [named]}

    case("offset_fetch", name, ask, since=since)


fetched("plain")
fetched("all", since=2, all=True)
fetched("missing partition", indexes=[9, -1])
fetched("unknown topic", topic="no-such-topic")
fetched("twice the same", indexes=[0, 0])
fetched("no partitions", indexes=[])
fetched("other group", group="no-such-group")
asks("offset_delete", "committed", lambda c: {"group_id": f"differ-{c.run}", "topics": [one_partition(c)]})
asks("describe_groups", "of commits", lambda c: {"groups": [f"differ-{c.run}"]})
asks("delete_groups", "of commits", lambda c: {"groups_names": [f"differ-{c.run}"]})

# ---- the rest ------------------------------------------------------------------------------------

PRODUCER: Fields = {"transactional_id": None, "transaction_timeout_ms": 60_000}
asks("init_producer_id", "plain", PRODUCER)
asks("init_producer_id", "empty id", {**PRODUCER, "transactional_id": ""})
asks("init_producer_id", "no timeout", {**PRODUCER, "transaction_timeout_ms": 0})
asks("init_producer_id", "negative timeout", {**PRODUCER, "transaction_timeout_ms": -1})
asks("init_producer_id", "with an id", {**PRODUCER, "producer_id": 5, "producer_epoch": 0}, since=3)
asks("init_producer_id", "with an epoch alone", {**PRODUCER, "producer_epoch": 0}, since=3)
asks("init_producer_id", "with an id alone", {**PRODUCER, "producer_id": 5}, since=3)
asks("api_versions", "odd software", {"client_software_name": "a b", "client_software_version": ""}, since=3)
