"""The broker settings of SASL, and the result for one listener.

Most can be set for all listeners or for one, as in `listener.name.NAME.sasl.enabled.mechanisms`; settings of
one mechanism also have its name, as in `listener.name.NAME.plain.sasl.jaas.config`. `listener_sasl` resolves
that once. A default that is not Kafka's: the size of requests before the login is smaller.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

from ottla.logstore.words.config_def import ConfigKey, ConfigScope, ConfigValue, at_least
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.listener_settings import Listener
from ottla.node.settings.oauthbearer_settings import (
    OAUTHBEARER_SETTINGS,
    OauthBearer,
    oauth_bearer,
)
from ottla.node.settings.setting import BOOLEAN, INT, LIST, LONG, LOW, PASSWORD, STRING, setting
from ottla.node.wire.jaas import JaasError, parse_jaas
from ottla.node.wire.sasl_mechanisms import LOGIN_MODULES, OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

ENABLED_MECHANISMS: Final = "sasl.enabled.mechanisms"
JAAS_CONFIG: Final = "sasl.jaas.config"
MAX_REAUTH_MS: Final = "connections.max.reauth.ms"
MAX_RECEIVE_SIZE: Final = "sasl.server.max.receive.size"
BETWEEN_NODES: Final = "sasl.mechanism.inter.broker.protocol"
OF_CONTROLLERS: Final = "sasl.mechanism.controller.protocol"
FAILED_DELAY_MS: Final = "connection.failed.authentication.delay.ms"
PLAIN_WITHOUT_TLS: Final = "ottla.sasl.plain.without.tls"
NODE_MECHANISMS: Final = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN)  # by which nodes may log in to each other
_NO_USERS_YET: Final = (
    "the SCRAM users of the cluster are in the metadata, which a node can read only once it is connected to "
    "a controller"
)
_USER_PREFIX: Final = "user_"
_PER_BROKER: Final = ConfigScope.PER_BROKER

SASL_SETTINGS: Final[tuple[ConfigKey, ...]] = (
    setting(
        ENABLED_MECHANISMS,
        LIST,
        ("GSSAPI",),
        "The mechanisms by which clients of SASL listeners log in: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, "
        "OAUTHBEARER. A node with a SASL listener needs it, since Kafka's default, GSSAPI, is not supported.",
        of_listener=_PER_BROKER,
    ),
    setting(
        JAAS_CONFIG,
        PASSWORD,
        None,
        "The users of PLAIN at one listener (listener.name.NAME.plain.sasl.jaas.config): a PlainLoginModule "
        'with an option user_NAME="PASSWORD" for each. Without one, PLAIN has the SCRAM users of the '
        "cluster. With the options username and password, also of a ScramLoginModule, this node logs in "
        "to other nodes.",
        of_listener=_PER_BROKER,
    ),
    setting(
        BETWEEN_NODES,
        STRING,
        "GSSAPI",
        "The mechanism by which nodes log in to each other: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN. A node "
        "whose inter.broker.listener.name has SASL needs it: Kafka's default, GSSAPI, is not supported.",
    ),
    setting(
        OF_CONTROLLERS,
        STRING,
        "GSSAPI",
        "The mechanism by which nodes log in to controller listeners with SASL: PLAIN. SCRAM would need the "
        "metadata, which a node can read only after this login.",
    ),
    setting(
        MAX_REAUTH_MS,
        LONG,
        0,
        "How long a login with SASL lasts, in milliseconds. A client that does not log in again in time is "
        "disconnected. With 0 a login lasts as long as its connection.",
        of_listener=_PER_BROKER,
    ),
    setting(
        MAX_RECEIVE_SIZE,
        INT,
        65_536,
        "The maximum size in bytes of a request before the login.",
        at_least(1),
    ),
    setting(
        FAILED_DELAY_MS,
        INT,
        100,
        "The minimum delay in milliseconds of the response to a failed login and the end of its connection, "
        "and of the end of a connection whose TLS handshake failed.",
        at_least(0),
        importance=LOW,
    ),
    setting(
        PLAIN_WITHOUT_TLS,
        BOOLEAN,
        False,
        "Allow PLAIN and OAUTHBEARER at SASL_PLAINTEXT listeners: anyone on the network path can read the "
        "passwords and tokens.",
        importance=LOW,
    ),
    *OAUTHBEARER_SETTINGS,
)
SASL_NAMES: Final = frozenset(key.name for key in SASL_SETTINGS)
# Settings that can be set for one listener, and below those of one mechanism at a listener.
SASL_LISTENER_SETTINGS: Final = SASL_NAMES - {
    JAAS_CONFIG,
    FAILED_DELAY_MS,
    BETWEEN_NODES,
    OF_CONTROLLERS,
}
_OF_A_MECHANISM: Final = re.compile(
    r"listener\.name\.([A-Za-z0-9_.-]+)\."
    rf"({'|'.join(map(re.escape, LOGIN_MODULES))})\.({re.escape(JAAS_CONFIG)}|{re.escape(MAX_REAUTH_MS)})",
    re.IGNORECASE,
)


class MechanismSetting(NamedTuple):
    """The parts of the name of a setting for one mechanism at one listener."""

    listener: str
    mechanism: str
    setting: str


def mechanism_setting(name: str) -> MechanismSetting | None:
    """Return the parts of a name such as `listener.name.inner.plain.sasl.jaas.config`; None for others."""
    match = _OF_A_MECHANISM.fullmatch(name)
    return None if match is None else MechanismSetting(match[1].upper(), match[2].upper(), match[3].lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLogin:
    """The user by which a node logs in to other nodes."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismSettings:
    """The settings of one mechanism at a listener.

    `passwords` are those of PLAIN's own users; None: the SCRAM users of the cluster. `tokens` are those that
    OAUTHBEARER accepts. `node_login` is the user of this node at such listeners of other nodes.
    """

    name: str
    max_reauth_ms: int
    passwords: Mapping[str, str] | None = field(default=None, repr=False)
    tokens: OauthBearer | None = None
    node_login: NodeLogin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSasl:
    """The settings of SASL of one listener, resolved."""

    listener: str
    mechanisms: Mapping[str, MechanismSettings]  # by name, in the order of SaslHandshake responses
    max_receive_bytes: int
    failed_delay_ms: int
    warning: str = ""


