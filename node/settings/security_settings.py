"""The broker settings of TLS, and the result for one listener.

A setting can be set for all listeners, or for one, as in `listener.name.NAME.ssl.keystore.location`, which
wins, as in Apache Kafka. `listener_security` resolves that once, into a frozen `ListenerSecurity`; no other
code handles prefixes. Files are not opened here, so that a configuration can be checked without them.

A default that is not Kafka's: the type of stores is PEM. Kafka's is JKS, which only Java reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from ottla.logstore.words.config_def import ConfigKey, ConfigScope, ConfigValue, Validator, list_of, one_of
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.listener_settings import Listener
from ottla.node.settings.setting import BOOLEAN, HIGH, LIST, LOW, PASSWORD, STRING, setting
from ottla.node.tls.store_settings import (
    PEM,
    PKCS12,
    TLS_1_2,
    TLS_1_3,
    StoreSettings,
    keystore_problem,
    store_problem,
    type_problem,
)

HTTPS: Final = "https"
NONE: Final = "none"
REQUESTED: Final = "requested"
REQUIRED: Final = "required"
_PER_BROKER: Final = ConfigScope.PER_BROKER

_STORE_TYPE: Final = Validator(allowed=f"[{PEM}, {PKCS12}]", problem_of=type_problem)

TLS_SETTINGS: Final[tuple[ConfigKey, ...]] = (
    setting(
        "ssl.client.auth",
        STRING,
        NONE,
        "Certificates of clients at SSL listeners: required rejects clients without one, requested accepts "
        "them, none does not ask for one. For a SASL_SSL listener, only its own setting is used "
        "(listener.name.NAME.ssl.client.auth).",
        one_of(REQUIRED, REQUESTED, NONE, ignore_case=True),
    ),
    setting(
        "ssl.enabled.protocols",
        LIST,
        (TLS_1_2, TLS_1_3),
        "The versions of TLS that clients may use.",
        list_of(TLS_1_2, TLS_1_3, may_be_empty=False),
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.cipher.suites",
        LIST,
        (),
        "The cipher suites that clients may use, by their IANA names. If empty, those that OpenSSL considers "
        "secure. The suites of TLS 1.3 can only be allowed all together.",
        importance=LOW,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.keystore.type",
        STRING,
        PEM,
        "The format of the keystore: PEM, or PKCS12, which needs ssl.keystore.password.",
        _STORE_TYPE,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.keystore.location",
        STRING,
        None,
        "A file with this node's private key and certificate chain, for SSL listeners. It is read again "
        "when it changes.",
        importance=HIGH,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.keystore.password",
        PASSWORD,
        None,
        "The password of a keystore of type PKCS12.",
        importance=HIGH,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.key.password",
        PASSWORD,
        None,
        "The password of the private key in the keystore.",
        importance=HIGH,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "The private key itself (PEM), instead of a keystore file.",
        importance=HIGH,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The certificate chain itself (PEM), instead of a keystore file; this node's certificate is first.",
        importance=HIGH,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.truststore.type",
        STRING,
        PEM,
        "The format of the truststore: PEM or PKCS12.",
        _STORE_TYPE,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.truststore.location",
        STRING,
        None,
        "A file with the certificates of the authorities that sign the certificates of clients and of other "
        "nodes. It is read again when it changes.",
        importance=HIGH,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.truststore.password",
        PASSWORD,
        None,
        "The password of a truststore of type PKCS12.",
        importance=HIGH,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The certificates of the authorities themselves (PEM), instead of a truststore file.",
        importance=HIGH,
        of_listener=_PER_BROKER,
    ),
    setting(
        "ssl.endpoint.identification.algorithm",
        STRING,
        HTTPS,
        "How this node checks the certificates of other nodes. With https, a certificate must name node-ID, "
        "with the id of that node, or a host at which the cluster knows it. If empty, any certificate of an "
        "authority in the truststore is accepted.",
        Validator(
            allowed=f"[{HTTPS}, (empty)]",
            problem_of=lambda value: None if value in (HTTPS, "HTTPS", "") else "it must be https or empty.",
        ),
        importance=LOW,
    ),
    setting(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "How the distinguished name of a client's certificate becomes the name of its principal: a list of "
        "RULE:PATTERN/REPLACEMENT/[LU] and DEFAULT, the name itself; the first match is used. Patterns have "
        "the syntax of RE2.",
        importance=LOW,
    ),
    setting(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        "If true, a keystore that changes while the node runs may have a certificate with another "
        "distinguished name.",
        importance=LOW,
    ),
    setting(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        "If true, a keystore that changes while the node runs may have a certificate that lacks subject "
        "alternative names of the current one.",
        importance=LOW,
    ),
)
# Each of them can also be set for one listener.
LISTENER_SETTINGS: Final = frozenset(key.name for key in TLS_SETTINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """The resolved TLS settings of one listener."""

    listener: str
    keystore: StoreSettings
    truststore: StoreSettings | None  # None: no certificate is trusted
    client_auth: str
    enabled_protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    principal_mapping_rules: str
    allow_dn_changes: bool
    allow_san_changes: bool
    is_between_nodes: bool = False  # nodes connect to it, and check its certificate
    has_logins: bool = False  # clients log in, and need not show a certificate
    checks_names: bool = True  # the certificate of a node must have its name
    needs_node_id: bool = False  # the name must be node-ID: a host is not enough


def listener_security(
    listener: Listener,
    values: Mapping[str, ConfigValue],
    overrides: Mapping[str, ConfigValue],
    *,
    is_between_nodes: bool = False,
    has_logins: bool = False,
) -> ListenerSecurity:
    """Return the resolved TLS settings of a listener; `overrides` are its own settings, without prefix.

    INVALID_CONFIG, which names the listener, if they contradict.
    """
    found = {name: overrides.get(name, values[name]) for name in LISTENER_SETTINGS}
    keystore = StoreSettings(
        type=str(found["ssl.keystore.type"]),
        location=_text(found["ssl.keystore.location"]),
        password=_text(found["ssl.keystore.password"]),
        key_password=_text(found["ssl.key.password"]),
        key=_text(found["ssl.keystore.key"]),
        certificates=_text(found["ssl.keystore.certificate.chain"]),
    )
    truststore = StoreSettings(
        type=str(found["ssl.truststore.type"]),
        location=_text(found["ssl.truststore.location"]),
        password=_text(found["ssl.truststore.password"]),
        certificates=_text(found["ssl.truststore.certificates"]),
    )
    is_of_all = "ssl.client.auth" not in overrides
    with_sasl = listener.security_protocol == "SASL_SSL"
    client_auth = NONE if with_sasl and is_of_all else str(found["ssl.client.auth"]).lower()
    is_trusting = truststore.is_given
    problem = (
        _keystore_problem(keystore)
        or store_problem("ssl.truststore", truststore)
        or _client_auth_problem(client_auth, is_trusting)
        or _between_nodes_problem(is_between_nodes, is_trusting)
    )
    if problem is not None:
        name, reason = problem
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid configuration {name}: the listener {listener.name} "
            f"({listener.security_protocol}) {reason}",
        )
    return ListenerSecurity(
        listener=listener.name,
        keystore=keystore,
        truststore=truststore if is_trusting else None,
        client_auth=client_auth,
        enabled_protocols=cast("tuple[str, ...]", found["ssl.enabled.protocols"]),
        cipher_suites=cast("tuple[str, ...]", found["ssl.cipher.suites"]),
        principal_mapping_rules=str(found["ssl.principal.mapping.rules"]),
        allow_dn_changes=bool(found["ssl.allow.dn.changes"]),
        allow_san_changes=bool(found["ssl.allow.san.changes"]),
        is_between_nodes=is_between_nodes,
        has_logins=has_logins,
        checks_names=str(found["ssl.endpoint.identification.algorithm"]).lower() == HTTPS,
    )


def _keystore_problem(store: StoreSettings) -> tuple[str, str] | None:
    """Return the wrong or missing setting, and the reason as a predicate of the listener; or None."""
    if not store.is_given:
        return (
            "ssl.keystore.location",
            "needs this setting, or ssl.keystore.key and ssl.keystore.certificate.chain.",
        )
    return keystore_problem(store)


def _client_auth_problem(client_auth: str, is_trusting: bool) -> tuple[str, str] | None:
    if client_auth == NONE or is_trusting:
        return None
    return (
        "ssl.truststore.location",
        f"asks clients for a certificate (ssl.client.auth={client_auth}), so it needs this setting or "
        "ssl.truststore.certificates: the authorities that sign the certificates of clients.",
    )


def _between_nodes_problem(is_between_nodes: bool, is_trusting: bool) -> tuple[str, str] | None:
    if not is_between_nodes or is_trusting:
        return None
    return (
        "ssl.truststore.location",
        "connects the nodes of the cluster, so it needs this setting or ssl.truststore.certificates: the "
        "authorities that sign the certificates of the other nodes.",
    )


def _text(value: ConfigValue) -> str | None:
    return None if value is None or value == "" else str(value)
