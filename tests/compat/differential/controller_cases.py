"""Elections, reassignments, features and brokers: the requests of administrators to the controller."""

from typing import Any

from tests.compat.differential.cases import Context, Fields, case

# ---- elections ---------------------------------------------------------------------------------------------


def elect(name: str, kind: int, *topics: tuple[str, list[int]], everything: bool = False) -> None:
    def ask(c: Context) -> Fields:
        request: Any = [
            {"topic": c.topic if topic == "TOPIC" else topic, "partitions": partitions}
            for topic, partitions in topics
        ]
        fields: Fields = {"topic_partitions": None if everything else request, "timeout_ms": 5000}
        if c.version >= 1:
            fields["election_type"] = kind
        return fields

    case("elect_leaders", name, ask)


for number in (0, 1, 2, -1):
    elect(f"type {number}", number, ("TOPIC", [0, 1]))
elect("all", 0, everything=True)
elect("nothing", 0)
elect("no partitions", 0, ("TOPIC", []))
elect("unknown topic", 0, ("nobody", [0]))
elect("unknown partition", 0, ("TOPIC", [7, -1]))
elect("odd names", 1, ("", [0]), ("a/b", [0]))

# ---- reassignments -----------------------------------------------------------------------------------------


def reassign(name: str, *partitions: tuple[int, Any], topic: str = "TOPIC", may_resize: bool = True) -> None:
    def ask(c: Context) -> Fields:
        listed = [
            {
                "partition_index": index,
                "replicas": None
                if replicas is None
                else [c.node if one == "own" else one for one in replicas],
            }
            for index, replicas in partitions
        ]
        fields: Fields = {
            "topics": [{"name": c.topic if topic == "TOPIC" else topic, "partitions": listed}],
            "timeout_ms": 5000,
        }
        if c.version >= 1:
            fields["allow_replication_factor_change"] = may_resize
        return fields

    case("alter_partition_reassignments", name, ask)


reassign("where it is", (0, ["own"]), (1, ["own"]))
reassign("where it is, not resized", (0, ["own"]), may_resize=False)
reassign("to an unknown broker", (0, [99]))
reassign("to an unknown broker too", (0, ["own", 99]))
reassign("to an unknown broker too, not resized", (0, ["own", 99]), may_resize=False)
reassign("to nobody", (0, []))
reassign("to nobody, not resized", (0, []), may_resize=False)
reassign("to one twice", (0, ["own", "own"]))
reassign("to one twice, not resized", (0, ["own", "own"]), may_resize=False)
reassign("to a negative one", (0, [-1]))
reassign("cancel nothing", (0, None))
reassign("unknown partition", (7, ["own"]), (-1, None))
reassign("unknown topic", (0, ["own"]), topic="nobody")
reassign("no name", (0, ["own"]), topic="")
reassign("no partitions")


def listed(name: str, topics: Any) -> None:
    def ask(c: Context) -> Fields:
        request = topics
        if topics is not None:
            request = [
                {"name": c.topic if one == "TOPIC" else one, "partition_indexes": indexes}
                for one, indexes in topics
            ]
        return {"topics": request, "timeout_ms": 5000}

    case("list_partition_reassignments", name, ask)


listed("all", None)
listed("none", [])
listed("one", [("TOPIC", [0, 1])])
listed("unknown", [("nobody", [0]), ("TOPIC", [7, -1])])

# ---- features ----------------------------------------------------------------------------------------------


def features(name: str, *updates: tuple[str, int, int], validate_only: bool = True, since: int = 0) -> None:
    def ask(c: Context) -> Fields:
        listed: list[Fields] = []
        for feature, level, kind in updates:
            fields: Fields = {"feature": feature, "max_version_level": level}
            if c.version >= 1:
                fields["upgrade_type"] = kind
            else:
                fields["allow_downgrade"] = kind != 1
            listed.append(fields)
        request: Fields = {"feature_updates": listed, "timeout_ms": 5000}
        if c.version >= 1:
            request["validate_only"] = validate_only
        return request

    case("update_features", name, ask, since=since)


features("as it is", ("metadata.version", 30, 1))
features("as it is by a downgrade", ("metadata.version", 30, 2))
features("too high", ("metadata.version", 99, 1))
features("negative", ("metadata.version", -1, 1))
features("lower", ("metadata.version", 29, 1))
features("lower safely", ("metadata.version", 29, 2))
features("lower unsafely", ("metadata.version", 29, 3))
features("an odd type", ("metadata.version", 30, 9))
features("unknown", ("nonsense", 1, 1))
features("unknown at 0", ("nonsense", 0, 1))
features("without a name", ("", 1, 1))
features("group.version too high", ("group.version", 2, 1))
features("group.version lower", ("group.version", 0, 1))
# In version 0 Apache Kafka lowers no level, whether or not the request allows it.
features("group.version lower safely", ("group.version", 0, 2), since=1)
features("group.version as it was", ("group.version", 1, 1), validate_only=False)
features("two, one bad", ("metadata.version", 30, 1), ("nonsense", 1, 1))
features("nothing")

# ---- brokers -----------------------------------------------------------------------------------------------

case("unregister_broker", "unknown", lambda c: {"broker_id": 99})
case("unregister_broker", "negative", lambda c: {"broker_id": -1})
