"""Examines the directory of keys and certificates of a secured node (door)."""

import os
import ssl
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from ottla.logstore.meta_properties import META_PROPERTIES
from ottla.logstore.words.errors import KafkaError
from ottla.node.doctor.secure_dir_findings import CertificateFile, SecretFile, SecureDirectory
from ottla.node.security.distinguished_name import validity
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.secure_settings import SecureFiles
from ottla.node.tls.pem_store import MAX_STORE_BYTES, certificates_in

MAX_CERTIFICATES: Final = 100  # of nodes; a directory may have those of a whole cluster


def look_at_secure_dir(config: BrokerConfig) -> SecureDirectory | None:
    """Return the facts about the directory of a secured node, None for another node. Blocks."""
    files = config.secure_files
    if files is None:
        return None
    data = next((one for one in config.log_dirs if _exists(one / META_PROPERTIES)), None)
    path, begun_in = str(files.directory), "" if data is None else str(data)
    try:
        found = files.directory.stat()
        names = sorted(os.listdir(files.directory))
        files.authority.exists()  # raises OSError if only the names may be read
    except FileNotFoundError:
        return SecureDirectory(path, None, data=begun_in)
    except OSError as error:
        return SecureDirectory(path, None, data=begun_in, error=error.strerror or str(error))
    own = files.node(config.node_id)
    shown = {one.keystore.location for one in config.listener_security.values()}
    trusted = {
        one.truststore.location for one in config.listener_security.values() if one.truststore is not None
    }
    is_own_shown = str(own) in shown
    of_nodes = [
        files.directory / name for name in names if name.startswith("node-") and name.endswith(".pem")
    ]
    others = [one for one in of_nodes if str(one) not in shown]
    return SecureDirectory(
        path,
        stat.S_IMODE(found.st_mode),
        data=begun_in,
        lacks_authority=(is_own_shown or str(files.authority) in trusted) and not files.authority.exists(),
        lacks_certificate=own.name if is_own_shown and not own.exists() else "",
        has_authority_key=files.authority_key.exists(),
        node_id=config.node_id,
        secrets=_secrets(files, others),
        authority=_certificates(files.authority, max) if files.authority.exists() else None,
        certificates=[_certificates(one, _first) for one in others[:MAX_CERTIFICATES]],
        left_out=max(0, len(others) - MAX_CERTIFICATES),
    )


def keystore_to_be_made(config: BrokerConfig) -> str:
    """Return the keystore that the first start of this node will make, "" if it makes none."""
    files = config.secure_files
    if files is None or _exists(files.authority) or _exists(files.node(config.node_id)):
        return ""
    is_alone = len(config.controller_quorum_voters) < 2 and config.is_voter
    if not is_alone or any(_exists(one / META_PROPERTIES) for one in config.log_dirs):
        return ""
    return str(files.node(config.node_id))


def _exists(path: Path) -> bool:
    """Return True if a file exists; False also without permission to look."""
    try:
        return path.exists()
    except OSError:
        return False


def _secrets(files: SecureFiles, others: list[Path]) -> list[SecretFile]:
    """Return the files that only the user of the node may read, except the keystores of listeners."""
    held = {
        files.authority_key: "the private key of the authority",
        files.cluster_secret: "the secret of the nodes",
        files.client_properties: "the password of the administrator",
        **dict.fromkeys(others[:MAX_CERTIFICATES], "the private key of a node"),
    }
    found: list[SecretFile] = []
    for path, holds in held.items():
        try:
            one = path.stat()
        except OSError:
            continue
        found.append(SecretFile(str(path), holds, stat.S_IMODE(one.st_mode), one.st_uid))
    return found


def _first(ends: list[datetime]) -> datetime:
    return ends[0]


def _certificates(path: Path, chosen: Callable[[list[datetime]], datetime]) -> CertificateFile:
    """Return the end of validity of the certificates in a file; `chosen` selects one of several ends."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return CertificateFile(str(path), error="it is not a file")
        with path.open("rb") as file:
            pem = file.read(MAX_STORE_BYTES)
        found = certificates_in(pem, str(path))
        ends = [validity(ssl.PEM_cert_to_DER_cert(one.decode("ascii")))[1] for one in found]
    except KafkaError as error:
        return CertificateFile(str(path), error=error.detail.rpartition("cannot be used: ")[2].rstrip("."))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return CertificateFile(str(path), error=str(reason).rstrip("."))
    return CertificateFile(str(path), chosen(ends))
