"""The broker settings of OAUTHBEARER: the access tokens that a node accepts, and the URL of their keys.

Names and defaults are Kafka's. Two rules are stricter: the keys must be fetched over https, and an audience
and an issuer have to be set, because otherwise the provider's tokens for other services would be accepted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ottla.logstore.words.config_def import ConfigKey, ConfigValue, at_least
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.setting import BOOLEAN, INT, LIST, LONG, LOW, STRING, setting

URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
ISSUER: Final = "sasl.oauthbearer.expected.issuer"
ACCEPT_ANY: Final = "ottla.sasl.oauthbearer.accept.any"
ALLOWED_HOSTS: Final = "ottla.sasl.oauthbearer.allowed.hosts"
TRUSTSTORE_LOCATION: Final = "ottla.sasl.oauthbearer.truststore.location"

OAUTHBEARER_SETTINGS: Final[tuple[ConfigKey, ...]] = (
    setting(
        URL,
        STRING,
        None,
        "Where the OAuth provider publishes its keys (JWKS): an https URL. Redirects are not followed.",
    ),
    setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3_600_000,
        "How often to fetch the keys of the OAuth provider, in milliseconds. A token with an unknown key "
        "causes an earlier fetch.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "The pause before the keys of the OAuth provider are fetched again after a failure; it doubles "
        "with each failure.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10_000,
        "The maximum pause before the keys of the OAuth provider are fetched again after a failure.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        AUDIENCE,
        LIST,
        (),
        "The accepted audiences: the aud claim of a token must have one of them.",
    ),
    setting(
        ISSUER,
        STRING,
        None,
        "The issuer (iss) that a token must have.",
    ),
    setting(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "The maximum difference of the clocks of the OAuth provider and this node, in seconds.",
        at_least(0),
        importance=LOW,
    ),
    setting(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        "The claim of a token that names its principal.",
        importance=LOW,
    ),
    setting(
        "sasl.oauthbearer.scope.claim.name",
        STRING,
        "scope",
        "The claim of a token that has its scopes.",
        importance=LOW,
    ),
    setting(
        ALLOWED_HOSTS,
        LIST,
        (),
        "The hosts from which keys may be fetched. If empty, only the host of "
        "sasl.oauthbearer.jwks.endpoint.url.",
        importance=LOW,
    ),
    setting(
        TRUSTSTORE_LOCATION,
        STRING,
        None,
        "A PEM file with the certificate authorities for the host of the keys. If empty, those of the "
        "operating system are used. The file is read again when it changes.",
        importance=LOW,
    ),
    setting(
        ACCEPT_ANY,
        BOOLEAN,
        False,
        f"Accept tokens even if {AUDIENCE} and {ISSUER} are not set: also those that the OAuth provider "
        "issued for other services.",
        importance=LOW,
    ),
)
OAUTHBEARER_NAMES: Final = frozenset(key.name for key in OAUTHBEARER_SETTINGS)


class JwksPauses(NamedTuple):
    """The pauses between fetches of a provider's keys."""

    refresh_ms: int = 3_600_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The claims that tokens must have: without `audiences` no `aud`, without `issuer` any issuer."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    clock_skew_s: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthBearer:
    """The tokens that clients of a listener may show, and the URL of the keys that verify them."""

    url: str
    allowed_hosts: tuple[str, ...]
    truststore_location: str | None  # None: the certificate authorities of the operating system
    pauses: JwksPauses
    rules: TokenRules


def oauth_bearer(values: Mapping[str, ConfigValue]) -> OauthBearer:
    """Parse the settings of one listener; INVALID_CONFIG if they are incomplete or unsafe."""
    url, issuer = _text(values, URL), _text(values, ISSUER)
    audiences, hosts = _words(values, AUDIENCE), _words(values, ALLOWED_HOSTS)
    if not url:
        raise _invalid(f"OAUTHBEARER needs {URL}, the https URL of the keys of the OAuth provider.")
    missing = [name for name, value in ((AUDIENCE, audiences), (ISSUER, issuer)) if not value]
    if missing and not values[ACCEPT_ANY]:
        raise _invalid(
            f"OAUTHBEARER needs {' and '.join(missing)}, or tokens that were issued for other services would "
            f"be accepted; {ACCEPT_ANY}=true accepts them."
        )
    allowed = hosts or ((urlsplit(url).hostname or "",) if _is_url(url) else ())
    check_url(url, allowed)
    return OauthBearer(
        url=url,
        allowed_hosts=allowed,
        truststore_location=_text(values, TRUSTSTORE_LOCATION),
        pauses=JwksPauses(
            _number(values, "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            _number(values, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
            _number(values, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        ),
        rules=TokenRules(
            audiences=frozenset(audiences),
            issuer=issuer,
            clock_skew_s=_number(values, "sasl.oauthbearer.clock.skew.seconds"),
            subject_claim=_text(values, "sasl.oauthbearer.sub.claim.name") or "sub",
            scope_claim=_text(values, "sasl.oauthbearer.scope.claim.name") or "scope",
        ),
    )


def check_url(url: str, allowed_hosts: tuple[str, ...]) -> None:
    """Raise INVALID_CONFIG unless keys may be fetched from the URL."""
    if not _is_url(url):
        raise _refused(url, "it is not a URL")
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise _refused(url, "only https proves the origin of the keys")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise _refused(url, "it has a user, a password or a fragment")
    if not parts.hostname or parts.hostname not in {one.lower() for one in allowed_hosts}:
        raise _refused(url, f"its host is not in {ALLOWED_HOSTS}")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _refused(url: str, reason: str) -> KafkaError:
    return _invalid(f"Keys of an OAuth provider are not fetched from {url[:200]}: {reason}.")


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, detail)


def _text(values: Mapping[str, ConfigValue], name: str) -> str | None:
    value = values[name]
    return value.strip() or None if isinstance(value, str) else None


def _words(values: Mapping[str, ConfigValue], name: str) -> tuple[str, ...]:
    value = values[name]
    return tuple(one for one in value if one) if isinstance(value, tuple) else ()


def _number(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
