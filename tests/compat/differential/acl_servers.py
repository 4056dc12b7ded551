"""Two servers with an authorizer and users; clients of each role send the same requests to both."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.acl import AclPermissionType
from tests.compat.conftest import OVERRIDES
from tests.compat.differential.acl_cases import (
    ADMINISTRATOR,
    CASES,
    COMMITTED,
    SHARE_MEMBER,
    AclCase,
    Names,
    Role,
    Shares,
    records,
)
from tests.compat.differential.cases import GROUP, UNKNOWN_ID
from tests.compat.differential.compare import Difference, differences, normal, prime
from tests.compat.servers import Server, start_kafka, start_ottla
from tests.compat.wire_client import Closed, WireClient, eventually, only, plain
from tests.ports import free_port

PASSWORD: Final = "secret"
MECHANISM: Final = "PLAIN"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
ENTRIES_AT_ONCE: Final = 400
TOPICS_AT_ONCE: Final = 100
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def users() -> list[str]:
    """Return all users of the cases."""
    return sorted({ADMINISTRATOR, *(role.user for case in CASES for role in case.roles())})


def settings(listener: str) -> tuple[str, ...]:
    """Return the settings of a server at whose listener of this name the users of all cases log in."""
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in users())
    login = f'{MODULE} required username="{ADMINISTRATOR}" password="{PASSWORD}" {known};'
    return (
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        f"super.users=User:{ADMINISTRATOR};User:ANONYMOUS",
        f"sasl.enabled.mechanisms={MECHANISM}",
        f"listener.name.{listener}.plain.sasl.jaas.config={login}",
        # Members send nothing from their first heartbeat to the last case, which is late on a busy machine.
        "group.share.max.session.timeout.ms=600000",
        "group.share.session.timeout.ms=600000",
    )


# The users' listener is the only one beside the controller's, so the broker itself has to log in there.
OF_KAFKA: Final = (
    "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    f"sasl.mechanism.inter.broker.protocol={MECHANISM}",
)


def start_ottla_with_users(data: Path) -> tuple[Server, str]:
    """Start a node of Ottla, and return it with the address at which its users log in."""
    address = f"127.0.0.1:{free_port()}"
    server = start_ottla(
        data,
        *OVERRIDES,
        "node.id=5",  # 0 is the node id of a response without a leader
        f"listeners=SASL_PLAINTEXT://{address},PLAINTEXT://127.0.0.1:{free_port()}",
        "ottla.sasl.plain.without.tls=true",
        *settings("sasl_plaintext"),
    )
    return server, address


def start_kafka_with_users(data: Path) -> tuple[Server, str]:
    """Start Apache Kafka, and return it with the address at which its users log in."""
    server = start_kafka(data, *OVERRIDES, *OF_KAFKA, *settings("plaintext"))
    return server, server.bootstrap


def log_in(bootstrap: str, user: str, timeout_s: float = 60.0) -> WireClient:
    """Return a connection on which a user has logged in."""
    client = WireClient(bootstrap, client_id="differ", timeout_s=timeout_s)
    assert client.call("sasl_handshake", 1, mechanism=MECHANISM).error_code == 0
    message = b"\0".join((b"", user.encode(), PASSWORD.encode()))
    answer = client.call("sasl_authenticate", 2, auth_bytes=message)
    assert answer.error_code == 0, answer
    return client


class Side:
    """One of the two servers, with the resources of all cases."""

    def __init__(self, bootstrap: str, run: str, cases: list[AclCase]) -> None:
        self.bootstrap = bootstrap
        self._run = run
        with log_in(bootstrap, ADMINISTRATOR) as client:
            self.node = int(only(client.call("metadata", 12, topics=[]).brokers).node_id)
            prime(client)
            for key_type, key in ((1, "prime"), (2, f"prime:{uuid_to_text(UNKNOWN_ID)}:0")):
                request = {"key_type": key_type, "coordinator_keys": [key]}
                eventually(
                    partial(client.call, "find_coordinator", 6, **request),
                    lambda found: only(found.coordinators).error_code == 0,
                )
            # Wait until every shard of the share coordinator has loaded.
            share_partition = {"topic_id": UNKNOWN_ID, "partitions": [{"partition": 0, "leader_epoch": 0}]}
            for number in range(100):
                eventually(
                    partial(
                        client.call,
                        "read_share_group_state_summary",
                        0,
                        group_id=f"prime-{number}",
                        topics=[share_partition],
                    ),
                    lambda found: only(only(found.results).partitions).error_code == 3,
                )
            self._ids: dict[str, bytes] = {}
            self._create_topics(client, cases)
            for case in cases:
                if case.has_group:
                    self._commit(client, self.names(case))
                if case.shares is not Shares.NOTHING:
                    self._share(client, case)
            self._create_acls(client, cases)

    def names(self, case: AclCase) -> Names:
        return Names(run=self._run, number=case.number, node=self.node, ids=self._ids)

    def _create_topics(self, client: WireClient, cases: list[AclCase]) -> None:
        wanted = [*(self.names(case).topic for case in cases), self.names(cases[0]).other]
        for at in range(0, len(wanted), TOPICS_AT_ONCE):
            some = wanted[at : at + TOPICS_AT_ONCE]
            made = client.call(
                "create_topics",
                7,
                topics=[{"name": name, "num_partitions": 1, "replication_factor": 1} for name in some],
                timeout_ms=60_000,
            )
            assert all(one.error_code == 0 for one in made.topics), made
            self._ids |= {one.name: bytes(one.topic_id) for one in made.topics}
        request = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in wanted]
        eventually(
            lambda: client.call("list_offsets", 5, replica_id=-1, topics=request),
            lambda found: all(only(one.partitions).error_code == 0 for one in found.topics),
        )

    def _commit(self, client: WireClient, names: Names) -> None:
        committed = [{"name": name, "partitions": COMMITTED} for name in (names.topic, names.other)]
        answer = client.call("offset_commit", 8, group_id=names.group, topics=committed)
        assert all(only(one.partitions).error_code == 0 for one in answer.topics), answer

    def _share(self, client: WireClient, case: AclCase) -> None:
        """Make a member join the share group of a case and get its topics; it leaves except in JOINED."""
        names = self.names(case)
        is_to_stay = case.shares is Shares.JOINED
        if case.shares is Shares.FILLED:
            self._fill(client, names)
        wanted = [names.topic] if is_to_stay else [names.topic, names.other]
        heartbeat = partial(
            client.call, "share_group_heartbeat", 1, group_id=names.group, member_id=SHARE_MEMBER
        )
        answer = heartbeat(member_epoch=0, subscribed_topic_names=wanted)
        assert answer.error_code == 0, answer

        def assigned() -> int:
            nonlocal answer
            answer = heartbeat(member_epoch=answer.member_epoch)
            assert answer.error_code == 0, answer
            return 0 if answer.assignment is None else len(answer.assignment.topic_partitions)

        assert eventually(assigned, lambda count: count == len(wanted)) == len(wanted)
        if not is_to_stay:
            assert heartbeat(member_epoch=-1).error_code == 0

    def _fill(self, client: WireClient, names: Names) -> None:
        """Write a record to the topic of a case, and make its share group start at the earliest offset."""
        earliest = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        group = {"resource_type": GROUP, "resource_name": names.group, "configs": [earliest]}
        changed = client.call("incremental_alter_configs", 1, resources=[group], validate_only=False)
        assert changed.responses[0].error_code == 0, changed
        written = client.call(
            "produce",
            12,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[{"name": names.topic, "partition_data": records()}],
        )
        assert only(only(written.responses).partition_responses).error_code == 0, written

    def _create_acls(self, client: WireClient, cases: list[AclCase]) -> None:
        entries = [
            right.entry(self.names(case), role.user, permission)
            for case in cases
            for role in case.roles()
            for rights, permission in ((role.allowed, ALLOW), (role.denied, DENY))
            for right in rights
        ]
        for at in range(0, len(entries), ENTRIES_AT_ONCE):
            answer = client.call("create_acls", 3, creations=entries[at : at + ENTRIES_AT_ONCE])
            assert all(one.error_code == 0 for one in answer.results), answer
        every = {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        }
        found = eventually(
            lambda: sum(len(one.acls) for one in client.call("describe_acls", 3, **every).resources),
            lambda count: count >= len(entries),
        )
        assert found >= len(entries)

    def answer(self, case: AclCase, role: Role) -> Any:
        """Return the response to a client of a role as nested dicts.

        Without a response, it is "closed" or "silent".
        """
        with closing(log_in(self.bootstrap, role.user)) as client:
            try:
                answer = client.call(case.api, case.version, **case.fields(self.names(case)))
            except Closed:
                return "closed"
            except TimeoutError:
                return "silent"
        known = self.names(case)
        ids = [known.topic_id, known.other_id, UNKNOWN_ID]
        return normal(_by_id(plain(answer, case.version), ids), "", self.node)


def _by_id(value: Any, ids: Sequence[bytes]) -> Any:
    """Return the response with its lists sorted: the topics of these ids come first, in this order."""
    if isinstance(value, dict):
        return {key: _by_id(one, ids) for key, one in value.items()}
    if not isinstance(value, list):
        return value

    def place(item: Any) -> int:
        topic_id = item.get("topic_id") if isinstance(item, dict) else None
        return ids.index(topic_id) if topic_id in ids else len(ids)

    return sorted((_by_id(one, ids) for one in value), key=place)


def compare(ottla: str, kafka: str, run: str, api: str = "", text: str = "") -> Iterator[Difference]:
    """Yield all differences in the cases of an API whose name contains `text`."""
    cases = [one for one in CASES if api in ("", one.api) and text in one.name]
    mine, theirs = (Side(bootstrap, run, cases) for bootstrap in (ottla, kafka))
    for case in cases:
        for role in case.roles():
            found = differences(mine.answer(case, role), theirs.answer(case, role))
            for path, one, other in found:
                label = f"{case.name}, {role.name}"
                yield Difference(
                    case=label, api=case.api, version=case.version, path=path, ottla=one, kafka=other
                )
