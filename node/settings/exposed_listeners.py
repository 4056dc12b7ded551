"""Finds the listeners that other machines can reach, and says which of them are not encrypted. Pure."""

from collections.abc import Iterable, Sequence

from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.listener_settings import Listener, is_loopback
from ottla.node.settings.rest_settings import RestAddress


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


def plaintext_warnings(config: BrokerConfig) -> Sequence[str]:
    """Return what a node says at each start of its listeners without TLS, a sentence each."""
    found = (
        plaintext_sentence((*config.listeners, *config.controller_listeners)),
        rest_sentence(config.ottla_rest_listeners),
    )
    return [one for one in found if one is not None]


def _at(host: str, port: int) -> str:
    if not host:
        return f"all addresses, port {port}"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
