"""Parses the settings of listeners: the addresses that a node binds, and those that it advertises."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

_LISTENER = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([0-9A-Fa-f:.%]+)\]|([^:\[\]/]*)):(-?\d{1,9})")
_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
MAX_PORT: Final = 65_535
ANYWHERE: Final = ("", "0.0.0.0", "::")  # hosts that mean all addresses of the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One listener; a host in `ANYWHERE` is all addresses of the machine, port 0 a free port."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    @property
    def has_tls(self) -> bool:
        """True if its connections are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        """True if its clients log in."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def security_protocol_id(self) -> int:
        """The protocol's number in broker registrations."""
        return _PROTOCOLS[self.security_protocol]


def host_from_here(host: str) -> str:
    """Return the host by which programs on this machine reach a listener."""
    return "localhost" if host in ANYWHERE else host


def parse_listeners(
    entries: Sequence[str], setting: str, protocols: Mapping[str, str]
) -> tuple[Listener, ...]:
    """Parse `listeners` or `advertised.listeners`; INVALID_CONFIG with one sentence if it is not valid."""
    found: dict[str, Listener] = {}
    for entry in entries:
        match = _LISTENER.fullmatch(entry.strip())
        if match is None:
            raise _invalid(setting, entry, "it must look like PLAINTEXT://HOST:PORT.")
        name, host, port = match[1].upper(), match[2] or match[3], int(match[4])
        if not 0 <= port <= MAX_PORT:
            raise _invalid(setting, entry, f"its port must be at most {MAX_PORT}.")
        if name in found:
            raise _invalid(setting, entry, f"it contains the listener name {name} twice.")
        if any(port and other.port == port and other.host == host for other in found.values()):
            raise _invalid(setting, entry, f"two listeners cannot share the port {port}.")
        protocol = protocols.get(name)
        if protocol is None:
            raise _invalid(setting, entry, f"listener.security.protocol.map has no entry for {name}.")
        found[name] = Listener(name=name, host=host, port=port, security_protocol=protocol)
    return tuple(found.values())


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parse `listener.security.protocol.map`: protocols by listener name; INVALID_CONFIG if not valid."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = entry.partition(":")
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if not separator or not name or protocol not in _PROTOCOLS:
            raise _invalid(
                "listener.security.protocol.map",
                entry,
                "it must be a list of NAME:PROTOCOL pairs, where PROTOCOL is one of "
                f"{', '.join(_PROTOCOLS)}.",
            )
        protocols[name] = protocol
    return protocols


def parse_connection_limits(text: str) -> dict[str, int]:
    """Parse `max.connections.per.ip.overrides`: limits by address; INVALID_CONFIG if not valid."""
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        # The limit follows the last colon: an IPv6 address has colons, too.
        host, _, limit = entry.rpartition(":")
        if not host or not limit.strip().isdecimal():
            raise _invalid(
                "max.connections.per.ip.overrides", entry, "it must be a list of ADDRESS:LIMIT pairs."
            )
        limits[host.strip()] = int(limit)
    return limits


def _invalid(setting: str, value: str, problem: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG, f"Invalid value {value[:200]} for configuration {setting}: {problem}"
    )


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the address; names other than localhost are not resolved."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
