"""Sessions of groups that change their protocol, classic to consumer and back (KIP-848).

They have the form of those of classic groups in `group_sessions`. Members of the consumer protocol choose
their ids. A topic of twelve partitions divides evenly among up to four members, so there are no odd
partitions that the two servers might give to different members. The assignment interval is zero.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from ottla.groupcoord.classic.consumer_protocol import (
    OwnedTopic,
    Subscription,
    decode_assignment,
    encode_assignment,
)
from ottla.logstore.words import schema_compiler
from ottla.logstore.words.errors import KafkaError
from tests.compat.differential.group_sessions import Session
from tests.compat.wire_client import only

PARTITIONS: Final = 12
REBALANCE_MS: Final = 60_000

Script = Callable[["MigrationSession"], None]
SESSIONS: list[Script] = []


def session(script: Script) -> Script:
    SESSIONS.append(script)
    return script


@dataclass(slots=True)
class MigrationSession:
    """One server's side: the members, with the last generations or epochs that they received."""

    base: Session
    epochs: dict[str, int] = field(default_factory=dict)
    owned: dict[str, list[int]] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        return self.base.topic

    # ---- the consumer protocol -------------------------------------------------------------------

    def consumer_heartbeat(self, member: str, epoch: int | None = None, **fields: Any) -> Any:
        known = self.epochs.get(member, 0) if epoch is None else epoch
        request = {"group_id": self.base.group, "member_id": member, "member_epoch": known}
        found = self.base.ask(member, "consumer_group_heartbeat", **{**request, **fields})
        self.base.answers.append((f"{member} is told", found.error_message))
        if not found.error_code:
            self.epochs[member] = found.member_epoch
            if found.assignment is not None:
                self.owned[member] = [
                    each for one in found.assignment.topic_partitions for each in one.partitions
                ]
        return found

    def consumer_join(self, member: str, **fields: Any) -> Any:
        """Join the group with a complete first heartbeat."""
        request = {
            "epoch": 0,
            "rebalance_timeout_ms": REBALANCE_MS,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": [],
        }
        return self.consumer_heartbeat(member, **{**request, **fields})

    def report_owned(self, member: str, partitions: Sequence[int] | None = None) -> Any:
        """Send a heartbeat that reports the member's partitions: these, or those that it was assigned."""
        found = self.base.quiet("metadata", 12, topics=[{"name": self.topic}])
        numbers = sorted(self.owned[member] if partitions is None else partitions)
        owned = {"topic_id": bytes(only(found.topics).topic_id), "partitions": numbers}
        return self.consumer_heartbeat(member, topic_partitions=[owned] if numbers else [])

    # ---- the classic protocol --------------------------------------------------------------------

    def subscription(
        self, *owned: int, topics: Sequence[str] | None = None, version: int = 3, rack: str | None = None
    ) -> bytes:
        value = Subscription(
            topics=[self.topic] if topics is None else topics,
            owned_partitions=[OwnedTopic(topic=self.topic, partitions=owned)] if owned else [],
            rack_id=rack,
        )
        return schema_compiler.encode_versioned(value, version)

    def assignment(self, *partitions: int, user_data: bytes = b"") -> bytes:
        plain = encode_assignment(1, [(self.topic, partitions)] if partitions else [])
        return plain if not user_data else plain[:-4] + struct.pack(">i", len(user_data)) + user_data

    def send_join(
        self, member: str, *owned: int, protocols: Sequence[str] = ("range",), **fields: Any
    ) -> None:
        metadata = fields.pop("metadata", None) or self.subscription(*owned)
        request = {
            "protocols": [{"name": name, "metadata": metadata} for name in protocols],
            "rebalance_timeout_ms": REBALANCE_MS,
        }
        self.base.send_join(member, **{**request, **fields})

    def receive_join(self, member: str) -> Any:
        found = self.base.answer(member)
        if not found.error_code:
            self.epochs[member] = found.generation_id
        return found

    def join(self, member: str, *owned: int, **fields: Any) -> Any:
        self.send_join(member, *owned, **fields)
        found = self.receive_join(member)
        if found.error_code == 79:
            self.send_join(member, *owned, **{**fields, "member_id": found.member_id})
            found = self.receive_join(member)
        return found

    def sync(self, member: str, given: Mapping[str, bytes] = {}, **fields: Any) -> Any:
        assignments = [
            {"member_id": self.base.member_ids[one], "assignment": content} for one, content in given.items()
        ]
        request = {"generation_id": self.epochs[member], "assignments": assignments}
        found = self.base.sync(member, **{**request, **fields})
        if not found.error_code:
            assigned = _assigned(found.assignment)
            self.owned[member] = assigned
        return found

    def heartbeat(self, member: str, **fields: Any) -> Any:
        return self.base.heartbeat(member, **{"generation_id": self.epochs[member], **fields})

    def commit(self, member: str, partition: int = 0, epoch: int | None = None, **fields: Any) -> Any:
        request = {"generation_id_or_member_epoch": self.epochs[member] if epoch is None else epoch}
        if member not in self.base.member_ids:
            request["member_id"] = member
        return self.base.commit(member, 7, partition=partition, **{**request, **fields})

    def form_classic_group(self, *members: str, **fields: Any) -> None:
        """Form a classic group whose members share the partitions in order; the first member leads."""
        share = PARTITIONS // len(members)
        given: dict[str, bytes] = {}
        for number, member in enumerate(members):
            given[member] = self.assignment(*range(number * share, (number + 1) * share))
        leader, *others = members
        named = {"protocol_name": fields["protocols"][0]} if "protocols" in fields else {}
        self.join(leader, **fields)
        self.sync(leader, {leader: self.assignment(*range(PARTITIONS))}, **named)
        for member in others:
            self.base.begin_join(member, **self.join_request(**fields))
        if others:
            self.base.note_waiting(others[-1])
            self.send_join(leader, member_id=self.base.member_ids[leader], **fields)
            for member in members:
                self.receive_join(member)
            for member in others:
                self.base.send_sync(member, generation_id=self.epochs[member])
            self.sync(leader, given)
            for member in others:
                self.base.answer(member)

    def join_request(self, **fields: Any) -> dict[str, Any]:
        metadata = self.subscription()
        request = {
            "protocols": [{"name": "range", "metadata": metadata}],
            "rebalance_timeout_ms": REBALANCE_MS,
        }
        return {**request, **fields}

    # ---- both ------------------------------------------------------------------------------------

    def describe(self) -> None:
        """Describe the group with each request that can."""
        group = self.base.group
        self.base.describe()
        self.base.ask("admin", "consumer_group_describe", group_ids=[group])
        listed = self.base.quiet("list_groups", 5, states_filter=[], types_filter=[])
        self.base.answers.append(
            ("listed", [(one.group_state, one.group_type) for one in listed.groups if one.group_id == group])
        )

    def logged(self) -> list[tuple[str, Any]]:
        """Return the records; tombstones and neighbours of one kind are sorted, as a hash map orders them."""
        runs = groupby(self.base.logged(), key=lambda record: record[1] is None or record[0].split()[0])
        return [record for _, run in runs for record in sorted(run, key=repr)]


