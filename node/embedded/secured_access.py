"""The users of a secured cluster: their client settings for several libraries, and their ACLs."""

import asyncio
import secrets
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import (
    KNOWN_OPERATIONS,
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from ottla.metadata_raft.scram import MIN_ITERATIONS, ScramMechanism
from ottla.node.client.acl_admin import create_acls
from ottla.node.client.cluster_client import Client, parse_bootstrap
from ottla.node.client.user_admin import alter_users, upsertion
from ottla.node.net.peer_client import PeerClient
from ottla.node.secure_client.client_security import read_client_security
from ottla.node.secure_setup.client_settings import ClientLogin
from ottla.node.settings.properties_file import parse_properties
from ottla.node.settings.secure_settings import SecureFiles, administrator_of

TIMEOUT_S: Final = 60.0
PASSWORD_BYTES: Final = 24

Library = Literal["confluent", "java", "kafka-python", "aiokafka"]


class SecuredAccess:
    """The users of a cluster whose keys are in `files`, and their passwords."""

    def __init__(self, files: SecureFiles, bootstrap: str) -> None:
        self._files = files
        self._bootstrap = bootstrap
        self._admin = administrator_of(parse_properties(files.client_properties.read_bytes()))
        self._passwords = {self._admin.name: self._admin.password}

    def login(self, user: str) -> ClientLogin:
        """Return the login of a user; ValueError if its password is not known here."""
        if user not in self._passwords:
            raise ValueError(f"there is no user {user!r}: add it with add_user")
        return ClientLogin(
            bootstrap=self._bootstrap,
            authority=str(self._files.authority),
            user=user,
            password=self._passwords[user],
        )

    def add_user(self, name: str, password: str | None) -> str:
        """Add a user, or change its password; return the password."""
        password = secrets.token_urlsafe(PASSWORD_BYTES) if password is None else password
        change = upsertion(name, password, ScramMechanism.SCRAM_SHA_512, MIN_ITERATIONS)
        _raise_refused(self._ask(lambda client: alter_users(client, upsertions=[change])))
        self._passwords[name] = password
        return password

    def allow(
        self,
        user: str,
        operations: Sequence[str],
        names: Mapping[str, str | None],
        *,
        is_prefixed: bool,
    ) -> None:
        """Create an ACL for each named resource and each of the operations that it supports."""
        given = {ResourceType[kind]: name for kind, name in names.items() if name is not None}
        entries = [
            AccessControlEntry(
                kind,
                name,
                PatternType.PREFIXED if is_prefixed else PatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, name in given.items()
            for operation in map(_operation, operations)
            if operation in (AclOperation.ALL, *KNOWN_OPERATIONS[kind])
        ]
        if not entries:
            raise ValueError(
                "name operations, such as READ, and the topic, group or transactional_id that they apply to"
            )
        _raise_refused(self._ask(lambda client: create_acls(client, entries)))

    def _ask(self, question: Callable[[Client], Awaitable[Mapping[Any, KafkaError]]]) -> list[KafkaError]:
        """Send requests as the administrator, in a thread: the caller may run an event loop of its own."""
        security, _ = read_client_security(self.login(self._admin.name).of_java())
        answers: list[list[KafkaError]] = []
        problems: list[BaseException] = []

        async def ask() -> None:
            connect = partial(PeerClient.connect, security=security)
            async with Client(
                parse_bootstrap(self._bootstrap), timeout_s=TIMEOUT_S, connect=connect
            ) as client:
                answers.append(list((await question(client)).values()))

        def run() -> None:
            try:
                asyncio.run(ask())
            except BaseException as problem:  # raised again in the caller's thread
                problems.append(problem)

        thread = threading.Thread(target=run, name="ottla-administrator")
        thread.start()
        thread.join()
        if problems:
            raise problems[0]
        return answers[0]


def _operation(word: str) -> AclOperation:
    try:
        return AclOperation[word.upper()]
    except KeyError:
        raise ValueError(f"there is no operation {word!r}: use READ, WRITE, CREATE, DESCRIBE, ...") from None


def _raise_refused(refused: Sequence[KafkaError]) -> None:
    if refused:
        raise refused[0]


def client_config(
    library: Library, bootstrap: str, access: SecuredAccess | None, user: str
) -> dict[str, Any]:
    """Return the settings with which a client library connects to a cluster, secured or not."""
    is_python = library in ("kafka-python", "aiokafka")
    if access is None:
        return {"bootstrap_servers" if is_python else "bootstrap.servers": bootstrap}
    login = access.login(user)
    match library:
        case "confluent":
            return {**login.of_librdkafka()}
        case "java":
            return {**login.of_java()}
        case "kafka-python":
            return {**login.of_kafka_python()}
        case "aiokafka":
            found: dict[str, Any] = {**login.of_kafka_python()}
            authority = found.pop("ssl_cafile")
            return {**found, "ssl_context": ssl.create_default_context(cafile=authority)}
