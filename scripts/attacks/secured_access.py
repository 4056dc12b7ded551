"""How clients of secured nodes are let in: TLS, and a login by SCRAM for who has a user."""

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
# Beside what `ottla.secure` sets: a user without rights, and mechanisms that can be attacked.
SETTINGS: Final = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
    "ottla.add.scram": f"SCRAM-SHA-512=[name={USER},password={USER_PASSWORD}]",
}


class Role(Enum):
    """Whose connections are made to secured nodes; open nodes do not ask."""

    ADMINISTRATOR = "administrator"
    USER = "user without rights"
    STRANGER = "stranger"  # by TLS, without a login


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The way in for a role."""

    properties: Path  # of the administrator
    authority: Path
    administrator: str
    password: str = field(repr=False)

    def login_of(self, role: Role) -> tuple[str, str] | None:
        """Return user and password; None for who has none."""
        if role is Role.STRANGER:
            return None
        return (self.administrator, self.password) if role is Role.ADMINISTRATOR else (USER, USER_PASSWORD)

    def basic(self, role: Role) -> Mapping[str, str]:
        """Return the headers by which a role logs in at the REST API."""
        login = self.login_of(role)
        if login is None:
            return {}
        return {"Authorization": "Basic " + base64.b64encode(":".join(login).encode()).decode()}


def read_access(properties: Path) -> Access:
    """Return the way into the cluster of this client.properties of an administrator."""
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
    """Return the context of clients that trust this authority."""
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
    """Return a connection over TLS, logged in as that role."""
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
    """Log in by SCRAM-SHA-512; AssertionError if the node refuses it."""
    shaken: Any = client.call("sasl_handshake", 1, mechanism=SCRAM_SHA_512)
    assert not shaken.error_code, shaken
    scram = ScramClient(SCRAM_SHA_512, user, password, nonce=base64.b64encode(os.urandom(24)))
    token: bytes | None = scram.first()
    while token is not None:
        answer: Any = client.call("sasl_authenticate", 2, auth_bytes=token)
        assert not answer.error_code, answer
        token = scram.respond(bytes(answer.auth_bytes))
