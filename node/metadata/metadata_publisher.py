"""Applies each new metadata image to this node's configuration, then to its replicas and its other parts."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import EVERY_BROKER, Endpoint, MetadataImage, VoterImage
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.client_metrics_config_def import check_client_metrics_configs
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.first_users import first_records
from ottla.node.settings.group_config_def import GROUP_CONFIG_DEF, check_group_configs

log = logging.getLogger(__name__)


class AppliesMetadata(Protocol):
    """The part of the replica manager that follows the metadata."""

    def apply(self, image: MetadataImage, changes: MetadataChanges) -> None: ...


class MetadataPublisher:
    """A listener of the metadata runtime. It applies the configuration first, because new logs use it."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        replicas: AppliesMetadata,
        set_config: Callable[[BrokerConfig], None],
        others: Callable[[MetadataImage, MetadataChanges], None] | None = None,
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._set_config = set_config
        self._others = others

    def __call__(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Apply the changes of a new image."""
        if self._concerns_this_broker(changes):
            self._apply_config(image)
        self._replicas.apply(image, changes)
        if self._others is not None:
            self._others(image, changes)

    def _concerns_this_broker(self, changes: MetadataChanges) -> bool:
        names = {EVERY_BROKER, str(self._config.node_id)}
        return any(kind == ConfigResourceType.BROKER and name in names for kind, name in changes.configs)

    def _apply_config(self, image: MetadataImage) -> None:
        self._config = dynamic_config(self._config, image)
        for warning in self._config.warnings:
            log.warning("%s", warning)
        self._set_config(self._config)


def dynamic_config(config: BrokerConfig, image: MetadataImage) -> BrokerConfig:
    """Return the configuration of a node with the dynamic settings of the metadata applied."""
    return config.with_dynamic(image.configs.broker(None), image.configs.broker(config.node_id))


def controller_config(config: BrokerConfig, login_key: bytes = b"") -> ControllerConfig:
    """Return the settings of the controller from the configuration of its node.

    The salts of the first users are derived from `login_key`, a secret of the cluster.
    """
    controllers = next((one.name for one in config.controller_listeners), "CONTROLLER")
    return ControllerConfig(
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        delete_topic_enable=config.delete_topic_enable,
        broker_session_timeout_ms=config.broker_session_timeout_ms,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
        unclean_leader_election_interval_ms=config.unclean_leader_election_interval_ms,
        quorum_voters=tuple(
            VoterImage(one.node_id, ZERO_UUID, {controllers: Endpoint(one.host, one.port)})
            for one in config.controller_quorum_voters
        ),
        broker_config_def=BROKER_CONFIG_DEF,
        group_config_def=GROUP_CONFIG_DEF,
        check_broker_configs=config.check_dynamic,
        check_group_configs=partial(check_group_configs, config.values),
        check_client_metrics_configs=check_client_metrics_configs,
        broker_values=config.values,
        first_records=partial(first_records, config.first_users, login_key),
        authorizer=config.authorizer,
    )


def log_config_of(config: BrokerConfig, image: MetadataImage, topic: str) -> LogConfig:
    """Return the settings of a topic's logs on a node with this configuration."""
    return LogConfig.from_configs(image.configs.topic(topic), config.values)
