"""Rejects settings of security that would have no effect, so that the node does not start.

Otherwise it would be open although its operator believes it to be closed. This covers settings that Ottla
does not honour, misspelt names, and settings of listeners or mechanisms that do not exist. Pure.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.authorization_settings import (
    ALLOW_EVERYONE,
    AUTHORIZER_CLASS,
    OF_AUTHORIZER,
    STANDARD_AUTHORIZER,
)
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.oauthbearer_settings import OAUTHBEARER_NAMES
from ottla.node.settings.sasl_settings import (
    ENABLED_MECHANISMS,
    FAILED_DELAY_MS,
    JAAS_CONFIG,
    MAX_REAUTH_MS,
    OF_CONTROLLERS,
    SASL_LISTENER_SETTINGS,
    SASL_NAMES,
)
from ottla.node.settings.security_settings import LISTENER_SETTINGS
from ottla.node.settings.settings_not_honoured import NOT_HONOURED, restricts
from ottla.node.wire.sasl_mechanisms import LOGIN_MODULES, OAUTHBEARER

OF_LISTENERS: Final = "listener.name."
CLIENT_AUTH: Final = "ssl.client.auth"
CONFIG_PROVIDERS: Final = "config.providers"
MAX_WORDS: Final = 12  # in the name of a setting; Kafka's have up to eight
_MAX_SHOWN: Final = 200
_OF_SECURITY: Final = (
    "ssl.",
    "sasl.",
    "security.",
    "authorizer.",
    "principal.",
    "delegation.token.",
    "super.",
    "ottla.secur",
    "ottla.sasl.",
    "ottla.rest.",
    "ottla.audit.",
    "ottla.failed.",
    "cluster.secr",
)
_MORE_OF_SECURITY: Final = frozenset(
    {ALLOW_EVERYONE, MAX_REAUTH_MS, FAILED_DELAY_MS, "listener.security.protocol.map"}
)


class Honoured(NamedTuple):
    """The parts of a node that settings of security can apply to; listeners in upper case."""

    listeners: Collection[str]  # open ones, controller listeners, and those in the protocol map
    with_tls: Collection[str]
    with_ssl: Collection[str]  # where certificates name clients: with SASL they log in
    mechanisms: Mapping[str, Collection[str]]  # of listeners with SASL, controller listeners too
    controllers_log_in: bool
    rest_has_tls: bool
    rest_takes_tokens: bool
    has_authorizer: bool


class _Scope(NamedTuple):
    """The parts of a name: `listener` is empty for the whole node, `mechanism` for a whole listener."""

    listener: str
    mechanism: str
    setting: str


def refuse_unhonoured(texts: Mapping[str, str], honoured: Honoured) -> None:
    """Raise INVALID_CONFIG for the first setting that promises security which this node does not provide."""
    for name, value in texts.items():
        if not value.strip():
            continue
        if name.startswith(OF_LISTENERS):
            problem = _of_listener(_scope_of(name, honoured.listeners), value, honoured)
        else:
            problem = _of_node(name, value, honoured)
            if problem is None and name == CLIENT_AUTH and restricts(name, value):
                own = {f"{OF_LISTENERS}{listener.lower()}.{CLIENT_AUTH}" for listener in honoured.with_ssl}
                problem = None if own - texts.keys() else _without("SSL and no value of its own")
        if problem is not None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Invalid configuration {name[:_MAX_SHOWN]}: {problem}"
            )


def plain_name(name: str) -> str:
    """Return the name of a setting without the prefix of a listener or a SASL mechanism."""
    return _split(name)[1]


def _split(name: str) -> tuple[str, str]:
    """Return the part between `listener.name.` and the name of a known setting, and that name."""
    if not name.startswith(OF_LISTENERS):
        return "", name
    words = name.removeprefix(OF_LISTENERS).split(".")
    for at in range(max(1, len(words) - MAX_WORDS), len(words)):
        setting = ".".join(words[at:])
        if setting in BROKER_CONFIG_DEF or setting in NOT_HONOURED:
            return ".".join(words[:at]), setting
    return words[0], ".".join(words[1:])


def _scope_of(name: str, listeners: Collection[str]) -> _Scope:
    """Return the parts of a name. A listener's name may have dots: `listeners` show where it ends."""
    where, setting = _split(name)
    where = where.upper()
    listener, _, mechanism = where.rpartition(".")
    if where in listeners or not listener:
        return _Scope(where, "", setting)
    if listener in listeners or mechanism in LOGIN_MODULES:
        return _Scope(listener, mechanism, setting)
    return _Scope(*where.partition(".")[::2], setting)


def _is_of_security(setting: str) -> bool:
    """Return True for the name of a setting of security; in upper case too, which would have no effect."""
    lower = plain_name(setting.lower())
    return lower.startswith(_OF_SECURITY) or lower in _MORE_OF_SECURITY or lower.endswith("jaas.config")


