"""Sessions of groups: members send requests to a server in a fixed order, and its responses and log are kept.

A session is a plain function of a `Session`. It runs against both servers, with requests of three ages; then
the transcripts and the records in `__consumer_offsets` are compared. Member ids become the names of their
members, and times become "given", since a server chooses those itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.groupcoord.record_codec import decode_record
from ottla.logstore.record import iterate_records
from ottla.logstore.record_batch import iterate_headers
from ottla.node.coordinators.key_partition import partition_for
from tests.compat.wire_client import WireClient, only, plain

OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSETS_PARTITIONS: Final = 50
FETCH_VERSION: Final = 12  # the last one that names topics
SESSION_TIMEOUT_MS: Final = 30_000

# The versions of requests that clients of an age send. Ages differ wherever the shape of a request does.
VERSIONS: Final[dict[str, dict[str, int]]] = {
    "old": {
        "join_group": 2,
        "sync_group": 1,
        "heartbeat": 1,
        "leave_group": 1,
        "offset_commit": 4,
        "offset_fetch": 3,
        "describe_groups": 2,
        "list_groups": 1,
        "delete_groups": 1,
        "consumer_group_heartbeat": 0,
        "consumer_group_describe": 0,
    },
    "middle": {
        "join_group": 5,
        "sync_group": 3,
        "heartbeat": 3,
        "leave_group": 3,
        "offset_commit": 7,
        "offset_fetch": 7,
        "describe_groups": 4,
        "list_groups": 4,
        "delete_groups": 2,
    },
    "new": {
        "join_group": 9,
        "sync_group": 5,
        "heartbeat": 4,
        "leave_group": 5,
        "offset_commit": 9,
        "offset_fetch": 9,
        "describe_groups": 6,
        "list_groups": 5,
        "delete_groups": 2,  # 3 is newer than the reference
        "consumer_group_heartbeat": 1,
        "consumer_group_describe": 1,
    },
}
# Times, versions of the metadata, and a hash that only the server that computed it compares
# (groupcoord/DESIGN.md D15).
OWN: Final = {
    "commit_timestamp",
    "current_state_timestamp",
    "expire_timestamp",
    "assignment_timestamp",
    "timestamp",
    "version",
    "metadata_hash",
}
UNCOMPARED: Final = {"throttle_time_ms"}

Script = Callable[["Session"], None]


@dataclass(slots=True)
class Session:
    """One server's side of a session: its clients, and the responses so far."""

    bootstrap: str
    group: str
    topic: str
    age: str
    answers: list[tuple[str, Any]] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)  # member id -> name
    member_ids: dict[str, str] = field(default_factory=dict)  # name -> its newest member id
    topics: dict[bytes, str] = field(default_factory=dict)  # topic id -> name, of deleted topics too
    generation: int = -1
    _clients: dict[str, WireClient] = field(default_factory=dict)
    _awaited: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    @property
    def versions(self) -> dict[str, int]:
        return VERSIONS[self.age]

    # ---- requests --------------------------------------------------------------------------------

    def send(self, member: str, api: str, **fields: Any) -> None:
        """Send a request without waiting; `answer` waits for the response."""
        if member not in self._clients:
            self._clients[member] = WireClient(self.bootstrap, client_id=member)
        version = self.versions.get(api, 0)
        correlation_id = self._clients[member].send(api, version, **fields)
        self._awaited[member] = (api, version, correlation_id)

    def answer(self, member: str) -> Any:
        api, version, correlation_id = self._awaited.pop(member)
        found = self._clients[member].receive(api, version, correlation_id)
        if api == "join_group" and found.member_id:
            self.ids[found.member_id] = f"<{member}>"
            self.member_ids[member] = found.member_id
            if not found.error_code:
                self.generation = found.generation_id
        self.answers.append((f"{member}: {api}", plain(found, version)))
        return found

    def ask(self, member: str, api: str, **fields: Any) -> Any:
        self.send(member, api, **fields)
        return self.answer(member)

    def quiet(self, api: str, version: int, **fields: Any) -> Any:
        """Send a request whose response is not noted."""
        with WireClient(self.bootstrap, client_id="aside") as client:
            return client.call(api, version, **fields)

    def note_waiting(self, member: str) -> None:
        """Note whether the response is still outstanding."""
        self.answers.append((f"{member} waits", self._clients[member].is_silent()))

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    # ---- the requests of members -----------------------------------------------------------------

    def send_join(self, member: str, **fields: Any) -> None:
        request = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "rebalance_timeout_ms": SESSION_TIMEOUT_MS,
            "member_id": self.member_ids.get(member, ""),
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        }
        self.send(member, "join_group", **{**request, **fields})

    def join(self, member: str, **fields: Any) -> Any:
        """Join and wait; if the server first returns a member id (KIP-394), join again with it."""
        self.send_join(member, **fields)
        found = self.answer(member)
        if found.error_code == 79:
            self.send_join(member, **{**fields, "member_id": found.member_id})
            found = self.answer(member)
        return found

    def begin_join(self, member: str, **fields: Any) -> None:
        """Join as `join` does, but do not wait for the response that other members hold up."""
        if self.versions["join_group"] >= 4 and "group_instance_id" not in fields:
            self.send_join(member, **fields)
            assert self.answer(member).error_code == 79
        self.send_join(member, **fields)

    def send_sync(self, member: str, *assigned: str, **fields: Any) -> None:
        """Send SyncGroup; the leader names the members in `assigned`, each of which gets an assignment."""
        assignments = [{"member_id": self.member_ids[one], "assignment": one.encode()} for one in assigned]
        request = {"assignments": assignments, **self.of_member(member)}
        if self.versions["sync_group"] >= 5:
            request |= {"protocol_type": "consumer", "protocol_name": "range"}
        self.send(member, "sync_group", **{**request, **fields})

    def sync(self, member: str, *assigned: str, **fields: Any) -> Any:
        self.send_sync(member, *assigned, **fields)
        return self.answer(member)

    def heartbeat(self, member: str, **fields: Any) -> Any:
        return self.ask(member, "heartbeat", **{**self.of_member(member), **fields})

    def of_member(self, member: str) -> dict[str, Any]:
        member_id = self.member_ids.get(member, "nobody")
        return {"group_id": self.group, "generation_id": self.generation, "member_id": member_id}

    def leave(self, member: str) -> Any:
        member_id = self.member_ids[member]
        if self.versions["leave_group"] >= 3:
            return self.ask(member, "leave_group", group_id=self.group, members=[{"member_id": member_id}])
        return self.ask(member, "leave_group", group_id=self.group, member_id=member_id)

    def commit(
        self, member: str, offset: int, *, partition: int = 0, metadata: str = "", **fields: Any
    ) -> Any:
        one = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        of_member = self.of_member(member)
        request = {
            "group_id": self.group,
            "generation_id_or_member_epoch": of_member["generation_id"],
            "member_id": of_member["member_id"],
            "topics": [{"name": self.topic, "partitions": [one]}],
        }
        return self.ask(member, "offset_commit", **{**request, **fields})

    def commit_from_outside(self, offset: int, **fields: Any) -> Any:
        return self.commit("outsider", offset, generation_id_or_member_epoch=-1, member_id="", **fields)

    def fetch_offsets(self) -> Any:
        if self.versions["offset_fetch"] >= 8:
            return self.ask("admin", "offset_fetch", groups=[{"group_id": self.group, "topics": None}])
        return self.ask("admin", "offset_fetch", group_id=self.group, topics=None)

    def describe(self) -> Any:
        return self.ask("admin", "describe_groups", groups=[self.group])

    def delete(self) -> Any:
        return self.ask("admin", "delete_groups", groups_names=[self.group])

    # ---- what is compared ------------------------------------------------------------------------

    def learn_topics(self) -> None:
        """Learn the ids of all topics that exist now."""
        found = self.quiet("metadata", 12, topics=None)
        self.topics |= {bytes(one.topic_id): one.name for one in found.topics}

    def transcript(self) -> list[tuple[str, Any]]:
        """Return all responses in their order, normalised at the end, when each member has a name."""
        return [(label, self.normal(found)) for label, found in self.answers]

    def normal(self, value: Any, name: str = "") -> Any:
        """Return a value without what the server chooses itself, with members and topics in a fixed order."""
        if isinstance(value, dict):
            kept = {key: self.normal(one, key) for key, one in value.items() if key not in UNCOMPARED}
            epochs = value.get("assignment_epochs")
            if epochs:  # each epoch belongs to the partition at the same index
                kept["partitions"] = sorted(zip(value["partitions"], epochs, strict=True))
                del kept["assignment_epochs"]
            return kept
        if isinstance(value, list):
            return sorted((self.normal(one) for one in value), key=repr)
        if isinstance(value, str):
            return self.ids.get(value, value)
        if isinstance(value, bytes):
            return self.topics.get(value, value)
        if name in OWN and isinstance(value, int) and value not in (0, -1):
            return "given"
        return value

    def logged(self) -> list[tuple[str, Any]]:
        """Return the records of the group in `__consumer_offsets`, in their order.

        Kafka also logs a new group at its first join, before it has a member. That record is left out:
        nothing is lost without it.
        """
        with WireClient(self.bootstrap) as client:
            number = partition_for(self.group, OFFSETS_PARTITIONS)
            wanted = {"partition": number, "fetch_offset": 0, "partition_max_bytes": 1 << 24}
            topics = [{"topic": OFFSETS_TOPIC, "partitions": [wanted]}]
            answer = client.call("fetch", FETCH_VERSION, max_bytes=1 << 24, max_wait_ms=0, topics=topics)
        data = only(only(answer.responses).partitions)
        assert data.error_code == 0, data
        return [
            one
            for one in self._records_in(memoryview(data.records or b""))
            if not _is_record_of_new_group(one[1])
        ]

    def _records_in(self, view: memoryview) -> Iterator[tuple[str, Any]]:
        for start, header in iterate_headers(view):
            if header.is_control:
                continue  # markers of transactions
            for record in iterate_records(view[start : start + header.size_bytes]):
                found = decode_record(record.key or b"", record.value)
                if found is None or found.group_id != self.group:
                    continue
                key = self.normal(list(found[:-1]))
                value = found.value
                version = int.from_bytes((record.value or b"\0\0")[:2])
                yield (
                    f"{type(found).__name__} {key} v{version}",
                    None if value is None else self.normal(plain(value, version)),
                )


