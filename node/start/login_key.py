"""Finds the key of the false salts of users that do not exist, and of the true salts of the first users.

All nodes of a cluster with a secret have the same key. A node without a secret is alone, and keeps its key in
a file beside its metadata: if each start made another key, the false salts would change, and could be
recognised by that.
"""

import hmac
import logging
from pathlib import Path
from typing import Final

from ottla.logstore.disk import Disk
from ottla.node.security.cluster_key import cluster_key
from ottla.node.security.sasl.false_credentials import KEY_BYTES
from ottla.node.start.foundation import Foundation

LOGIN_KEY: Final = "ottla-login-key"
_LABEL: Final = b"ottla login key 2"

log = logging.getLogger(__name__)


def find_login_key(base: Foundation) -> bytes:
    """Return the key of this node's cluster; if there is none, make one and keep it. Blocks.

    Without logins no salt is ever sent, so the new key is not kept.
    """
    config = base.config
    if config.cluster_secret is not None:
        return hmac.digest(cluster_key(config.cluster_secret), _LABEL, "sha256")
    made = base.world.unique(KEY_BYTES)
    if not (config.listener_sasl or config.rest_logins.methods):
        return made
    path = config.metadata_log_dir / LOGIN_KEY
    try:
        return _load_or_store(base.log_manager.disk, path, made)
    except OSError as error:
        log.warning(
            "%s, the key for the salts of unknown users, cannot be read or written (%s), so these salts have "
            "changed: clients that saw the old ones can now find out which users exist. Allow the user of "
            "this node to read and write the file, then restart the node.",
            path,
            error.strerror or error,
        )
        return made


def _load_or_store(disk: Disk, path: Path, made: bytes) -> bytes:
    if disk.exists(path):
        found = disk.read_file(path)
        if len(found) == KEY_BYTES:
            return found
        log.warning("%s does not hold a key of %d bytes; it is replaced by a new one.", path, KEY_BYTES)
    disk.write_file_that_names_itself(path, lambda _: made)
    return made
