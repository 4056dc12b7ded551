"""Sessions of share groups (KIP-932), in the form of those of classic groups in `group_sessions`.

Members choose their own ids, so ids are the same on both servers. The assignment also depends on the ids of
topics; the topics of the sessions have ids for which the assignor takes the partitions in their order. The
share coordinators initialize the states of partitions in the background: a session waits, without comparing
anything, until all states exist, and then for the assignment interval.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from tests.compat.differential.group_sessions import Session
from tests.compat.wire_client import WireClient, eventually, only

ASSIGNMENT_INTERVAL_S: Final = 1.0
SHARE_VERSIONS: Final = {
    "share_group_heartbeat": 1,
    "share_group_describe": 1,
    "describe_share_group_offsets": 1,
    "alter_share_group_offsets": 0,
    "delete_share_group_offsets": 0,
}

ShareScript = Callable[["ShareSession"], None]


@dataclass(slots=True)
class ShareSession:
    """One server's side: the members, with the last epochs that they received."""

    base: Session
    second: str  # a topic of two partitions; that of the session has three
    epochs: dict[str, int] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return self.base.group

    @property
    def topic(self) -> str:
        return self.base.topic

    # ---- requests --------------------------------------------------------------------------------

    def ask(self, member: str, api: str, **fields: Any) -> Any:
        return self.base.ask(member, api, **fields)

    def raw(self, member: str, **fields: Any) -> Any:
        """Send a heartbeat of the group with exactly these fields."""
        return self.ask(member, "share_group_heartbeat", **{"group_id": self.group, **fields})

    def heartbeat(self, member: str, **fields: Any) -> Any:
        """Send a heartbeat with the member's current epoch."""
        found = self.raw(
            member, **{"member_id": member, "member_epoch": self.epochs.get(member, 0), **fields}
        )
        if not found.error_code:
            self.epochs[member] = found.member_epoch
        return found

    def join(self, member: str, *names: str, **fields: Any) -> Any:
        request = {"member_epoch": 0, "subscribed_topic_names": list(names) if names else [self.topic]}
        return self.heartbeat(member, **{**request, **fields})

    def leave(self, member: str) -> Any:
        return self.raw(member, member_id=member, member_epoch=-1)

    def describe(self) -> Any:
        return self.ask("admin", "share_group_describe", group_ids=[self.group])

    def offsets(self, *topics: tuple[str, Sequence[int]]) -> Any:
        """Describe the start offsets of the group in these topics, or in all."""
        wanted = [{"topic_name": name, "partitions": list(numbers)} for name, numbers in topics]
        group = {"group_id": self.group, "topics": wanted or None}
        return self.ask("admin", "describe_share_group_offsets", groups=[group])

    def alter(self, *topics: tuple[str, dict[int, int]]) -> Any:
        wanted = [
            {
                "topic_name": name,
                "partitions": [
                    {"partition_index": number, "start_offset": offset} for number, offset in starts.items()
                ],
            }
            for name, starts in topics
        ]
        return self.ask("admin", "alter_share_group_offsets", group_id=self.group, topics=wanted)

    def delete_offsets(self, *names: str) -> Any:
        topics = [{"topic_name": name} for name in names]
        return self.ask("admin", "delete_share_group_offsets", group_id=self.group, topics=topics)

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        """Note how ListGroups lists this group."""
        with WireClient(self.base.bootstrap, client_id="admin") as client:
            found = client.call("list_groups", 5, states_filter=list(states), types_filter=list(types)).groups
        listed = [
            (one.protocol_type, one.group_state, one.group_type)
            for one in found
            if one.group_id == self.group
        ]
        self.base.answers.append((f"list {states} {types}", [list(one) for one in listed]))

    # ---- what is not compared --------------------------------------------------------------------

    def wait_until_initialized(self, **partitions: int) -> None:
        """Wait until these numbers of partitions are initialized, and a new target may be computed."""

        def look() -> dict[str, int]:
            with WireClient(self.base.bootstrap) as client:
                request = [{"group_id": self.group, "topics": None}]
                group = only(client.call("describe_share_group_offsets", 1, groups=request).groups)
            return {one.topic_name: len(one.partitions) for one in group.topics}

        names = {"first": self.topic, "second": self.second}
        wanted = {names[name]: count for name, count in partitions.items()}
        found = eventually(look, lambda listing: listing == wanted)
        assert found == wanted, found
        time.sleep(ASSIGNMENT_INTERVAL_S)

    def pause(self) -> None:
        """Wait until a new target may be computed."""
        time.sleep(ASSIGNMENT_INTERVAL_S)

    # ---- what is compared ------------------------------------------------------------------------

    def logged(self) -> list[tuple[str, Any]]:
        """Return the records in their order; neighbours of one kind are sorted by key."""
        found: list[tuple[str, Any]] = []
        records = eventually(self.base.logged, is_initialized)
        for _, same in groupby(records, key=lambda one: (one[0].split()[0], one[1] is None)):
            found += sorted(same, key=lambda one: one[0])
        # Kafka also writes states that have not changed, and target topics without any partition.
        written = [(key, without_empty(value)) for key, value in found]
        return [one for place, one in enumerate(written) if place == 0 or one != written[place - 1]]