def _is_record_of_new_group(value: Any) -> bool:
    return value is not None and value.get("generation") == 0 and not value.get("protocol_type")


# ---- the sessions --------------------------------------------------------------------------------

SESSIONS: list[tuple[str, Script]] = []
STATIC: Final = {"middle", "new"}  # JoinGroup has static members since version 5


def session(script: Script) -> Script:
    SESSIONS.append((script.__name__.replace("_", " "), script))
    return script


@session
def one_member_from_join_to_delete(s: Session) -> None:
    s.describe()
    s.join("anna")
    s.describe()
    s.sync("anna", "anna")
    s.describe()
    s.heartbeat("anna")
    s.heartbeat("anna", generation_id=s.generation + 1)
    s.heartbeat("anna", member_id="nobody")
    s.commit("anna", 5, metadata="note")
    s.commit("anna", 6, generation_id_or_member_epoch=s.generation - 1)
    s.commit("anna", 7, member_id="nobody")
    s.commit_from_outside(8)
    s.fetch_offsets()
    s.delete()
    s.leave("anna")
    s.heartbeat("anna")
    s.leave("anna")
    s.describe()
    s.commit_from_outside(9)
    s.fetch_offsets()
    s.delete()
    s.delete()
    s.describe()
    s.fetch_offsets()


