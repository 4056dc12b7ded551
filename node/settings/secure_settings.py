"""`ottla.secure`: the settings that this one flag implies, and those that contradict it.

A directory has the files that they name: keys, certificates, the secret of the nodes, the administrator's
settings. `config` reads it, and `ottla.node.secure_setup` makes it; this module opens no file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, cast

from ottla.logstore.words.config_def import ConfigKey, ConfigValue
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl_set import super_users
from ottla.node.settings.authorization_settings import (
    ALLOW_EVERYONE,
    ANONYMOUS,
    AUTHORIZER_CLASS,
    STANDARD_AUTHORIZER,
    SUPER_USERS,
)
from ottla.node.settings.first_users import ADD_SCRAM
from ottla.node.settings.listener_settings import Listener, is_loopback, parse_protocol_map
from ottla.node.settings.rest_security_settings import AUTHENTICATION, BASIC
from ottla.node.settings.rest_settings import DEFAULT_REST_PORT, REST_LISTENERS, RestAddress
from ottla.node.settings.sasl_settings import ENABLED_MECHANISMS
from ottla.node.settings.security_settings import REQUIRED
from ottla.node.settings.setting import BOOLEAN, HIGH, LIST, STRING, setting
from ottla.node.wire.jaas import JaasError, parse_jaas
from ottla.node.wire.sasl_mechanisms import SCRAM_SHA_512

MAX_REAUTH_MS: Final = 3_600_000  # an hour
SECURE: Final = "ottla.secure"
SECURE_DIR: Final = "ottla.secure.dir"
SECURE_HOSTS: Final = "ottla.secure.hosts"
ADMINISTRATOR: Final = "admin"
CLIENT_LISTENER: Final = "SASL_SSL"
NODE_LISTENER: Final = "INTERNAL"
DIRECTORY_SUFFIX: Final = "-secure"
SECURE_REST_LISTENERS: Final = f"https://:{DEFAULT_REST_PORT}"
_JAAS: Final = "sasl.jaas.config"
_NAMES_OF_PROTOCOLS: Final = ("SASL_SSL", "SSL", "SASL_PLAINTEXT", "PLAINTEXT")

SECURE_SETTINGS: Final[tuple[ConfigKey, ...]] = (
    setting(
        SECURE,
        BOOLEAN,
        False,
        "Secure the node by one setting: clients log in with SCRAM-SHA-512 over TLS, nodes connect to each "
        "other over TLS, the REST API has https and logins, an authorizer denies what no ACL allows, and "
        "topics are not created automatically. Keys, certificates and an administrator are created in "
        f"{SECURE_DIR} if they are missing. Each implied setting can be set to another value, unless that "
        "leaves the node open.",
        importance=HIGH,
    ),
    setting(
        SECURE_DIR,
        STRING,
        None,
        f"With {SECURE}: the directory with the keys, the certificates and the administrator's "
        "client.properties. If not set, it is beside the data directory and has its name with -secure at "
        "the end. `ottla secure init` makes one for several nodes.",
    ),
    setting(
        SECURE_HOSTS,
        LIST,
        (),
        f"With {SECURE}: further host names and addresses for this node's certificate, besides those in "
        "advertised.listeners and the names of the machine.",
    ),
)


@dataclass(frozen=True, slots=True)
class SecureFiles:
    """The files of the directory; only their owner can read them, except for the certificate of the CA."""

    directory: Path

    @property
    def authority(self) -> Path:
        """The certificate of the CA, which clients trust."""
        return self.directory / "ca.pem"

    @property
    def authority_key(self) -> Path:
        """The key of the CA, needed only to issue certificates."""
        return self.directory / "ca.key"

    @property
    def cluster_secret(self) -> Path:
        """The secret by which nodes authenticate each other."""
        return self.directory / "cluster.secret"

    @property
    def client_properties(self) -> Path:
        """The client settings of the administrator, with the password."""
        return self.directory / "client.properties"

    def node(self, node_id: int) -> Path:
        """The key and the certificate of a node."""
        return self.directory / f"node-{node_id}.pem"


class SecureSecrets(NamedTuple):
    """The contents of the files that become settings; None for a missing file."""

    client_properties: Mapping[str, str] | None
    cluster_secret: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Administrator:
    """The first user of a cluster."""

    name: str
    password: str = field(repr=False)


def secure_directory(values: Mapping[str, ConfigValue]) -> SecureFiles:
    """Return the directory of a node: the one in its settings, or the default beside its data."""
    given = values[SECURE_DIR]
    if given:
        return SecureFiles(Path(str(given)))
    dirs = cast("Sequence[str]", values["log.dirs"] or values["log.dir"])
    data = Path(str(values["metadata.log.dir"] or dirs[0]))
    name = data.name or data.absolute().name
    if not name:
        raise _refused(f"set {SECURE_DIR}: no name for it can be derived from the data directory {data}.")
    return SecureFiles(data.absolute().parent / f"{name}{DIRECTORY_SUFFIX}")


def administrator_of(properties: Mapping[str, str]) -> Administrator:
    """Return the user in client.properties; INVALID_CONFIG, without the password, if there is none."""
    try:
        [module] = parse_jaas(properties.get(_JAAS, ""))
    except (JaasError, ValueError):
        raise _refused(f"client.properties has no {_JAAS} with one login module.") from None
    name, password = module.options.get("username", ""), module.options.get("password", "")
    if not name or not password:
        raise _refused(f"the {_JAAS} of client.properties needs a username and a password.")
    if any(one in text for one in '"[];' for text in (name, password)):
        raise _refused(
            'the username and password of client.properties must not contain any of ", [, ] and ;.'
        )
    return Administrator(name=name, password=password)


def secured(
    texts: Mapping[str, str], values: Mapping[str, ConfigValue], files: SecureFiles, secrets: SecureSecrets
) -> dict[str, str]:
    """Return the settings of a node: those in `texts`, over the settings that the flag implies.

    INVALID_CONFIG if a setting is missing that the flag cannot imply.
    """
    controllers = [name.upper() for name in cast("Sequence[str]", values["controller.listener.names"])]
    has_peers, is_only_controller = _has_peers(values), values["process.roles"] == ("controller",)
    if has_peers and secrets.cluster_secret is None and "cluster.secret" not in texts:
        raise _refused(
            f"this node is one of several, and {files.directory} has no {files.cluster_secret.name}. Make "
            "the directory once, with `ottla secure init DIR --nodes N`, and give it to each node."
        )
    listeners = list(cast("Sequence[str]", values["listeners"])) if "listeners" in texts else []
    listeners = listeners or [f"{CLIENT_LISTENER}://:9092"]
    names = [one.strip().partition("://")[0].upper() for one in listeners]
    inter_broker = _inter_broker_name(texts, values, names)
    if is_only_controller:
        inter_broker = next(iter(controllers), None)
    if inter_broker is None:
        if has_peers:
            raise _refused(
                f"nodes connect over TLS, so listeners needs one for them, such as {NODE_LISTENER}://:9094."
            )
        listeners.append(f"{NODE_LISTENER}://127.0.0.1:0")
        inter_broker = NODE_LISTENER
    protocols = _protocols([*names, inter_broker], inter_broker, controllers)
    implied = {
        "listener.security.protocol.map": protocols,
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        ENABLED_MECHANISMS: SCRAM_SHA_512,
        AUTHORIZER_CLASS: STANDARD_AUTHORIZER,
        SUPER_USERS: f"User:{ADMINISTRATOR}",
        "auto.create.topics.enable": "false",
        # Otherwise a deleted user could keep its open connections for ever.
        "connections.max.reauth.ms": str(MAX_REAUTH_MS),
        **_rest_settings(),
    }
    given = parse_protocol_map(texts.get("listener.security.protocol.map", protocols))
    if given.get(inter_broker) == "SSL":  # with SASL_SSL nodes log in, and clients may use it, too
        implied[f"listener.name.{inter_broker.lower()}.ssl.client.auth"] = REQUIRED
    if not _has_own_keys(texts, "ssl.keystore"):
        node_id = int(cast(int, values["broker.id"]))
        node_id = int(cast(int, values["node.id"])) if node_id < 0 else node_id
        implied["ssl.keystore.location"] = str(files.node(node_id))
    if not _has_own_keys(texts, "ssl.truststore"):
        implied["ssl.truststore.location"] = str(files.authority)
    if "security.inter.broker.protocol" not in texts and not is_only_controller:
        implied["inter.broker.listener.name"] = inter_broker
    if secrets.cluster_secret is not None:
        implied["cluster.secret"] = secrets.cluster_secret
    result = {**implied, **texts, "listeners": ",".join(listeners)}
    if secrets.client_properties is not None:
        admin = administrator_of(secrets.client_properties)
        if SUPER_USERS not in texts:
            result[SUPER_USERS] = f"User:{admin.name}"
        first = f'{SCRAM_SHA_512}=[name="{admin.name}",password="{admin.password}"]'
        result[ADD_SCRAM] = ";".join(filter(None, (first, texts.get(ADD_SCRAM, ""))))
    return result


def refuse_contradictions(
    values: Mapping[str, ConfigValue], listeners: Sequence[Listener], rest: Sequence[RestAddress]
) -> None:
    """Raise INVALID_CONFIG for the first setting that leaves a node open although it should be secure."""
    for one in listeners:
        if not one.has_tls:
            raise _refused(
                f"the listener {one.name} is {one.security_protocol}, without TLS. Make it SASL_SSL or SSL "
                f"(listeners, listener.security.protocol.map), or set {SECURE}=false."
            )
    for address in rest:
        if not address.is_secure and not is_loopback(address.host):
            raise _refused(f"{address.url} in {REST_LISTENERS} has no TLS. Make it https://.")
    if not values[AUTHORIZER_CLASS]:
        raise _refused(f"without {AUTHORIZER_CLASS} every client may do everything. Remove that setting.")
    if values[ALLOW_EVERYONE]:
        raise _refused(f"{ALLOW_EVERYONE}=true lets every client use what has no ACLs. Remove that setting.")
    # Even if no listener allows it now: its ssl.client.auth can be changed while the node runs.
    if ANONYMOUS in super_users(str(values[SUPER_USERS])):
        raise _refused(
            f"{SUPER_USERS} names {ANONYMOUS}, which is every client without a login. Remove it from there."
        )


def _rest_settings() -> dict[str, str]:
    """Return the implied settings of the REST API."""
    return {REST_LISTENERS: SECURE_REST_LISTENERS, AUTHENTICATION: BASIC}


def _has_peers(values: Mapping[str, ConfigValue]) -> bool:
    voters = cast("Sequence[str]", values["controller.quorum.voters"])
    return (
        len(voters) > 1
        or bool(values["controller.quorum.bootstrap.servers"])
        or values["process.roles"] == ("broker",)
    )


def _inter_broker_name(
    texts: Mapping[str, str], values: Mapping[str, ConfigValue], names: Sequence[str]
) -> str | None:
    """Return the name of the inter-broker listener; None if there is none."""
    given = values["inter.broker.listener.name"]
    if given:
        return str(given).upper()
    if "security.inter.broker.protocol" in texts:
        return str(values["security.inter.broker.protocol"])
    return next((one for one in (NODE_LISTENER, "SSL") if one in names), None)


def _protocols(names: Sequence[str], inter_broker: str, controllers: Sequence[str]) -> str:
    """Return a protocol for each listener: SSL for nodes, SASL_SSL for all others."""
    protocols = {name: name for name in _NAMES_OF_PROTOCOLS}
    for name in dict.fromkeys((*names, *controllers)):
        is_of_nodes = name == inter_broker or name in controllers
        protocols.setdefault(name, "SSL" if is_of_nodes else "SASL_SSL")
    return ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())


def _has_own_keys(texts: Mapping[str, str], store: str) -> bool:
    """Return True if the settings name a store for all listeners."""
    inline = "certificate.chain" if store == "ssl.keystore" else "certificates"
    return any(f"{store}.{one}" in texts for one in ("location", "key", inline))


def _refused(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid configuration {SECURE}=true: {problem}")
