"""The broker settings of the REST API and of probes, and the addresses in them."""

import ipaddress
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.config_def import at_least, between
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.listener_settings import ANYWHERE, MAX_PORT
from ottla.node.settings.setting import HIGH, INT, LIST, LOW, STRING, setting

REST_LISTENERS: Final = "ottla.rest.listeners"
ADVERTISED_REST_LISTENER: Final = "ottla.rest.advertised.listener"
PROBE_LISTENER: Final = "ottla.probe.listener"
TRUSTED_PROXIES: Final = "ottla.rest.trusted.proxies"
READS_MAX: Final = "ottla.rest.reads.max"
MAX_PROXIES: Final = 100
DEFAULT_REST_PORT: Final = 8082  # as Confluent's REST Proxy
_URL = re.compile(r"http(s?)://(?:\[([0-9A-Fa-f:.%]+)\]|([A-Za-z0-9_.-]*)):(\d{1,5})/?")
_HOST_AND_PORT = re.compile(r"(?:http://)?(?:\[([0-9A-Fa-f:.%]+)\]|([A-Za-z0-9_.-]*)):(\d{1,5})/?")
_ALLOWED_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
MAX_LISTENERS: Final = 8

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class RestAddress(NamedTuple):
    """An address of the REST API; an empty host is all addresses of the machine, port 0 a free port."""

    host: str
    port: int
    is_secure: bool = False  # by TLS

    @property
    def url(self) -> str:
        """The whole address, as a client writes it."""
        return f"{'https' if self.is_secure else 'http'}://{self.authority}"

    @property
    def authority(self) -> str:
        """HOST:PORT as in a URL."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


REST_SETTINGS: Final = (
    setting(
        REST_LISTENERS,
        LIST,
        (f"http://:{DEFAULT_REST_PORT}",),
        "Where to serve the REST API, the metrics and the console, as http://HOST:PORT or "
        "https://HOST:PORT; port 0 picks a free port, an empty list turns them off. If the default "
        "port is in use, the node starts without them; if a port set here is in use, the node does "
        "not start.",
        importance=HIGH,
    ),
    setting(
        ADVERTISED_REST_LISTENER,
        STRING,
        None,
        "The URLs by which clients of the REST API reach this node, as http://HOST:PORT or "
        "https://HOST:PORT; links in its answers begin with them. If empty, links begin with the "
        "address that the client used.",
    ),
    setting(
        PROBE_LISTENER,
        STRING,
        None,
        "An extra address for /healthz and /readyz, as HOST:PORT. A separate thread answers them "
        "there from start to end of the node, under any host name and however busy the REST API "
        "is. If empty, only the REST API serves them.",
    ),
    setting(
        "ottla.rest.allowed.hosts",
        LIST,
        (),
        "Host names under which the REST API may be called, besides IP addresses, localhost, the "
        "machine's name and the advertised names; *.example.com matches all names below it. This "
        "keeps web pages of other sites from reaching the API through a host name that they "
        "control (DNS rebinding).",
    ),
    setting(
        "ottla.rest.request.max.bytes",
        INT,
        10 * 1024 * 1024,
        "The maximum size of the body of a REST request.",
        between(1024, 256 * 1024 * 1024),
        importance=LOW,
    ),
    setting(
        READS_MAX,
        INT,
        16,
        "The maximum number of pages of records that the REST API reads at the same time; "
        "further requests wait.",
        between(1, 64),
        importance=LOW,
    ),
    setting(
        "ottla.rest.reads.max.per.address",
        INT,
        8,
        "The maximum number of pages of records that the REST API reads at the same time for one address, or "
        "for one /64 network of IPv6 (see ottla.rest.trusted.proxies); where users log in, for one user.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "ottla.rest.reads.waiting.max",
        INT,
        256,
        "The maximum number of requests that wait to read a page of records; addresses take "
        "turns. Further requests get status 429 with Retry-After.",
        at_least(0),
        importance=LOW,
    ),
    setting(
        "ottla.rest.reads.waiting.max.per.address",
        INT,
        64,
        "The maximum number of requests of one address or user that wait to read a page of records.",
        at_least(0),
        importance=LOW,
    ),
    setting(
        "ottla.rest.tails.max",
        INT,
        24,
        "The maximum number of live tails of records that the REST API serves at the same "
        "time; further requests get status 429.",
        at_least(0),
        importance=LOW,
    ),
    setting(
        "ottla.rest.tails.max.per.address",
        INT,
        8,
        "The maximum number of live tails for one address or user.",
        at_least(0),
        importance=LOW,
    ),
    setting(
        "ottla.rest.consumers.max",
        INT,
        64,
        "The maximum number of consumers of the REST API v2 that live in this node; making more gets "
        "status 429.",
        at_least(0),
        importance=LOW,
    ),
    setting(
        "ottla.rest.consumers.max.per.address",
        INT,
        16,
        "The maximum number of consumers of the REST API v2 for one address or user.",
        at_least(0),
        importance=LOW,
    ),
    setting(
        "ottla.rest.consumers.timeout.ms",
        INT,
        300_000,
        "How long a consumer of the REST API v2 lives after its last request, as "
        "consumer.instance.timeout.ms of Confluent's REST Proxy.",
        between(1_000, 86_400_000),
        importance=LOW,
    ),
    setting(
        TRUSTED_PROXIES,
        LIST,
        (),
        "Addresses or networks (such as 10.0.0.0/8) of proxies whose X-Forwarded-For header is "
        "trusted to name the client, so that each client has its own share of the limits. If "
        "empty, each proxy counts as one client.",
    ),
)


def parse_rest_listeners(entries: Sequence[str]) -> tuple[RestAddress, ...]:
    """Parse `ottla.rest.listeners`; INVALID_CONFIG with one sentence if it is not valid."""
    if len(entries) > MAX_LISTENERS:
        raise _invalid(REST_LISTENERS, f"{len(entries)} addresses", f"at most {MAX_LISTENERS} are allowed.")
    return tuple(_parse(REST_LISTENERS, entry.strip()) for entry in entries)


def parse_advertised_rest_listener(text: str | None) -> RestAddress | None:
    """Parse `ottla.rest.advertised.listener`; INVALID_CONFIG with one sentence if it is not valid."""
    if not text:
        return None
    address = _parse(ADVERTISED_REST_LISTENER, text.strip())
    if address.host in ANYWHERE or not address.port:
        raise _invalid(ADVERTISED_REST_LISTENER, text, "it has no address that clients can connect to.")
    return address


def parse_trusted_proxies(entries: Sequence[str]) -> tuple[Network, ...]:
    """Parse `ottla.rest.trusted.proxies`; INVALID_CONFIG with one sentence if it is not valid."""
    if len(entries) > MAX_PROXIES:
        raise _invalid(TRUSTED_PROXIES, f"{len(entries)} entries", f"at most {MAX_PROXIES} are allowed.")
    found = []
    for entry in entries:
        try:
            found.append(ipaddress.ip_network(entry.strip(), strict=False))
        except ValueError:
            raise _invalid(TRUSTED_PROXIES, entry, "it must be an address or a network.") from None
    return tuple(found)


def parse_probe_listener(text: str | None) -> RestAddress | None:
    """Parse `ottla.probe.listener`; INVALID_CONFIG with one sentence if it is not valid."""
    if not text or not text.strip():
        return None
    match = _HOST_AND_PORT.fullmatch(text.strip())
    if match is None:
        raise _invalid(PROBE_LISTENER, text, "it must look like HOST:PORT.")
    return _address(PROBE_LISTENER, text, match.groups())


def parse_allowed_hosts(entries: Sequence[str]) -> tuple[str, ...]:
    """Parse `ottla.rest.allowed.hosts` into lower case; INVALID_CONFIG if it is not valid."""
    names = tuple(entry.strip().lower() for entry in entries)
    for name in names:
        if not _ALLOWED_HOST.fullmatch(name):
            raise _invalid("ottla.rest.allowed.hosts", name, "it must be a host name without a port.")
    return names


def _parse(name: str, entry: str) -> RestAddress:
    match = _URL.fullmatch(entry)
    if match is None:
        raise _invalid(name, entry, "it must look like http://HOST:PORT or https://HOST:PORT.")
    secure, *parts = match.groups()
    return _address(name, entry, parts)._replace(is_secure=bool(secure))


def _address(name: str, entry: str, parts: Sequence[str | None]) -> RestAddress:
    """Return the address with these parts: the host if in brackets, the host if not, and the port."""
    port = int(parts[2] or 0)
    if port > MAX_PORT:
        raise _invalid(name, entry, f"its port must be at most {MAX_PORT}.")
    return RestAddress(parts[0] or parts[1] or "", port)


def _invalid(name: str, value: str, problem: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG, f"Invalid value {value[:200]} for configuration {name}: {problem}"
    )