def _assigned(content: bytes) -> list[int]:
    try:
        return [each for one in decode_assignment(content).assigned_partitions for each in one.partitions]
    except KafkaError:
        return []


# ---- up and down ---------------------------------------------------------------------------------


@session
def a_consumer_comes_to_a_classic_group_and_goes(s: MigrationSession) -> None:
    s.form_classic_group("anna", "bert")
    s.commit("anna")
    s.describe()
    s.consumer_join("m1")
    s.describe()
    for member in ("anna", "bert"):
        s.heartbeat(member)
        s.sync(member)
        s.commit(member)
    s.join("anna")
    s.sync("anna")
    s.heartbeat("anna")
    s.commit("anna", epoch=1)
    s.report_owned("m1")
    s.join("bert")
    s.sync("bert")
    s.report_owned("m1")
    s.join("anna")
    s.sync("anna")
    s.describe()
    s.base.leave("bert")  # with two members, either might lead the classic group that follows
    s.consumer_heartbeat("m1", -1)
    s.describe()
    s.commit("anna")
    s.heartbeat("anna")
    s.base.fetch_offsets()
    s.join("anna", member_id=s.base.member_ids["anna"])
    s.sync("anna", {"anna": s.assignment(*range(PARTITIONS))})
    s.describe()


@session
def one_classic_member_meets_one_consumer(s: MigrationSession) -> None:
    s.form_classic_group("anna")
    s.consumer_join("m1")
    s.heartbeat("anna")
    s.join("anna")
    s.sync("anna")
    s.report_owned("m1")
    s.heartbeat("anna")
    s.describe()
    s.base.leave("anna")
    s.report_owned("m1")
    s.describe()
    s.consumer_heartbeat("m1", -1)
    s.describe()
    s.join("anna", member_id="")
    s.sync("anna", {"anna": s.assignment(*range(PARTITIONS))})
    s.describe()
    s.base.leave("anna")
    s.consumer_join("m2")
    s.describe()


