"""Locks the log directories of a node, claims them for its cluster, and opens the logs in them."""

import hmac
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ottla.logstore.log_manager import LogManager
from ottla.logstore.recovery import RECORDS_ARE_LOST
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition, uuid_to_text
from ottla.metadata_raft.image import MetadataImage
from ottla.node.metadata.metadata_publisher import log_config_of
from ottla.node.security.cluster_key import cluster_key
from ottla.node.start.foundation import Foundation
from ottla.node.start.login_key import find_login_key
from ottla.node.start.quorum import FoundQuorum, check_cluster
from ottla.node.start.secured_mark import SECURED_MARK, leave_mark

log = logging.getLogger(__name__)

_CLUSTER_ID_LABEL: Final = b"ottla cluster id 2:"


def claim_directories(base: Foundation, found: FoundQuorum | None) -> None:
    """Lock the log directories and claim them for this node. Blocks.

    Directories of a secured node are marked, and the key of false salts is read from them or made.
    INCONSISTENT_CLUSTER_ID if they belong to another cluster, INVALID_CONFIG if a node that is only a
    controller has partitions in them.
    """
    config, manager = base.config, base.log_manager
    manager.acquire()
    owner = manager.identity()
    if owner is not None:
        base.state.cluster_id = owner.cluster_id
    else:
        base.state.cluster_id = new_cluster_id(base) if found is None else found.cluster_id
    check_cluster(base, found)
    if config.cluster_id not in (None, base.state.cluster_id):
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"The log directories belong to cluster {uuid_to_text(base.state.cluster_id)}, but "
            "cluster.id names another one: choose another log.dirs, or remove cluster.id.",
        )
    manager.claim(cluster_id=base.state.cluster_id, node_id=config.node_id)
    if not config.is_broker and manager.holds_logs():
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "process.roles=controller, but there are partitions in log.dirs. Add the role broker, move the "
            f"partitions away (`ottla broker decommission {config.node_id}`), or choose another log.dirs.",
        )
    base.false_credentials.use_key(find_login_key(base))
    if config.secure_files is not None:
        _mark(manager)


def _mark(manager: LogManager) -> None:
    for log_dir in manager.online_dirs:
        try:
            leave_mark(manager.disk, log_dir.path)
        except OSError as error:
            manager.take_offline(log_dir, f"{SECURED_MARK} cannot be written: {error}")


def new_cluster_id(base: Foundation) -> bytes:
    """Return the id of a new cluster: `cluster.id`, or else one derived from the secret and the voters.

    The latter is equal for all voters with the same secret and the same list of voters; without either it is
    random.
    """
    config = base.config
    if config.cluster_id is not None:
        return config.cluster_id
    if not config.controller_quorum_voters or config.cluster_secret is None:
        return base.world.unique(16)
    voters = ",".join(f"{one.node_id}@{one.host}:{one.port}" for one in config.controller_quorum_voters)
    key = cluster_key(config.cluster_secret)
    made = bytearray(hmac.digest(key, _CLUSTER_ID_LABEL + voters.encode(), "sha256")[:16])
    made[0] &= 0x7F  # so that it does not begin with '-', which tools would take for an option
    return bytes(made)


def load_logs(base: Foundation, image: MetadataImage) -> None:
    """Open all logs, and recover those that an unclean shutdown may have damaged. Blocks.

    Logs of partitions that `image` does not have are renamed to `-stray`.
    """
    manager, config = base.log_manager, base.config
    threads = max(1, config.num_recovery_threads_per_data_dir * len(config.log_dirs))
    if threads == 1:
        manager.load(lambda topic: log_config_of(config, image, topic))
    else:
        with ThreadPoolExecutor(threads, thread_name_prefix="recovery") as pool:
            manager.load(lambda topic: log_config_of(config, image, topic), parallel=pool.map)

    def is_known(name: TopicPartition, topic_id: bytes) -> bool:
        topic = image.topics.by_name.get(name.topic)
        return (
            topic is not None
            and topic_id in (topic.topic_id, ZERO_UUID)
            and name.partition < len(topic.partitions)
        )

    manager.set_strays_apart(is_known)


def log_notes(manager: LogManager) -> None:
    """Log the notes and warnings of the log directories."""
    notes, warnings = manager.take_notes()
    for note in notes:
        log.log(logging.WARNING if note.endswith(RECORDS_ARE_LOST) else logging.INFO, "%s", note)
    for warning in warnings:
        log.warning("%s", warning)
