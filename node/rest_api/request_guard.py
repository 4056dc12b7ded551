"""Rejects requests that a page of a foreign site makes through the browser of an authorized user.

A browser would be a way in: without logins, any browser inside the network; with logins, that of a user who
is logged in. A foreign name that resolves to this node (DNS rebinding) is rejected by its Host; scripts of
another site by Origin and Sec-Fetch-Site; its forms by their content type. Programs send neither Origin nor
Sec-Fetch-Site, and are not affected.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Final

from multidict import MultiMapping

from ottla.node.rest_api.rest_error import RestError

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES: Final = frozenset({"same-origin", "none"})
# Links in answers begin with it, so it may contain nothing but a host and a port.
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Za-z:.%_-]+\]|[0-9A-Za-z._-]+)(:[0-9]{0,5})?")


class RequestGuard:
    """The host names that this node accepts; one object checks all requests."""

    def __init__(self, names: Iterable[str]) -> None:
        """Accept these host names; `*.example.com` matches all names below it."""
        found = {name.lower().rstrip(".") for name in names}
        self._names = {"localhost", *(name for name in found if not name.startswith("*."))}
        self._suffixes = tuple(name[1:] for name in found if name.startswith("*."))

    def allow(self, name: str) -> None:
        """Accept another host name."""
        self._names.add(name.lower().rstrip("."))

    def check(self, method: str, headers: MultiMapping[str], target: str = "") -> None:
        """Raise RestError 403, or 421 for a Host that is not this node's.

        `target` is the host in the request line; it takes precedence over the header, so both must be this
        node's.
        """
        authority = headers.get("Host", "")
        authorities = (authority, target) if target else (authority,)
        if not all(_AUTHORITY.fullmatch(one) and self._is_own(host_of(one)) for one in authorities):
            raise RestError(
                421,
                421,
                "This node does not accept requests under that host name; see ottla.rest.allowed.hosts.",
            )
        origins = headers.getall("Origin", [])
        if any(one.partition("://")[2].lower() != authority.lower() for one in origins):
            raise RestError(403, 403, "Web pages of other sites may not use this API.")
        # Links on another site may lead here; its scripts and forms may not send requests.
        is_visit = method in SAFE_METHODS and headers.get("Sec-Fetch-Mode") == "navigate"
        if not is_visit and not OWN_SITES.issuperset(headers.getall("Sec-Fetch-Site", [])):
            raise RestError(403, 403, "Web pages of other sites may not use this API.")

    def _is_own(self, host: str) -> bool:
        name = host.lower().rstrip(".")
        return name in self._names or name.endswith(self._suffixes or ("\0",)) or _is_address(name)


def host_of(authority: str) -> str:
    """Return the host of `host:port`, without the brackets of IPv6."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def check_content_type(headers: Mapping[str, str], media_types: Iterable[str]) -> None:
    """Raise RestError 415 unless the body has one of these types; a form of another site cannot send JSON."""
    given = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if given not in media_types:
        raise RestError(
            415, 415, f"The body must be {' or '.join(media_types)}, but it is {given or 'of no type'}."
        )
