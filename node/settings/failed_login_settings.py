"""The broker settings of failed logins: a limit for each address, beyond which answers are delayed.

They can be changed while a node runs: if a wrong limit locks some clients out, a restart to correct it would
disconnect all others.
"""

import ipaddress
from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.config_def import ConfigKey, ConfigScope, at_least
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.rest_settings import Network
from ottla.node.settings.setting import INT, LIST, LOW, setting

FAILED_LOGINS_BURST: Final = "ottla.failed.logins.burst"
FAILED_LOGINS_RATE: Final = "ottla.failed.logins.rate"
FAILED_LOGINS_EXEMPT: Final = "ottla.failed.logins.exempt"
DEFAULT_BURST: Final = 100
DEFAULT_RATE: Final = 10
MAX_EXEMPT: Final = 100  # all are compared at each login
_HOST_BITS: Final = 64  # of IPv6: one host may use all addresses of its /64 network

FAILED_LOGIN_SETTINGS: Final[tuple[ConfigKey, ...]] = (
    setting(
        FAILED_LOGINS_BURST,
        INT,
        DEFAULT_BURST,
        "The number of logins and TLS handshakes from one address (for IPv6, one /64 network) that may fail "
        "at once before the answers to further ones are delayed. All clients behind one NAT or load "
        "balancer have the same address.",
        at_least(1),
        importance=LOW,
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        FAILED_LOGINS_RATE,
        INT,
        DEFAULT_RATE,
        "The number of further logins and TLS handshakes from one address that may fail per second. Beyond "
        f"{FAILED_LOGINS_BURST} and this rate, answers are delayed by up to ten seconds; if still more fail, "
        "connections from the address are closed before their login is checked.",
        at_least(1),
        importance=LOW,
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        FAILED_LOGINS_EXEMPT,
        LIST,
        (),
        "Addresses and networks (10.0.0.7, 10.1.0.0/16, 2001:db8:0:1::/64) whose failed logins are not "
        "counted, such as those of a load balancer. From there, passwords can be tried as fast as "
        "connections are accepted (max.connection.creation.rate). An IPv6 address stands for its /64 "
        "network, because failures are counted per network.",
        importance=LOW,
        scope=ConfigScope.CLUSTER_WIDE,
    ),
)


def parse_exempt(entries: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks whose failures are not counted; INVALID_CONFIG for an entry that is not a network.

    Failures of IPv6 are counted by /64 network, so an entry within one is extended to the whole network.
    """
    if len(entries) > MAX_EXEMPT:
        raise _invalid(f"{len(entries)} entries", f"at most {MAX_EXEMPT} are allowed.")
    return tuple(map(_network, entries))


def exempt_warnings(exempt: Sequence[Network]) -> tuple[str, ...]:
    """Return a warning for each entry that exempts every address."""
    return tuple(
        f"{FAILED_LOGINS_EXEMPT} names {one}, which is every address: passwords can be tried without a "
        "limit. Name only the addresses of load balancers."
        for one in exempt
        if not one.prefixlen
    )


def _network(entry: str) -> Network:
    try:
        found = ipaddress.ip_network(entry.strip(), strict=False)
    except ValueError:
        raise _invalid(entry, "it must be an address or a network, such as 10.1.0.0/16.") from None
    if isinstance(found, ipaddress.IPv6Network) and found.prefixlen > _HOST_BITS:
        mapped = found.network_address.ipv4_mapped
        if mapped is not None and found.prefixlen >= 96:
            return ipaddress.IPv4Network((mapped, found.prefixlen - 96))
        return found.supernet(new_prefix=_HOST_BITS)
    return found


def _invalid(value: str, problem: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"Invalid value {value[:200]} for configuration {FAILED_LOGINS_EXEMPT}: {problem}",
    )
