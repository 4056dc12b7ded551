"""The settings of the controller, and Ottla's own limits.

Attribute names are Kafka's broker settings with underscores; `node` sets them from its configuration.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.logstore.words.config_def import ConfigDef, ConfigValue
from ottla.metadata_raft.acl_set import AuthorizerSettings
from ottla.metadata_raft.image import VoterImage
from ottla.metadata_raft.records import MetadataRecord

# Kafka's limit on the records of one request; it keeps the largest batch below 2 MB.
MAX_RECORDS_PER_COMMAND: Final = 10_000
# Characters in the values of settings of one request: checking them takes some 20 ms. A list of throttled
# replicas takes six characters for each replica; kafka-reassign-partitions sets it for each topic that it
# moves.
MAX_VALUE_CHARS_PER_COMMAND: Final = 512 << 10
# A cluster is designed for 100,000 partitions; with twice as many it still restarts within a minute.
MAX_PARTITIONS: Final = 200_000
# Settings of one resource: there are some 400 names in all, and each setting is kept in memory.
MAX_CONFIGS_PER_RESOURCE: Final = 500
# Resources other than topics that have settings: brokers, groups and subscriptions to client metrics. A group
# need not exist to have settings.
MAX_CONFIG_RESOURCES: Final = 100_000
# Subscriptions to client metrics: each is matched against every client that asks for its subscriptions, and
# has expressions that take up to a millisecond to check.
MAX_CLIENT_METRICS_SUBSCRIPTIONS: Final = 200
MAX_SUBSCRIPTIONS_PER_COMMAND: Final = 50
# Each access control entry takes about 1 kB in the memory of every node, and so do a quota and a credential.
MAX_ACLS: Final = 100_000
MAX_QUOTA_ENTITIES: Final = 100_000
MAX_SCRAM_CREDENTIALS: Final = 100_000
# Entries that the filters of one command are compared with, if they lack a resource type or a resource name:
# some 0.2 s of the controller's time.
MAX_ACL_COMPARISONS_PER_COMMAND: Final = 200_000
# Patterns that the filters of one command look up to match a name, one for each length of a prefix: some 10
# ms of the controller's time.
MAX_ACL_PATTERNS_PER_COMMAND: Final = 10_000
PRODUCER_ID_BLOCK_SIZE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The settings of the controller.

    `broker_config_def` and `group_config_def` are the tables that settings are checked against;
    `check_broker_configs` and `check_group_configs` raise INVALID_CONFIG for settings that contradict each
    other, and `check_client_metrics_configs` for an invalid subscription to client metrics.
    """

    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    broker_session_timeout_ms: int = 9_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    unclean_leader_election_interval_ms: int = 300_000
    quorum_voters: tuple[VoterImage, ...] = ()  # controller.quorum.voters
    broker_config_def: ConfigDef = field(default_factory=lambda: ConfigDef("broker", ()))
    group_config_def: ConfigDef = field(default_factory=lambda: ConfigDef("group", ()))
    check_broker_configs: Callable[[Mapping[str, str]], None] = lambda configs: None
    check_group_configs: Callable[[Mapping[str, str]], None] = lambda configs: None
    # Given the cluster id, returns the records that a new cluster begins with, besides those of its features.
    first_records: Callable[[bytes], Sequence[MetadataRecord]] = lambda cluster_id: ()
    check_client_metrics_configs: Callable[[Mapping[str, str]], None] = lambda configs: None
    # None: authorization is off, and every client may do everything.
    authorizer: AuthorizerSettings | None = None
    # The typed settings of this broker, which are the defaults of topic settings.
    broker_values: Mapping[str, ConfigValue] = field(default_factory=dict)
