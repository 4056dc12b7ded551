"""Completes the directory of keys of a starting node, and renews a certificate that others would reject."""

import logging
import socket
import ssl
from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

from ottla.logstore.meta_properties import META_PROPERTIES
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.peer_certificate import is_named
from ottla.node.net.own_hosts import own_hosts
from ottla.node.secure_setup.issued_certificates import checked_host, of_node
from ottla.node.secure_setup.secure_directory import complete, issue_more, made_as_text
from ottla.node.security.certificate_problems import SOON
from ottla.node.security.distinguished_name import host_names, validity
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.listener_settings import ANYWHERE, Listener
from ottla.node.settings.secure_settings import SecureFiles
from ottla.node.tls.pem_store import MAX_STORE_BYTES, certificates_in

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger(__name__)


def prepare(config: BrokerConfig, files: SecureFiles, now: datetime) -> list[Path]:
    """Make the files that this node lacks, and renew its certificate if it expires soon or lacks a host.

    Return the files that were made. INVALID_CONFIG, before any file is made, if the node cannot be secured.
    """
    is_new = not any((one / META_PROPERTIES).exists() for one in (*config.log_dirs, config.metadata_log_dir))
    makes_keys = _is_own_keystore(config, files)
    has_begun = files.authority.exists() or files.client_properties.exists()
    if not is_new and not has_begun:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{config.log_dirs[0]} has data, but there are no keys in {files.directory}. If this node was "
            "secure, restore that directory, or set ottla.secure.dir to its path. If it was not, its cluster "
            f"has no administrator who could log in: run `ottla secure init {files.directory}`, start the "
            f"node with ottla.secure=false, add the user of {files.client_properties} with its password "
            "(`ottla user create`), and start it with ottla.secure=true; or choose another data directory.",
        )
    is_alone = len(config.controller_quorum_voters) < 2 and config.is_voter
    if makes_keys and not is_alone and not files.authority.exists():
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"This node is one of several, and {files.directory} has no {files.authority.name}. Make the "
            "directory once, with `ottla secure init DIR --nodes N`, and give it to each node.",
        )
    hosts = node_hosts(config)
    made = complete(
        files,
        hosts_of={config.node_id: hosts},
        bootstrap=client_bootstrap(config),
        authority_of_clients=_authority_of_clients(config),
        with_administrator=is_new and is_alone,
        with_keys=makes_keys,
    )
    if makes_keys and files.node(config.node_id) not in made:
        made += _renewed(config, files, hosts, now)
    if made:
        log.info("Made in %s: %s.", files.directory, made_as_text(made))
    return made


def node_hosts(config: BrokerConfig) -> list[str]:
    """Return the hosts by which clients and nodes connect to this node, as its certificate names them."""
    advertised = {one.name: one.host for one in config.advertised_listeners}
    given = (advertised.get(one.name, one.host) for one in config.listeners)
    hosts = (*LOCAL_HOSTS, *config.ottla_secure_hosts, *given, *own_hosts(config))
    own_name = socket.gethostname()
    usable = [one for one in hosts if one not in ANYWHERE and (one != own_name or _is_nameable(one))]
    return list(dict.fromkeys(map(checked_host, usable)))


def client_bootstrap(config: BrokerConfig) -> str:
    """Return HOST:PORT of the SASL listener, localhost if it binds all addresses, or "" if unknown."""
    found = next((one for one in config.listeners if one.has_sasl), None)
    if found is None:
        return ""
    found = next((one for one in config.advertised_listeners if one.name == found.name), found)
    if not found.port:
        return ""
    host = "localhost" if _is_anywhere(found) else found.host
    return f"{f'[{host}]' if ':' in host else host}:{found.port}"


def _is_anywhere(listener: Listener) -> bool:
    return listener.host in ANYWHERE


def _is_nameable(host: str) -> bool:
    """Return True if a certificate can name the host: the name of a machine need not be a valid host name."""
    try:
        checked_host(host)
    except KafkaError:
        return False
    return True


def _is_own_keystore(config: BrokerConfig, files: SecureFiles) -> bool:
    """Return True if a listener uses the certificate of the directory, not one from other settings."""
    own = str(files.node(config.node_id))
    return any(one.keystore.location == own for one in config.listener_security.values())


def _authority_of_clients(config: BrokerConfig) -> str | None:
    """Return the file of authorities for clients, None for the directory's, "" for the system's."""
    found = next((one for one in config.listeners if one.has_sasl), None)
    security = None if found is None else config.listener_security.get(found.name)
    if security is None or _is_in_directory(config, security.keystore.location):
        return None
    return (security.truststore and security.truststore.location) or ""


def _is_in_directory(config: BrokerConfig, location: str | None) -> bool:
    files = config.secure_files
    return files is not None and location == str(files.node(config.node_id))


def _renewed(config: BrokerConfig, files: SecureFiles, hosts: Iterable[str], now: datetime) -> list[Path]:
    """Replace this node's certificate if it expires soon or lacks a host; return the file if it was replaced.

    Without the key of the authority it stays, and the node logs the problem later.
    """
    path = files.node(config.node_id)
    try:
        names, until = _names_and_end(path)
    except (OSError, ValueError, KafkaError) as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{_unusable(path, error)} {_remedy(files, config.node_id)}"
        ) from None
    unnamed = [host for host in hosts if not is_named(names, -1, [host])]
    if until - now >= SOON and not unnamed:
        return []
    if not files.authority_key.exists():
        return []
    wanted = of_node(config.node_id, [*hosts, *_without_node_names(names)])
    return issue_more(files, {path: wanted}, may_replace=True)


def hosts_to_keep(path: Path) -> list[str]:
    """Return the hosts that the certificate in a file names, or none if it has no certificate.

    A renewed certificate must name them, too, or a running node rejects it.
    """
    try:
        names, _ = _names_and_end(path)
    except (OSError, ValueError, KafkaError):
        return []
    return _without_node_names(names)


def _names_and_end(path: Path) -> tuple[Collection[str], datetime]:
    with path.open("rb") as file:
        pem = file.read(MAX_STORE_BYTES)
    own = ssl.PEM_cert_to_DER_cert(certificates_in(pem, str(path))[0].decode("ascii"))
    return host_names(own), validity(own)[1]


def _unusable(path: Path, error: Exception) -> str:
    if isinstance(error, KafkaError):
        return error.detail
    problem = error.strerror if isinstance(error, OSError) else error
    return f"{path} cannot be used: {problem}."


def _remedy(files: SecureFiles, node_id: int) -> str:
    if files.authority_key.exists():
        return "Restore it, or remove it so that the next start makes a new one."
    return (
        f"Restore it, or issue another one where {files.authority_key.name} is, with `ottla secure "
        f"certificate DIR --node {node_id} --renew`."
    )


def _without_node_names(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith("node-"))
