"""Prevents a secured node from being started without its security by mistake.

A node with `ottla.secure` leaves a mark, a file, in each of its log directories. The flag is easily
forgotten, and the keys lie in another directory, which may be moved; the mark stays with the data. Apache
Kafka looks at directories only, so the file does not disturb it.
"""

from pathlib import Path
from typing import Final

from ottla.logstore.disk import Disk
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.secure_settings import SECURE, SECURE_DIR, refuse_contradictions, secure_directory

SECURED_MARK: Final = "ottla-secured"
_CONTENT: Final = f"This data directory belongs to a node that was started with {SECURE}=true.\n".encode()


def leave_mark(disk: Disk, directory: Path) -> None:
    """Mark a log directory as one of a secured node. Blocks."""
    if not disk.exists(directory / SECURED_MARK):
        disk.write_file(directory / SECURED_MARK, _CONTENT, sync=True)


def refuse_to_open(config: BrokerConfig, disk: Disk) -> None:
    """Raise INVALID_CONFIG if the node would serve the data of a secured node without its security.

    Other settings that close the node as `ottla.secure` does are accepted, and so is `ottla.secure=false`.
    """
    if SECURE in config.static_texts or _is_closed(config):
        return
    keys = secure_directory(config.values)
    marked = [one for one in config.log_dirs if _is_there(disk, one / SECURED_MARK)]
    if not marked and not _is_there(disk, keys.authority):
        return
    raise KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"{(marked or config.log_dirs)[0]} belongs to a node that was started with --secure. Without this "
        f"flag any client could use the node. Start it with --secure (its keys: "
        f"{_describe_place(keys.directory, disk)}), or turn its security off with {SECURE}=false.",
    )


def _is_closed(config: BrokerConfig) -> bool:
    """Return True if other settings close the node to clients without a login and permissions."""
    try:
        refuse_contradictions(config.values, config.all_listeners, config.ottla_rest_listeners)
    except KafkaError:
        return False
    return True


def _is_there(disk: Disk, path: Path) -> bool:
    """Return True if a file exists; False on an error of the disk, which the start reports later."""
    try:
        return disk.exists(path)
    except OSError:
        return False


def _describe_place(directory: Path, disk: Disk) -> str:
    """Return the directory of the keys for a message, with advice if it does not exist."""
    if _is_there(disk, directory):
        return str(directory)
    return f"{directory}, which does not exist; set {SECURE_DIR} to their new directory"