def _of_node(name: str, value: str, honoured: Honoured) -> str | None:
    """Return the problem of a setting of the whole node, or None."""
    if name not in BROKER_CONFIG_DEF and name not in NOT_HONOURED:
        return _unknown() if _is_of_security(name) else None
    if not restricts(name, value):
        return None
    if name in LISTENER_SETTINGS:
        if honoured.with_tls or (honoured.rest_has_tls and name != CLIENT_AUTH):
            return None
        return _without("TLS")
    if name in SASL_NAMES:
        if name in OAUTHBEARER_NAMES:
            return None if honoured.rest_takes_tokens else _of_tokens(honoured.mechanisms.values())
        has_logins = honoured.controllers_log_in if name == OF_CONTROLLERS else bool(honoured.mechanisms)
        return None if has_logins else _without("SASL")
    if name in OF_AUTHORIZER and not honoured.has_authorizer:
        return (
            "there is no authorizer, so every client may use all topics and groups. Set "
            f"{AUTHORIZER_CLASS}={STANDARD_AUTHORIZER}, or remove the setting if you accept that."
        )
    if name == CONFIG_PROVIDERS:
        return "providers are not supported, so ${file:...} would be taken literally. Write the values."
    return None if name in BROKER_CONFIG_DEF else _not_enforced()


def _of_listener(scope: _Scope, value: str, honoured: Honoured) -> str | None:
    """Return the problem of a setting of one listener, or None."""
    listener, mechanism, setting = scope
    if not _is_of_security(setting) and not restricts(setting, value):
        return None
    if listener not in honoured.listeners:
        return (
            f"there is no listener {listener[:_MAX_SHOWN]}. Name one of "
            f"{', '.join(sorted(honoured.listeners))}, or remove the setting."
        )
    if mechanism:
        return _of_mechanism(scope, honoured)
    if setting == JAAS_CONFIG:
        return (
            "each mechanism of a listener has users of its own, so name the mechanism, too, as in "
            f"{OF_LISTENERS}{listener.lower()}.plain.{JAAS_CONFIG}."
        )
    if setting in LISTENER_SETTINGS:
        supporting = honoured.with_ssl if setting == CLIENT_AUTH else honoured.with_tls
        if listener in supporting or not restricts(setting, value):
            return None
        return _without("SSL" if listener in honoured.with_tls else "TLS", listener)
    if setting in SASL_LISTENER_SETTINGS:
        if not restricts(setting, value):
            return None
        if listener not in honoured.mechanisms:
            return _without("SASL", listener)
        return _of_tokens([honoured.mechanisms[listener]]) if setting in OAUTHBEARER_NAMES else None
    if setting in BROKER_CONFIG_DEF:
        return f"it cannot be set for one listener. Write {setting} for all of them."
    if setting in NOT_HONOURED:
        return _not_enforced() if restricts(setting, value) else None
    return _unknown()


def _of_mechanism(scope: _Scope, honoured: Honoured) -> str | None:
    """Return the problem of a setting of one mechanism at a listener, or None."""
    listener, mechanism, setting = scope
    if listener not in honoured.mechanisms:
        return _without("SASL", listener)
    if mechanism not in LOGIN_MODULES:
        known = ", ".join(LOGIN_MODULES)
        return f"there is no mechanism {mechanism[:_MAX_SHOWN]} here. It must be one of {known}."
    if setting not in (JAAS_CONFIG, MAX_REAUTH_MS):
        return f"only {JAAS_CONFIG} and {MAX_REAUTH_MS} can be set for one mechanism of a listener."
    if mechanism not in honoured.mechanisms[listener]:
        return f"the listener {listener} does not have {mechanism} in {ENABLED_MECHANISMS}."
    return None


def _of_tokens(mechanisms: Iterable[Collection[str]]) -> str | None:
    """Return the problem of a setting of OAUTHBEARER: no listener has it. None if one has."""
    if any(OAUTHBEARER in one for one in mechanisms):
        return None
    return f"there is no listener with {OAUTHBEARER} in {ENABLED_MECHANISMS}. Add it, or remove the setting."


def _without(what: str, listener: str = "") -> str:
    return (
        f"there is no listener {f'{listener} ' if listener else ''}with {what}, so every client that can "
        "connect has access to this node. Add one (listeners, listener.security.protocol.map), or remove the "
        "setting if you accept that."
    )


def _not_enforced() -> str:
    return (
        "Ottla does not enforce it yet, so every client that can connect has access to this node. Remove the "
        "setting if you accept that."
    )


def _unknown() -> str:
    return "Ottla does not know this setting, so it secures nothing. Correct its name, or remove it."
