"""Finds listeners that are open to other machines: in plaintext, or with all rights for anonymous clients.

Pure.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from ottla.node.settings.authorization_settings import ANONYMOUS
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.listener_settings import Listener, is_loopback
from ottla.node.settings.rest_settings import RestAddress
from ottla.node.settings.security_settings import REQUIRED


def exposed(listeners: Iterable[Listener]) -> list[Listener]:
    """Return the listeners that other machines can reach."""
    return [one for one in listeners if not is_loopback(one.host)]


def plaintext_sentence(listeners: Iterable[Listener]) -> str | None:
    """Return a warning of listeners that other machines reach without TLS; None if there are none."""
    plain = [one for one in exposed(listeners) if not one.has_tls]
    if not plain:
        return None
    names = ", ".join(f"{one.name} ({_at(one.host, one.port)})" for one in plain)
    which, them = ("listener", "it") if len(plain) == 1 else ("listeners", "them")
    return (
        f"Other machines reach the {which} {names} without TLS, so anyone on the network path can read and "
        f"change the data: use SSL or SASL_SSL for {them} (listener.security.protocol.map), or bind {them} "
        "to 127.0.0.1."
    )


def rest_sentence(addresses: Iterable[RestAddress]) -> str | None:
    """Return a warning of a REST API that other machines reach without TLS; None if they do not."""
    plain = [one for one in addresses if not one.is_secure and not is_loopback(one.host)]
    if not plain:
        return None
    return (
        f"Other machines reach the REST API ({', '.join(_at(one.host, one.port) for one in plain)}) without "
        "TLS, so anyone on the network path can read and change the data: give it an https:// address or "
        "bind it to 127.0.0.1 (ottla.rest.listeners)."
    )


def anonymous_ways(
    super_users: Collection[str],
    listeners: Iterable[Listener],
    client_auth_of: Callable[[str], str],
    rest: Iterable[RestAddress] = (),
) -> list[str]:
    """Return the listeners and URLs at which clients of other machines are super users without a login.

    `client_auth_of` returns `ssl.client.auth` of a listener by its name; `rest` are the addresses of a REST
    API without logins.
    """
    if ANONYMOUS not in super_users:
        return []
    ways = [
        one.name
        for one in exposed(listeners)
        if one.security_protocol == "PLAINTEXT"
        or (one.security_protocol == "SSL" and client_auth_of(one.name) != REQUIRED)
    ]
    return ways + [one.url for one in rest if not is_loopback(one.host)]


def anonymous_sentence(ways: Sequence[str]) -> str | None:
    """Return a warning that clients without a login are super users in these places; None without places."""
    if not ways:
        return None
    return (
        f"super.users names {ANONYMOUS}, which is every client without a login, so every client that reaches "
        f"{', '.join(ways)} from another machine may do everything: remove it from super.users, or require "
        "logins there (SASL, ssl.client.auth=required, ottla.rest.authentication)."
    )


def anonymous_ways_of(config: BrokerConfig) -> list[str]:
    """Return the listeners and URLs at which this configuration lets in super users without a login."""
    security = config.listener_security
    return anonymous_ways(
        frozenset() if config.authorizer is None else config.authorizer.super_users,
        config.listeners,
        lambda name: security[name].client_auth if name in security else "",
        () if config.rest_logins.methods else config.ottla_rest_listeners,
    )


def open_way_warnings(config: BrokerConfig) -> Sequence[str]:
    """Return the warnings of a node about listeners that are too open, a sentence each."""
    found = (
        plaintext_sentence(config.all_listeners),
        rest_sentence(config.ottla_rest_listeners),
        anonymous_sentence(anonymous_ways_of(config)),
    )
    return [one for one in found if one is not None]


def _at(host: str, port: int) -> str:
    if not host:
        return f"all addresses, port {port}"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