def is_initialized(records: Sequence[tuple[str, Any]]) -> bool:
    """Return True if no state of a partition is left to initialize, by the last record about it."""
    values = [value for key, value in records if key.startswith("ShareGroupStatePartitionMetadata")]
    return not (values and values[-1] and values[-1]["initializing_topics"])


def without_empty(value: Any) -> Any:
    """Return a target assignment without the topics of which it has no partition."""
    if not isinstance(value, dict) or "topic_partitions" not in value:
        return value
    return {"topic_partitions": [one for one in value["topic_partitions"] if one["partitions"]]}


SHARE_SESSIONS: list[ShareScript] = []


def share_session(script: ShareScript) -> ShareScript:
    SHARE_SESSIONS.append(script)
    return script


# ---- the sessions --------------------------------------------------------------------------------


@share_session
def one_member_from_join_to_delete(s: ShareSession) -> None:
    s.describe()
    s.heartbeat("anna", member_epoch=5)
    s.leave("anna")
    s.join("anna")
    s.describe()
    s.wait_until_initialized(first=3)
    s.heartbeat("anna")
    s.describe()
    s.heartbeat("anna")
    s.heartbeat("anna", subscribed_topic_names=[s.topic])
    s.heartbeat("anna", member_epoch=s.epochs["anna"] + 1)
    s.heartbeat("anna", member_epoch=s.epochs["anna"] - 1)
    s.heartbeat("anna", member_epoch=1)
    s.heartbeat("anna", member_id="nobody", member_epoch=1)
    s.heartbeat("anna", member_id="nobody", member_epoch=-1)
    s.heartbeat("anna", rack_id="r1")
    s.describe()
    s.join("anna")
    s.base.delete()
    s.leave("anna")
    s.describe()
    s.base.delete()
    s.base.delete()
    s.describe()


@share_session
def invalid_heartbeats(s: ShareSession) -> None:
    s.join("anna", member_id="")
    s.join("anna", member_id=" ")
    s.join("anna", member_id="m" * 37)
    s.join("anna", member_id="m" * 36)
    s.wait_until_initialized(first=3)
    s.join("anna", group_id="")
    s.join("anna", group_id=" ")
    s.join("anna", rack_id="")
    s.join("anna", subscribed_topic_names=None)
    s.join("anna", subscribed_topic_names=[])
    s.heartbeat("anna", member_epoch=-2)
    s.ask("admin", "share_group_describe", group_ids=["", s.group])


@share_session
def members_share_partitions(s: ShareSession) -> None:
    s.join("anna")
    s.wait_until_initialized(first=3)
    s.heartbeat("anna")
    for member in ("bert", "carl", "dora", "emil"):
        s.pause()
        s.join(member)
        s.describe()
    for member in ("anna", "bert", "carl", "dora", "emil"):
        s.heartbeat(member)
    s.describe()
    s.leave("bert")
    s.pause()
    for member in ("anna", "carl", "dora", "emil"):
        s.heartbeat(member)
    s.describe()
    s.leave("dora")
    s.leave("emil")
    s.pause()
    for member in ("anna", "carl"):
        s.heartbeat(member)
    s.describe()