@session
def waiting_members_have_to_join_again(s: MigrationSession) -> None:
    s.form_classic_group("anna")
    s.base.begin_join("bert", **s.join_request())
    s.base.note_waiting("bert")
    s.consumer_join(
        "m1", subscribed_topic_names=["other"]
    )  # two new members might share what is free in either way
    s.receive_join("bert")
    s.describe()
    s.join("bert", member_id=s.base.member_ids["bert"])
    s.sync("bert")
    s.heartbeat("anna")


@session
def members_that_wait_for_the_leader_have_to_join_again(s: MigrationSession) -> None:
    s.form_classic_group("anna")
    s.base.begin_join("bert", **s.join_request())
    s.base.note_waiting("bert")
    s.send_join("anna", member_id=s.base.member_ids["anna"])
    s.receive_join("anna")
    s.receive_join("bert")
    s.base.send_sync("bert", generation_id=s.epochs["bert"])
    s.base.note_waiting("bert")
    s.consumer_join("m1", subscribed_topic_names=["other"])
    s.base.answer("bert")
    s.heartbeat("anna")
    s.describe()


@session
def groups_that_cannot_be_upgraded(s: MigrationSession) -> None:
    s.join("anna", metadata=s.subscription())
    for given in (s.assignment(0, user_data=b"x"), b"\0\1\0\0", b"\xff\xff"):
        s.sync("anna", {"anna": given})
        s.consumer_join("m1")
        s.consumer_heartbeat("m1", 3)
        s.consumer_heartbeat("m1", -1)
        s.consumer_heartbeat("m1", -2, instance_id="one")
        s.join("anna", member_id=s.base.member_ids["anna"])
    s.sync("anna", {"anna": s.assignment(0)})
    s.join("anna", member_id=s.base.member_ids["anna"], metadata=b"\0")
    s.sync("anna", {"anna": s.assignment(0)})
    s.consumer_join("m1")
    s.describe()


@session
def a_connect_group_is_not_upgraded(s: MigrationSession) -> None:
    s.join("anna", protocol_type="connect", metadata=b"worker")
    s.sync("anna", {"anna": b"tasks"}, protocol_type="connect")
    s.consumer_join("m1")
    s.heartbeat("anna")


# ---- classic members in consumer groups ----------------------------------------------------------


@session
def a_classic_member_joins_a_consumer_group(s: MigrationSession) -> None:
    s.consumer_join("m1")
    s.send_join("anna")
    s.receive_join("anna")
    s.describe()
    s.join("anna", metadata=s.subscription(rack="r1"))
    s.describe()
    s.sync("anna")
    s.heartbeat("anna")
    s.report_owned("m1", range(PARTITIONS))
    s.heartbeat("anna")
    s.report_owned("m1")
    s.heartbeat("anna")
    s.join("anna")
    s.sync("anna")
    s.heartbeat("anna")
    s.describe()
    mine = s.owned["anna"][0]
    for epoch in (0, -1, 1):
        s.commit("anna", mine, epoch=s.epochs["anna"] + epoch)
    s.base.fetch_offsets()
    s.base.leave("anna")
    s.report_owned("m1")
    s.describe()


