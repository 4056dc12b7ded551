"""Attacks on secured nodes: special ones, and the other attacks by strangers and by users without rights."""

import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from attacks import (
    closed_doors,
    giant_requests,
    login_floods,
    long_ids,
    request_floods,
    rights_floods,
    tls_floods,
)
from attacks.attack import Attack, nothing
from attacks.nodes import Nodes
from attacks.secured_access import Role
from tests.compat.wire_client import Closed

ATTACKS: Final[Sequence[Attack]] = (
    *tls_floods.ATTACKS,
    *login_floods.ATTACKS,
    *rights_floods.ATTACKS,
    *closed_doors.SECURED,
)


def _refused(send: Callable[[Nodes], str]) -> Callable[[Nodes], str]:
    """Return a `send` that accepts any response: clients without rights get other errors, or none."""

    def attempt(nodes: Nodes) -> str:
        try:
            return send(nodes)
        except (AssertionError, Closed, ssl.SSLError, ConnectionError) as error:
            return f"rejected: {type(error).__name__}"

    return attempt


def _in_role(role: Role, attack: Attack) -> Attack:
    return replace(
        attack,
        name=f"{attack.name}-by-{role.name.lower()}",
        sends=f"{attack.sends}, by a {role.value}",
        send=_refused(attack.send),
        is_secure=True,
        role=role,
    )


# Attacks that prepare something need rights for it; the others send the same requests in any role.
OTHERS: Final[Sequence[Attack]] = tuple(
    _in_role(role, one)
    for role in (Role.UNAUTHENTICATED, Role.USER)
    for one in (*long_ids.ATTACKS, *giant_requests.ATTACKS, *request_floods.ATTACKS)
    if one.prepare is nothing and not one.settings
)