def listener_sasl(
    listener: Listener,
    values: Mapping[str, ConfigValue],
    overrides: Mapping[str, ConfigValue],
    of_mechanisms: Mapping[tuple[str, str], ConfigValue],
) -> ListenerSasl:
    """Return the resolved settings of a SASL listener.

    `overrides` are its own settings without prefix, `of_mechanisms` those by mechanism and setting.
    INVALID_CONFIG, which names the listener, if they contradict.
    """

    def invalid(name: str, reason: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid configuration {name}: the listener {listener.name} ({listener.security_protocol}) "
            f"{reason}",
        )

    found = {name: overrides.get(name, values[name]) for name in SASL_LISTENER_SETTINGS}
    if values[JAAS_CONFIG]:
        raise invalid(
            JAAS_CONFIG,
            "does not read it: each mechanism has a setting of its own, such as "
            f"listener.name.{listener.name.lower()}.plain.{JAAS_CONFIG}.",
        )
    names = tuple(
        dict.fromkeys(one.strip().upper() for one in cast("tuple[str, ...]", found[ENABLED_MECHANISMS]))
    )
    for name in names:
        if name not in LOGIN_MODULES:
            raise invalid(
                ENABLED_MECHANISMS,
                f"cannot use {name[:80]}, which is not supported. Name one or more of "
                f"{', '.join(LOGIN_MODULES)}; SCRAM-SHA-512 is recommended.",
            )
    if not names:
        raise invalid(ENABLED_MECHANISMS, f"needs one of {', '.join(LOGIN_MODULES)}.")
    warning = ""
    if PLAIN in names and not listener.has_tls:
        if not found[PLAIN_WITHOUT_TLS]:
            raise invalid(
                ENABLED_MECHANISMS,
                "has no TLS, so PLAIN would send passwords that anyone on the network path can read. Use "
                f"SCRAM-SHA-512 or a SASL_SSL listener, or set {PLAIN_WITHOUT_TLS}=true if you accept that.",
            )
        warning = (
            f"The listener {listener.name} accepts passwords by PLAIN without TLS: anyone on the network "
            "path can read them."
        )
    tokens = None
    if OAUTHBEARER in names:
        if not listener.has_tls and not found[PLAIN_WITHOUT_TLS]:
            raise invalid(
                ENABLED_MECHANISMS,
                "has no TLS, so OAUTHBEARER would send tokens that anyone on the network path can use. "
                f"Use a SASL_SSL listener, or set {PLAIN_WITHOUT_TLS}=true if you accept that.",
            )
        try:
            tokens = oauth_bearer(found)
        except KafkaError as error:
            raise invalid(ENABLED_MECHANISMS, f"has OAUTHBEARER. {error.detail}") from None
    mechanisms: dict[str, MechanismSettings] = {}
    for name in names:
        jaas = of_mechanisms.get((name, JAAS_CONFIG))
        passwords, own_login = None, None
        if jaas is not None:
            jaas_name = f"listener.name.{listener.name.lower()}.{name.lower()}.{JAAS_CONFIG}"
            try:
                options = _options_of(str(jaas), LOGIN_MODULES[name])
                own_login = _node_login(name, options)
                # If the module has only the login of this node, PLAIN has the SCRAM users of the cluster.
                if name == PLAIN and (own_login is None or _users_of(options)):
                    passwords = _users_of(options)
            except JaasError as error:
                raise invalid(jaas_name, f"has no usable login module: {error}.") from None
        max_reauth = of_mechanisms.get((name, MAX_REAUTH_MS), found[MAX_REAUTH_MS])
        mechanisms[name] = MechanismSettings(
            name=name,
            max_reauth_ms=cast(int, max_reauth),
            passwords=passwords,
            tokens=tokens if name == OAUTHBEARER else None,
            node_login=own_login,
        )
    return ListenerSasl(
        listener=listener.name,
        mechanisms=mechanisms,
        max_receive_bytes=cast(int, found[MAX_RECEIVE_SIZE]),
        failed_delay_ms=cast(int, values[FAILED_DELAY_MS]),
        warning=warning,
    )


