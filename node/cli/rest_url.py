"""The address of a REST API (`rest.url` of a profile, `--url`), and the security of connections to it."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.secure_client.client_security import ClientSecurity, read_client_security
from ottla.node.settings.listener_settings import is_loopback

REST_URL: Final = "rest.url"
LOCAL_REST: Final = "http://localhost:8082"
MAX_URL_CHARS: Final = 2_000  # as long as the URLs that all proxies accept
_SHOWN: Final = 80


class RestUrl(NamedTuple):
    """A URL of http or https; `text` may end with a prefix of all paths, and never with a slash."""

    text: str
    host: str
    is_secure: bool


def parse_rest_url(text: str) -> RestUrl:
    """Parse the URL of a REST API; ValueError, with a sentence, if it is not one."""
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    is_right = is_right and text.isascii() and text.isprintable() and len(text) <= MAX_URL_CHARS
    if not is_right or any(one in text for one in " ?#@\\"):
        raise ValueError(
            f"{escape_controls(text[:_SHOWN])!r} is not the URL of a REST API: write http://HOST:PORT or "
            "https://HOST:PORT, with a path only if a proxy serves the API under one."
        )
    assert parts.hostname is not None
    address = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    return RestUrl(address, parts.hostname, parts.scheme == "https")


def rest_security(given: Mapping[str, str], url: RestUrl) -> ClientSecurity:
    """Return the security of connections to a REST API; `security.protocol` is for Kafka's listeners only.

    An https URL uses `ssl.*`, and a `sasl.mechanism` means a login. ClientSecurityError as in
    `read_client_security`; ValueError if the login would be sent over a network without encryption.
    """
    protocol = ("SASL_" if given.get("sasl.mechanism") else "") + ("SSL" if url.is_secure else "PLAINTEXT")
    security, _ = read_client_security({**given, "security.protocol": protocol})
    if security.login is not None and not url.is_secure and not is_loopback(url.host):
        raise ValueError(
            f"The login would be sent to {url.text} without encryption, where others can read it: use an "
            "https URL, or connect without the settings sasl.*."
        )
    return security