@session
def a_second_member_joins_and_the_first_leaves(s: Session) -> None:
    s.join("anna")
    s.sync("anna", "anna")
    s.begin_join("bert")
    s.note_waiting("bert")
    s.describe()
    s.heartbeat("anna")
    s.commit("anna", 3)
    s.sync("anna", "anna")
    s.send_join("anna")
    s.answer("anna")
    s.answer("bert")
    s.commit("anna", 4)
    s.heartbeat("anna")
    s.send_sync("bert")
    s.note_waiting("bert")
    s.describe()
    s.sync("anna", "anna", "bert")
    s.answer("bert")
    s.describe()
    s.sync("bert")
    s.commit("bert", 5, partition=1)
    s.leave("anna")
    s.heartbeat("bert")
    s.join("bert")
    s.sync("bert", "bert")
    s.fetch_offsets()
    s.describe()
    s.leave("bert")


@session
def members_join_again(s: Session) -> None:
    s.join("anna")
    s.sync("anna", "anna")
    s.join("anna")  # the leader with the same protocols: a new generation
    s.sync("anna", "anna")
    s.begin_join("bert")
    s.note_waiting("bert")
    s.send_join("anna")
    s.answer("anna")
    s.answer("bert")
    s.join("bert")  # a follower that has not received its response: the same one again
    s.send_sync("bert")
    s.sync("anna", "anna", "bert")
    s.answer("bert")
    s.join("bert")  # a follower with the same protocols: nothing changes
    s.heartbeat("anna")
    s.send_join("bert", protocols=[{"name": "range", "metadata": b"other"}])
    s.note_waiting("bert")
    s.heartbeat("anna")
    s.send_join("anna")
    s.answer("anna")
    s.answer("bert")
    s.describe()


