"""The broker settings of TLS and logins of the REST API, and the resolved result.

The settings of TLS are those of listeners with the prefix `ottla.rest.`; if one is not set, the setting
without the prefix is used. `ottla.rest.ssl.client.auth` is the exception: it alone decides if clients show a
certificate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from ottla.logstore.words.config_def import ConfigKey, ConfigValue, at_least, list_of
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.listener_settings import Listener, is_loopback
from ottla.node.settings.oauthbearer_settings import OauthBearer, oauth_bearer
from ottla.node.settings.rest_settings import RestAddress
from ottla.node.settings.security_settings import NONE, TLS_SETTINGS, ListenerSecurity, listener_security
from ottla.node.settings.setting import BOOLEAN, HIGH, LIST, LONG, LOW, setting

REST: Final = "REST API"  # used like the name of a listener, but listeners cannot have a blank in theirs
BASIC, BEARER, CERTIFICATE = "basic", "bearer", "certificate"
AUTHENTICATION: Final = "ottla.rest.authentication"
WITHOUT_TLS: Final = "ottla.rest.authentication.without.tls"
METRICS_PRINCIPALS: Final = "ottla.rest.metrics.principals"
SESSION_IDLE_MS: Final = "ottla.rest.session.idle.ms"
SESSION_MAX_MS: Final = "ottla.rest.session.max.ms"
PREFIX: Final = "ottla.rest."
CLIENT_AUTH: Final = "ssl.client.auth"
# No node connects to the REST API, so no name in a certificate is checked.
_NOT_OF_REST: Final = frozenset({"ssl.endpoint.identification.algorithm"})
_OF_REST: Final = tuple(key for key in TLS_SETTINGS if key.name not in _NOT_OF_REST)
REST_TLS_NAMES: Final = frozenset(PREFIX + key.name for key in _OF_REST)


def _of_rest(key: ConfigKey) -> ConfigKey:
    """Return the setting of the REST API for a TLS setting of listeners."""
    is_own = key.name == CLIENT_AUTH
    documentation = (
        "Certificates of clients at https addresses of the REST API: required rejects clients without one, "
        "requested accepts them, none does not ask for one."
        if is_own
        else f"{key.name} for the https addresses of the REST API. If not set, {key.name} is used."
    )
    return replace(
        key,
        name=PREFIX + key.name,
        default=NONE if is_own else None,
        documentation=documentation,
        prefixed_scope=None,
    )


REST_SECURITY_SETTINGS: Final[tuple[ConfigKey, ...]] = (
    setting(
        AUTHENTICATION,
        LIST,
        (),
        "How clients of the REST API log in: basic (user and password of a SCRAM user), bearer (an access "
        "token, checked by the rules of sasl.oauthbearer.*), certificate (by TLS; see "
        "ottla.rest.ssl.client.auth). A client that logs in by none of these gets status 401. If empty, "
        "every client is User:ANONYMOUS.",
        list_of(BASIC, BEARER, CERTIFICATE),
        importance=HIGH,
    ),
    setting(
        WITHOUT_TLS,
        BOOLEAN,
        False,
        "Allow basic and bearer at addresses of the REST API without TLS that are not loopback addresses: "
        "anyone on the network path can read the passwords and tokens.",
        importance=LOW,
    ),
    setting(
        METRICS_PRINCIPALS,
        LIST,
        (),
        "The principals that may read /metrics besides those with DESCRIBE on the cluster, such as "
        "User:prometheus; User:* stands for every client, even without a login.",
    ),
    setting(
        SESSION_IDLE_MS,
        LONG,
        1_800_000,
        "How long a login to the console lasts without a request, in milliseconds.",
        at_least(1_000),
        importance=LOW,
    ),
    setting(
        SESSION_MAX_MS,
        LONG,
        43_200_000,
        "The maximum duration of a login to the console, in milliseconds.",
        at_least(1_000),
        importance=LOW,
    ),
    *map(_of_rest, _OF_REST),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestLogins:
    """The logins of the REST API. Without `methods` there are none."""

    methods: tuple[str, ...] = ()
    tokens: OauthBearer | None = None  # for `bearer`
    session_idle_ms: int = 1_800_000
    session_max_ms: int = 43_200_000
    metrics_principals: frozenset[str] = frozenset()
    warning: str = ""


def rest_security(
    addresses: Sequence[RestAddress], values: Mapping[str, ConfigValue], texts: Mapping[str, str]
) -> ListenerSecurity | None:
    """Return the TLS of the REST API; None if none of its addresses has any.

    INVALID_CONFIG if these settings contradict. `texts` has those that were set, without defaults.
    """
    if not any(address.is_secure for address in addresses):
        given = sorted(REST_TLS_NAMES.intersection(texts))
        if given and addresses:
            raise _invalid(
                given[0],
                "the REST API has no https address, so its connections are not encrypted. Add one "
                "(ottla.rest.listeners), or remove the setting if you accept that.",
            )
        return None
    overrides = {
        key.name: value for key in _OF_REST if (value := values[PREFIX + key.name]) not in (None, "")
    }
    found = {**values, **overrides}
    if not any(found[f"ssl.keystore.{name}"] for name in ("location", "key", "certificate.chain")):
        raise _invalid(
            f"{PREFIX}ssl.keystore.location",
            "https addresses in ottla.rest.listeners need this setting, or ssl.keystore.location: a file "
            "with a private key and its certificate.",
        )
    listener = Listener(name=REST, host="", port=0, security_protocol="HTTPS")
    return listener_security(listener, values, overrides)


def rest_logins(
    addresses: Sequence[RestAddress],
    security: ListenerSecurity | None,
    values: Mapping[str, ConfigValue],
) -> RestLogins:
    """Return the logins of the REST API; INVALID_CONFIG if they cannot work, or passwords could be read."""
    methods = tuple(dict.fromkeys(cast("tuple[str, ...]", values[AUTHENTICATION])))
    if CERTIFICATE in methods and (security is None or security.client_auth == NONE):
        raise _invalid(
            AUTHENTICATION,
            f"certificate needs an https address in ottla.rest.listeners, and {PREFIX}{CLIENT_AUTH}="
            "requested or required.",
        )
    warning = ""
    readable = [one for one in addresses if not one.is_secure and not is_loopback(one.host)]
    if readable and {BASIC, BEARER}.intersection(methods):
        place = readable[0].url
        if not values[WITHOUT_TLS]:
            raise _invalid(
                AUTHENTICATION,
                f"{place} has no TLS, so anyone on the network path could read passwords and tokens. Use "
                "https:// or a loopback address in ottla.rest.listeners, or set "
                f"{WITHOUT_TLS}=true if you accept that.",
            )
        warning = (
            f"The REST API accepts passwords or tokens at {place} without TLS: anyone on the network "
            "path can read them."
        )
    tokens = None
    if BEARER in methods:
        try:
            tokens = oauth_bearer(values)
        except KafkaError as error:
            raise _invalid(AUTHENTICATION, f"it includes bearer. {error.detail}") from None
    return RestLogins(
        methods=methods,
        tokens=tokens,
        session_idle_ms=cast(int, values[SESSION_IDLE_MS]),
        session_max_ms=cast(int, values[SESSION_MAX_MS]),
        metrics_principals=frozenset(cast("tuple[str, ...]", values[METRICS_PRINCIPALS])),
        warning=warning,
    )


def _invalid(name: str, problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid configuration {name}: {problem}")