def _options_of(text: str, module_name: str) -> Mapping[str, str]:
    """Return the options of the login module `module_name`; JaasError if the text has another or several."""
    modules = parse_jaas(text)
    if len(modules) != 1:
        raise JaasError(f"it has {len(modules)} login modules instead of one")
    if modules[0].name.rpartition(".")[2] != module_name:
        raise JaasError(f"it must be {module_name}")
    return modules[0].options


def _users_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords in the options of a login module, by user."""
    return {
        option.removeprefix(_USER_PREFIX): value
        for option, value in options.items()
        if option.startswith(_USER_PREFIX) and option != _USER_PREFIX
    }


def _node_login(mechanism: str, options: Mapping[str, str]) -> NodeLogin | None:
    """Return the user of this node in the options of a login module, or None."""
    user, password = options.get("username", ""), options.get("password", "")
    if mechanism not in NODE_MECHANISMS or not (user and password):
        return None
    if "\0" in user + password:
        raise JaasError("its username or password has a NUL character")
    return NodeLogin(mechanism=mechanism, user=user, password=password)


def controller_login(listener: ListenerSasl, mechanism: str, *, is_open: bool) -> NodeLogin:
    """Return the user of this node at a controller listener; INVALID_CONFIG if there is none.

    A listener that `is_open` on this node also needs users that may log in.
    """
    if mechanism != PLAIN:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid configuration {OF_CONTROLLERS}: it is {mechanism[:80]}, and the listener "
            f"{listener.listener} has SASL. It must be PLAIN: {_NO_USERS_YET}.",
        )
    found = node_login(listener, mechanism, OF_CONTROLLERS)
    if is_open and not listener.mechanisms[PLAIN].passwords:
        name = f"listener.name.{listener.listener.lower()}.plain.{JAAS_CONFIG}"
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f'Invalid configuration {name}: it needs users that may log in (user_NAME="..."): '
            f"{_NO_USERS_YET}.",
        )
    return found


def node_login(listener: ListenerSasl, mechanism: str, setting_name: str = BETWEEN_NODES) -> NodeLogin:
    """Return the user of this node at such listeners of other nodes; INVALID_CONFIG if there is none."""
    if mechanism not in NODE_MECHANISMS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid configuration {setting_name}: it is {mechanism[:80]}, and nodes reach each other by "
            f"the listener {listener.listener}, which has SASL. It must be one of "
            f"{', '.join(NODE_MECHANISMS)}.",
        )
    found = listener.mechanisms.get(mechanism)
    if found is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid configuration {setting_name}: it is {mechanism}, which the listener "
            f"{listener.listener} does not have in {ENABLED_MECHANISMS}.",
        )
    if found.node_login is None:
        name = f"listener.name.{listener.listener.lower()}.{mechanism.lower()}.{JAAS_CONFIG}"
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid configuration {name}: nodes log in to each other by {mechanism}, so it needs a "
            f'{LOGIN_MODULES[mechanism]} with username="..." and password="...".',
        )
    return found.node_login
