"""Finds the listeners that other machines reach: those in plaintext, and those by which anybody may do all.

Pure.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from ottla.node.settings.authorization_settings import ANONYMOUS
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.listener_settings import Listener, is_loopback
from ottla.node.settings.rest_settings import RestAddress
from ottla.node.settings.security_settings import REQUIRED


def exposed(listeners: Iterable[Listener]) -> list[Listener]:
    """Return those that other machines may reach."""
    return [one for one in listeners if not is_loopback(one.host)]


def plaintext_sentence(listeners: Iterable[Listener]) -> str | None:
    """Return what is wrong with listeners that speak plaintext to other machines; None if none does."""
    plain = [one for one in exposed(listeners) if not one.has_tls]
    if not plain:
        return None
    names = ", ".join(f"{one.name} ({_at(one.host, one.port)})" for one in plain)
    which, them = ("listener", "it") if len(plain) == 1 else ("listeners", "them")
    return (
        f"Other machines reach the {which} {names} without TLS, so everybody on the way can read and change "
        f"what is sent: give {them} SSL or SASL_SSL (listener.security.protocol.map), or bind {them} to "
        "127.0.0.1."
    )


def rest_sentence(addresses: Iterable[RestAddress]) -> str | None:
    """Return what is wrong with a REST API that speaks plaintext to other machines; None if it does not."""
    plain = [one for one in addresses if not one.is_secure and not is_loopback(one.host)]
    if not plain:
        return None
    return (
        f"Other machines reach the REST API ({', '.join(_at(one.host, one.port) for one in plain)}) without "
        "TLS, so everybody on the way can read and change what is sent: give it an https:// address or bind "
        "it to 127.0.0.1 (ottla.rest.listeners)."
    )


def anonymous_ways(
    super_users: Collection[str],
    listeners: Iterable[Listener],
    client_auth_of: Callable[[str], str],
    rest: Iterable[RestAddress] = (),
) -> list[str]:
    """Return by which ways other machines come in without a login where that makes them super users.

    `client_auth_of` gives `ssl.client.auth` of a listener by its name; `rest` has the addresses of a REST API
    that asks for no login.
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
    """Return what is wrong with super users that nobody has to be; None without a way in."""
    if not ways:
        return None
    return (
        f"super.users names {ANONYMOUS}, which is every client without a login, so whoever reaches "
        f"{', '.join(ways)} from other machines may do everything: remove it from super.users, or close "
        "these ways (SASL, ssl.client.auth=required, ottla.rest.authentication)."
    )


def anonymous_ways_of(config: BrokerConfig) -> list[str]:
    """Return the ways by which super users come in without a login at a node of this configuration."""
    security = config.listener_security
    return anonymous_ways(
        frozenset() if config.authorizer is None else config.authorizer.super_users,
        config.listeners,
        lambda name: security[name].client_auth if name in security else "",
        () if config.rest_logins.methods else config.ottla_rest_listeners,
    )


def open_way_warnings(config: BrokerConfig) -> Sequence[str]:
    """Return what a node says at each start of ways in that are too open, a sentence each."""
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
