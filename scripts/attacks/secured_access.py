"""Connections to secured nodes: TLS, and a SCRAM login for roles that have a user."""

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

from ottla.node.secure_client.scram_client import ScramClient
from ottla.node.settings.properties_file import parse_properties
from ottla.node.settings.secure_settings import administrator_of
from ottla.node.wire.sasl_mechanisms import SCRAM_SHA_512
from tests.compat.wire_client import CALL_TIMEOUT_S, WireClient

USER: Final = "mallory"
USER_PASSWORD: Final = "wonderland"
# Besides the settings of `ottla.secure`: a user without rights, and more mechanisms to attack.
SETTINGS: Final = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
    "ottla.add.scram": f"SCRAM-SHA-512=[name={USER},password={USER_PASSWORD}]",
}


class Role(Enum):
    """The role of a client of secured nodes. Open nodes know no roles."""

    ADMINISTRATOR = "administrator"
    USER = "user without rights"
    UNAUTHENTICATED = "unauthenticated"  # with TLS, without a login


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The files and logins for connections to secured nodes."""

    properties: Path  # of the administrator
    authority: Path
    administrator: str
    password: str = field(repr=False)

    def login_of(self, role: Role) -> tuple[str, str] | None:
        """Return user and password, or None for a stranger."""
        if role is Role.UNAUTHENTICATED:
            return None
        return (self.administrator, self.password) if role is Role.ADMINISTRATOR else (USER, USER_PASSWORD)

    def basic(self, role: Role) -> Mapping[str, str]:
        """Return the headers that log a role in at the REST API."""
        login = self.login_of(role)
        if login is None:
            return {}
        return {"Authorization": "Basic " + base64.b64encode(":".join(login).encode()).decode()}


def read_access(properties: Path) -> Access:
    """Return the access that an administrator's client.properties file gives."""
    settings = parse_properties(properties.read_bytes(), str(properties))
    admin = administrator_of(settings)
    return Access(
        properties=properties,
        authority=Path(settings["ssl.truststore.location"]),
        administrator=admin.name,
        password=admin.password,
    )


@cache
def tls_context(authority: Path) -> ssl.SSLContext:
    """Return a TLS context for clients that trust this authority."""
    return ssl.create_default_context(cafile=str(authority))


def connect(
    bootstrap: str,
    access: Access,
    role: Role,
    *,
    client_id: str | None = "attack",
    timeout_s: float = CALL_TIMEOUT_S,
    source: str = "",
) -> WireClient:
    """Return a TLS connection, logged in as this role."""
    host = bootstrap.rpartition(":")[0]
    context = tls_context(access.authority)
    client = WireClient(
        bootstrap,
        client_id=client_id,
        timeout_s=timeout_s,
        wrap=lambda plain: context.wrap_socket(plain, server_hostname=host),
        source=source,
    )
    login = access.login_of(role)
    try:
        if login is not None:
            log_in(client, *login)
    except BaseException:
        client.close()
        raise
    return client


def log_in(client: WireClient, user: str, password: str) -> None:
    """Log in with SCRAM-SHA-512; AssertionError if the node rejects the login."""
    handshake: Any = client.call("sasl_handshake", 1, mechanism=SCRAM_SHA_512)
    assert not handshake.error_code, handshake
    scram = ScramClient(SCRAM_SHA_512, user, password, nonce=base64.b64encode(os.urandom(24)))
    token: bytes | None = scram.first()
    while token is not None:
        answer: Any = client.call("sasl_authenticate", 2, auth_bytes=token)
        assert not answer.error_code, answer
        token = scram.respond(bytes(answer.auth_bytes))