@session
def protocols_are_voted_for(s: Session) -> None:
    both = [{"name": "range", "metadata": b"r"}, {"name": "roundrobin", "metadata": b"rr"}]
    s.join("anna", protocols=both)
    s.sync("anna", "anna")
    s.begin_join("bert", protocols=both[::-1])
    s.note_waiting("bert")
    s.send_join("anna", protocols=both)
    s.answer("anna")
    s.answer("bert")
    s.join("carl", protocols=[{"name": "sticky", "metadata": b""}])
    s.join("carl", protocol_type="connect")
    s.begin_join("carl", protocols=both[1:])
    s.note_waiting("carl")
    s.send_join("anna", protocols=both)
    s.send_join("bert", protocols=both)
    for member in ("anna", "bert", "carl"):
        s.answer(member)
    named = {"protocol_name": "roundrobin"} if s.versions["sync_group"] >= 5 else {}
    if named:
        s.sync("carl", protocol_name="range")
        s.sync("carl", protocol_type="connect", **named)
    s.send_sync("carl", **named)
    s.send_sync("bert", **named)
    s.sync("anna", "anna", "carl", **named)
    s.answer("bert")
    s.answer("carl")
    s.describe()


# The bytes of ConnectProtocol and IncrementalCooperativeConnectProtocol of Apache Kafka 4.3.1: the URL of a
# worker, offset 7 of the configurations, no assignment yet; and an assignment of one connector and its task.
CONNECT_WORKER: Final = "0015687474703a2f2f31302e302e302e313a383038332f0000000000000007"
CONNECT_PROTOCOLS: Final = [
    {"name": name, "metadata": bytes.fromhex(version + CONNECT_WORKER + rest)}
    for name, version, rest in (
        ("sessioned", "0002", "ffffffff"),
        ("compatible", "0001", "ffffffff"),
        ("default", "0000", ""),
    )
]
CONNECT_ASSIGNMENT: Final = bytes.fromhex(
    "00020000000d636f6e6e6563742d312d6161610015687474703a2f2f31302e302e302e313a383038332f0000000000000007"
    "00000001000473696e6b00000002ffffffff000000000000000000000000"
)


@session
def workers_of_connect(s: Session) -> None:
    a_group_of_two_of_another_type(s, "connect", CONNECT_PROTOCOLS, CONNECT_ASSIGNMENT)


@session
def schema_registries(s: Session) -> None:
    """The members elect the instance that writes, with the JSON of Confluent's SchemaRegistryProtocol."""
    identity = b'{"version":1,"host":"10.0.0.1","port":8081,"master_eligibility":true,"scheme":"http"}'
    chosen = b'{"version":1,"error":0,"master":"sr-1-aaa","master_identity":' + identity + b"}"
    a_group_of_two_of_another_type(s, "sr", [{"name": "v0", "metadata": identity}], chosen)