@share_session
def members_of_different_topics(s: ShareSession) -> None:
    s.join("anna", s.topic, s.second)
    s.wait_until_initialized(first=3, second=2)
    s.heartbeat("anna")
    s.pause()
    s.join("bert", s.second)
    s.pause()
    s.heartbeat("anna")
    s.describe()
    s.heartbeat("anna", subscribed_topic_names=[s.topic])
    s.describe()
    s.pause()
    s.heartbeat("bert")
    s.heartbeat("anna")
    s.describe()
    s.heartbeat("bert", subscribed_topic_names=["no-such-topic"])
    s.pause()
    s.heartbeat("anna")
    s.describe()


@share_session
def offsets_are_described_altered_and_deleted(s: ShareSession) -> None:
    s.offsets()
    s.offsets((s.topic, [0, 7]), ("no-such-topic", [0]))
    s.delete_offsets(s.topic)
    s.alter((s.topic, {0: 0, 2: 0, 7: 5}), ("no-such-topic", {0: 1}))
    s.offsets()
    s.offsets((s.topic, [0, 1, 2]), (s.second, [0]))
    s.describe()
    s.list_groups()
    s.delete_offsets(s.second)
    s.join("anna", s.topic)
    s.wait_until_initialized(first=3)
    s.alter((s.topic, {0: 0}))
    s.delete_offsets(s.topic)
    s.offsets()
    s.leave("anna")
    s.alter((s.topic, {1: 0}), (s.second, {0: 0}))
    s.offsets()
    s.delete_offsets(s.topic, "no-such-topic", s.second)
    s.delete_offsets(s.topic)
    s.offsets()
    s.base.delete()
    s.offsets()


@share_session
def a_share_group_is_listed(s: ShareSession) -> None:
    s.list_groups()
    s.join("anna")
    s.wait_until_initialized(first=3)
    s.list_groups()
    s.list_groups(["stable"])
    s.list_groups(["Empty"])
    s.list_groups([], ["share"])
    s.list_groups([], ["Share", "classic"])
    s.list_groups([], ["consumer"])
    s.list_groups(["STABLE"], ["SHARE"])
    s.leave("anna")
    s.list_groups(["empty"], ["share"])
    s.list_groups(["stable"], ["share"])


@share_session
def other_protocols_meet_a_share_group(s: ShareSession) -> None:
    s.join("anna")
    s.wait_until_initialized(first=3)
    for _ in range(2):  # with a member, and without
        s.base.describe()
        s.ask("admin", "consumer_group_describe", group_ids=[s.group])
        s.base.join("bert")
        s.base.heartbeat("bert")
        s.base.sync("bert")
        s.ask("bert", "leave_group", group_id=s.group, members=[{"member_id": "b"}])
        s.ask(
            "bert",
            "consumer_group_heartbeat",
            group_id=s.group,
            member_id="bert",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[s.topic],
            topic_partitions=[],
        )
        s.ask("bert", "consumer_group_heartbeat", group_id=s.group, member_id="bert", member_epoch=1)
        s.ask("bert", "consumer_group_heartbeat", group_id=s.group, member_id="bert", member_epoch=-1)
        s.base.commit("bert", 5)
        s.base.commit_from_outside(5)
        s.base.fetch_offsets()
        s.ask("admin", "offset_delete", group_id=s.group, topics=[])
        if "anna" in s.epochs:
            s.leave("anna")
            del s.epochs["anna"]


@share_session
def a_share_member_meets_other_groups(s: ShareSession) -> None:
    s.base.commit_from_outside(5)
    for _ in range(3):  # a group that only has offsets, a classic group, a consumer group
        s.join("anna")
        s.heartbeat("anna", member_epoch=1)
        s.leave("anna")
        s.describe()
        s.alter((s.topic, {0: 0}))
        s.delete_offsets(s.topic)
        s.offsets()
        if not s.base.member_ids:
            s.base.join("bert")
            s.base.sync("bert", "bert")
            continue
        s.base.leave("bert")
        s.base.delete()
        s.ask(
            "bert",
            "consumer_group_heartbeat",
            group_id=s.group,
            member_id="bert",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[s.topic],
            topic_partitions=[],
        )
