"""Groups, their offsets, and producer ids."""

from functools import partial
from typing import Any

from tests.compat.differential.cases import Context, Fields, case

for kind in (0, 2, 3, -1):
    for key in ("differ-group", ""):

        def find(c: Context, kind: int = kind, key: str = key) -> Fields:
            request: Fields = {"key_type": kind} if c.version >= 1 else {}
            return {**request, **({"coordinator_keys": [key, key]} if c.version >= 4 else {"key": key})}

        case("find_coordinator", f"type {kind} key {key or 'empty'}", find, since=1 if kind else 0)
case("find_coordinator", "no keys", {"coordinator_keys": []}, since=4)

JOIN: Fields = {
    "session_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"\0\0"}],
}


def join(name: str, since: int = 0, **fields: Any) -> None:
    def ask(c: Context) -> Fields:
        request = {"group_id": c.fresh(f"join-{name}"), "member_id": "", **JOIN, **fields}
        return {**request, **({"rebalance_timeout_ms": 10_000} if c.version >= 1 else {})}

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


def one_partition(c: Context) -> Fields:
    return {"name": c.topic, "partitions": [{"partition_index": 0}, {"partition_index": 9}]}


def deleting(group: str, c: Context) -> Fields:
    return {"group_id": group, "topics": [one_partition(c)]}


for group in ("no-such-group", ""):
    label = group or "empty"
    case("heartbeat", label, {"group_id": group, "generation_id": 1, "member_id": "x"})
    case("heartbeat", f"{label} nobody", {"group_id": group, "generation_id": -1, "member_id": ""})
    case("sync_group", label, {"group_id": group, "generation_id": 1, "member_id": "x", "assignments": []})
    case("leave_group", label, {"group_id": group, "member_id": "x"}, until=2)
    case("leave_group", f"{label} many", {"group_id": group, "members": [{"member_id": "x"}] * 2}, since=3)
    case("leave_group", f"{label} none", {"group_id": group, "members": []}, since=3)
    case("describe_groups", label, {"groups": [group]})
    case("describe_groups", f"{label} twice", {"groups": [group, group]})
    case("delete_groups", label, {"groups_names": [group]})
    case("offset_fetch", f"{label} all", {"group_id": group, "topics": None}, since=2, until=7)
    case("offset_fetch", f"{label} groups", {"groups": [{"group_id": group, "topics": None}]}, since=8)
    case("offset_fetch", f"{label} twice", {"groups": [{"group_id": group, "topics": None}] * 2}, since=8)
    case("offset_delete", label, partial(deleting, group))
case("describe_groups", "nothing", {"groups": []})
case("describe_groups", "operations", {"groups": ["x"], "include_authorized_operations": True}, since=3)
case("delete_groups", "nothing", {"groups_names": []})
case("list_groups", "odd state", {"states_filter": ["Sleepy"]}, since=4)
case("list_groups", "odd type", {"types_filter": ["sleepy"]}, since=5)


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
case("offset_delete", "committed", lambda c: {"group_id": f"differ-{c.run}", "topics": [one_partition(c)]})
case("describe_groups", "of commits", lambda c: {"groups": [f"differ-{c.run}"]})
case("delete_groups", "of commits", lambda c: {"groups_names": [f"differ-{c.run}"]})

PRODUCER: Fields = {"transactional_id": None, "transaction_timeout_ms": 60_000}
case("init_producer_id", "plain", PRODUCER)
case("init_producer_id", "empty id", {**PRODUCER, "transactional_id": ""})
case("init_producer_id", "no timeout", {**PRODUCER, "transaction_timeout_ms": 0})
case("init_producer_id", "negative timeout", {**PRODUCER, "transaction_timeout_ms": -1})
case("init_producer_id", "with an id", {**PRODUCER, "producer_id": 5, "producer_epoch": 0}, since=3)
case("init_producer_id", "with an epoch alone", {**PRODUCER, "producer_epoch": 0}, since=3)
case("init_producer_id", "with an id alone", {**PRODUCER, "producer_id": 5}, since=3)
case("api_versions", "odd software", {"client_software_name": "a b", "client_software_version": ""}, since=3)