def a_group_of_two_of_another_type(
    s: Session, protocol_type: str, protocols: list[dict[str, Any]], assignment: bytes
) -> None:
    joining = {"protocol_type": protocol_type, "protocols": protocols}
    named = {"protocol_type": protocol_type, "protocol_name": protocols[0]["name"]}
    of_version = named if s.versions["sync_group"] >= 5 else {}
    s.join("anna", **joining)
    s.sync("anna", "anna", **of_version)
    s.begin_join("bert", **joining)
    s.note_waiting("bert")
    s.heartbeat("anna")
    s.send_join("anna", **joining)
    s.answer("anna")
    s.answer("bert")
    assignments = [{"member_id": s.member_ids[one], "assignment": assignment} for one in ("anna", "bert")]
    s.send_sync("bert", **of_version)
    s.sync("anna", assignments=assignments, **of_version)
    s.answer("bert")
    s.join("carl")
    s.describe()
    s.commit("anna", 1)
    s.ask(
        "admin",
        "offset_delete",
        group_id=s.group,
        topics=[{"name": s.topic, "partitions": [{"partition_index": 0}]}],
    )
    s.leave("anna")
    s.heartbeat("bert")
    s.leave("bert")
    s.describe()
    s.delete()


@session
def offsets_without_members(s: Session) -> None:
    s.commit_from_outside(3)
    s.describe()
    s.commit_from_outside(4, partition=1, metadata="x" * 5000)
    s.commit_from_outside(5, partition=9)
    s.commit("anna", 6, generation_id_or_member_epoch=0, member_id="")
    s.commit("anna", 6, generation_id_or_member_epoch=1, member_id="anna")
    s.commit("anna", 6, generation_id_or_member_epoch=-1, member_id="anna")
    s.fetch_offsets()
    s.join("anna")
    s.sync("anna", "anna")
    s.commit_from_outside(7)
    s.fetch_offsets()
    s.leave("anna")
    wanted = [{"name": s.topic, "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]
    s.ask("admin", "offset_delete", group_id=s.group, topics=wanted)
    s.fetch_offsets()
    s.describe()
    s.delete()


@session
def static_members(s: Session) -> None:
    if s.age not in STATIC:
        return
    s.join("anna", group_instance_id="one")
    s.sync("anna", "anna", group_instance_id="one")
    s.begin_join("bert", group_instance_id="two")
    s.note_waiting("bert")
    s.send_join("anna", group_instance_id="one")
    s.answer("anna")
    s.answer("bert")
    s.send_sync("bert", group_instance_id="two")
    s.sync("anna", "anna", "bert", group_instance_id="one")
    s.answer("bert")
    old = s.member_ids.pop("bert")
    s.join("bert", group_instance_id="two")  # it comes back: the same assignment, no rebalance
    s.ids[old] = "<bert before>"
    s.describe()
    s.heartbeat("anna", group_instance_id="one")
    s.sync("bert", group_instance_id="two")
    s.heartbeat("bert", group_instance_id="two")
    s.heartbeat("bert", group_instance_id="two", member_id=old)
    s.commit("bert", 5, group_instance_id="two", member_id=old)
    s.commit("bert", 6, group_instance_id="two")
    s.commit("bert", 7, group_instance_id="three")
    s.sync("bert", group_instance_id="two", member_id=old)
    s.join("bert", group_instance_id="two", member_id=old)
    leaving = [
        {"member_id": "", "group_instance_id": "two"},
        {"member_id": "", "group_instance_id": "three"},
        {"member_id": "nobody"},
        {"member_id": old, "group_instance_id": "one"},
    ]
    s.ask("admin", "leave_group", group_id=s.group, members=leaving)
    s.heartbeat("anna", group_instance_id="one")
    s.fetch_offsets()
    s.describe()


@session
def the_leader_that_comes_back_as_a_static_member(s: Session) -> None:
    if s.age not in STATIC:
        return
    s.join("anna", group_instance_id="one")
    s.sync("anna", "anna", group_instance_id="one")
    old = s.member_ids.pop("anna")
    s.join("anna", group_instance_id="one")
    s.ids[old] = "<anna before>"
    s.describe()
    s.sync("anna", "anna", group_instance_id="one")
    s.member_ids.pop("anna")
    s.join("anna", group_instance_id="one", protocols=[{"name": "range", "metadata": b"changed"}])
    s.describe()
    s.sync("anna", "anna", group_instance_id="one")
    s.describe()