@session
def requests_of_a_classic_member_that_are_rejected(s: MigrationSession) -> None:
    s.consumer_join("m1")
    s.join("anna")
    s.sync("anna")
    for fields in (
        {"protocol_type": "connect"},
        {"protocols": ["other"]},
        {"session_timeout_ms": 1},
        {"metadata": b"\0"},
        {"metadata": b"\xff\xff"},
        {"group_instance_id": "one", "member_id": "nobody"},
    ):
        s.send_join("bert", **fields)  # type: ignore[arg-type]
        s.receive_join("bert")
    for fields in (
        {"generation_id": 1},
        {"generation_id": 99},
        {"member_id": "m1"},
        {"member_id": "nobody"},
        {"group_instance_id": "one"},
    ):
        s.heartbeat("anna", **fields)
        s.base.sync("anna", **{"generation_id": s.epochs["anna"], **fields})
    s.sync("anna", protocol_type="connect")
    s.sync("anna", protocol_name="other")
    s.describe()


@session
def members_leave_a_consumer_group_by_the_classic_request(s: MigrationSession) -> None:
    s.consumer_join("m1")
    s.consumer_join("m2", instance_id="two")
    s.join("anna")
    s.join("bert", group_instance_id="three")
    leaving = [
        {"member_id": "nobody"},
        {"member_id": "m1", "group_instance_id": "two"},
        {"member_id": "", "group_instance_id": "none"},
        {"member_id": "", "group_instance_id": "three"},
        {"member_id": s.base.member_ids["anna"]},
        {"member_id": s.base.member_ids["anna"]},
        {"member_id": "m1"},
    ]
    s.base.ask("admin", "leave_group", group_id=s.base.group, members=leaving)
    s.describe()
    s.base.ask("admin", "leave_group", group_id=s.base.group, members=[{"group_instance_id": "two"}])
    s.base.ask("admin", "leave_group", group_id=s.base.group, members=[{"member_id": "m2"}])
    s.heartbeat("anna")
    s.describe()


@session
def a_cooperative_member_revokes_and_joins_again(s: MigrationSession) -> None:
    s.form_classic_group("anna", protocols=["cooperative-sticky"])
    s.consumer_join("m1")
    s.heartbeat("anna")
    s.join("anna", *range(PARTITIONS), protocols=["cooperative-sticky"])
    s.describe()
    s.heartbeat("anna")
    s.sync("anna", protocol_name="cooperative-sticky")
    s.report_owned("m1")
    s.join("anna", *s.owned["anna"], protocols=["cooperative-sticky"])
    s.sync("anna", protocol_name="cooperative-sticky")
    s.heartbeat("anna")
    s.report_owned("m1")
    s.describe()


# ---- static members ------------------------------------------------------------------------------


@session
def static_members_change_their_protocol(s: MigrationSession) -> None:
    s.form_classic_group("anna", group_instance_id="one")
    old = s.base.member_ids["anna"]
    s.consumer_join("m1", instance_id="one")
    s.describe()
    s.heartbeat("anna", group_instance_id="one")
    s.consumer_heartbeat("m1", -2, instance_id="one")
    s.describe()
    s.join("anna", group_instance_id="one", member_id="")
    s.base.ids[old] = "<anna before>"
    s.describe()
    s.sync("anna", group_instance_id="one")
    s.heartbeat("anna", group_instance_id="one")
    s.consumer_join("m2", instance_id="one")
    s.consumer_join("m3", instance_id="one")
    s.join("bert", group_instance_id="one", metadata=s.subscription(topics=["other"]))
    s.describe()
    s.sync("bert", group_instance_id="one")


@session
def a_static_member_takes_the_place_of_another(s: MigrationSession) -> None:
    s.consumer_join("m1", instance_id="one")
    s.join("anna", group_instance_id="two")
    s.sync("anna", group_instance_id="two")
    s.report_owned("m1")
    s.report_owned("m1")  # so that m1 no longer waits for partitions, which a classic group does not remember
    s.join("anna", group_instance_id="two", member_id=s.base.member_ids["anna"])
    s.sync("anna", group_instance_id="two")
    s.heartbeat("anna", group_instance_id="two")
    old = s.base.member_ids["anna"]
    s.join("anna", group_instance_id="two", member_id="")
    s.base.ids[old] = "<anna before>"
    s.heartbeat("anna", group_instance_id="two", member_id=old)
    s.send_join("anna", group_instance_id="two", member_id=old)
    s.base.answer("anna")
    s.describe()
    s.join("bert", group_instance_id="one")
    s.describe()
    s.sync("bert", group_instance_id="one")
    s.heartbeat("anna", group_instance_id="two")
