"""Topics, partitions, configurations and log directories."""

from typing import Any

from tests.compat.differential.cases import BROKER, GROUP, TOPIC, UNKNOWN_ID, Context, Fields, case


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
case(
    "create_topics",
    "names that collide",
    lambda c: {
        "topics": [
            {"name": c.fresh(word), "num_partitions": 1, "replication_factor": 1}
            for word in ("both.new", "both_new")
        ],
        "timeout_ms": 5000,
        "validate_only": False,
    },
)
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
create("assigned to an unknown broker", {**ASSIGNED, "assignments": [(0, [99])]})
create("assigned to one twice", {**ASSIGNED, "assignments": [(0, ["own", "own"])]})
create("assigned negative", {**ASSIGNED, "assignments": [(-1, ["own"])]})
VALUES: dict[str, tuple[str | None, ...]] = {
    "retention.ms": ("1", "-1", "-2", "soon", "", None, "9223372036854775808"),
    "cleanup.policy": ("compact", "compact,delete", "none", "", "remove", " compact "),
    "compression.type": ("zstd", "lz5", "producer"),
    "segment.bytes": ("1048576", "1000", "-1", "3000000000"),
    "internal.segment.bytes": ("1000", "1048576"),
    "min.insync.replicas": ("1", "0", "7"),
    "message.timestamp.type": ("LogAppendTime", "Never"),
    "unclean.leader.election.enable": ("true", "maybe", "TRUE"),
    "min.cleanable.dirty.ratio": ("0.5", "1.5", "half"),
    "no.such.config": ("1",),
    "leader.replication.throttled.replicas": ("*", "0:1", "x"),
    "remote.storage.enable": ("true",),
    "max.message.bytes": ("0", "-1"),
    "message.format.version": ("3.0",),
}
for key, choices in VALUES.items():
    for choice in choices:
        create(f"with {key} {choice}", config(key, choice))
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
grow("assigned to an unknown broker", 3, brokers=[[99]])
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
alter("broker append", ("log.retention.ms", 2, "7"), kind=BROKER, resource="OWN", validate_only=True)
alter("broker append wrong", ("log.cleanup.policy", 2, "no"), kind=BROKER, resource="", validate_only=True)
alter("broker delete read-only", ("broker.id", 1, None), kind=BROKER, resource="OWN", validate_only=True)
alter("broker delete unknown", ("no.such", 1, None), kind=BROKER, resource="", validate_only=True)
for pool, sizes in (("log.cleaner.threads", "0123"), ("num.replica.fetchers", "0123")):
    for size in sizes:
        alter(f"broker {pool} {size}", (pool, 0, size), kind=BROKER, resource="", validate_only=True)
INTERVAL = "group.consumer.assignment.interval.ms"
alter("broker wrong interval", (INTERVAL, 0, "20000"), kind=BROKER, resource="", validate_only=True)
alter("broker interval", (INTERVAL, 0, "2000"), kind=BROKER, resource="", validate_only=True)
SESSION = "consumer.session.timeout.ms"
alter("group read-only", (f"group.{SESSION}", 0, "50000"), kind=BROKER, resource="", validate_only=True)
for name, value in (
    (SESSION, "50000"),
    (SESSION, "1"),
    (SESSION, "60001"),
    (SESSION, "soon"),
    ("consumer.heartbeat.interval.ms", "6000"),
    ("consumer.heartbeat.interval.ms", "0"),
    ("consumer.heartbeat.interval.ms", "15001"),
    ("consumer.assignment.interval.ms", "0"),
    ("consumer.assignment.interval.ms", "-1"),
    ("consumer.assignment.interval.ms", "15001"),
    ("consumer.assignor.offload.enable", "true"),
    ("share.auto.offset.reset", "by_duration:PT1H"),
    ("share.auto.offset.reset", "by_duration:-PT1H"),
    ("share.isolation.level", "read_committed"),
    ("share.record.lock.duration.ms", "70000"),
    ("share.delivery.count.limit", "11"),
    ("streams.num.standby.replicas", "3"),
    ("streams.initial.rebalance.delay.ms", "999999"),
):
    alter(f"group {name}={value}", (name, 0, value), kind=GROUP, resource="differ-config")
alter("group empty", (SESSION, 0, "50000"), kind=GROUP, resource="")
alter("group append", (SESSION, 2, "1"), kind=GROUP, resource="differ-config")
alter("group delete unknown", ("no.such", 1, None), kind=GROUP, resource="differ-config")
describe("group after changes", GROUP, "differ-config", include_synonyms=True, include_documentation=True)
alter("group delete", (SESSION, 1, None), kind=GROUP, resource="differ-config")
describe("group", GROUP, "differ-config-not-there", include_synonyms=True)
describe("group empty", GROUP, "")
describe("group after deleting", GROUP, "differ-config", [SESSION], include_synonyms=True)
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
# Not the same resource twice: Apache Kafka 4.3.1 never answers that.
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
