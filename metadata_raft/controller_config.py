"""The settings that the controller obeys, and the limits that are ours.

Attribute names are Kafka's broker settings with underscores; `node` fills them in from its configuration.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.logstore.words.config_def import ConfigDef, ConfigValue
from ottla.metadata_raft.acl_set import AuthorizerSettings
from ottla.metadata_raft.image import VoterImage
from ottla.metadata_raft.records import MetadataRecord

# Kafka's bound on what one request may do to the metadata; with it the largest batch stays below 2 MB.
MAX_RECORDS_PER_COMMAND: Final = 10_000
# The values of settings that one request may have: to check so many takes some 20 ms. A list of replicas to
# throttle has six for each; kafka-reassign-partitions sets it for each topic that it moves.
MAX_VALUE_CHARS_PER_COMMAND: Final = 512 << 10
# What a cluster is built for is 100,000 partitions; twice that still restarts within a minute.
MAX_PARTITIONS: Final = 200_000
# Settings that one resource may have; there are some 400 names in all, and each is kept in memory.
MAX_CONFIGS_PER_RESOURCE: Final = 500
# Resources with settings that are not topics or brokers (groups need not exist to have settings).
MAX_CONFIG_RESOURCES: Final = 100_000
# Subscriptions to client metrics: each is compared with every client that asks, and has expressions, which
# take up to a millisecond to check.
MAX_CLIENT_METRICS_SUBSCRIPTIONS: Final = 200
MAX_SUBSCRIPTIONS_PER_COMMAND: Final = 50
# Each access control entry takes about a kilobyte in the memory of every node, as do quotas and credentials.
MAX_ACLS: Final = 100_000
MAX_QUOTA_ENTITIES: Final = 100_000
MAX_SCRAM_CREDENTIALS: Final = 100_000
# Entries at which the filters of one command look that name no resource: some 0.2 s of the controller.
MAX_ACL_LOOKS_PER_COMMAND: Final = 200_000
# Patterns that the filters of one command try that match a name, one for each length that prefixes have: some
# 10 ms of the controller.
MAX_ACL_PATTERNS_PER_COMMAND: Final = 10_000
PRODUCER_ID_BLOCK_SIZE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """`broker_config_def` and `group_config_def` are the tables against which settings are checked;
    `check_broker_configs` and `check_group_configs` raise INVALID_CONFIG for one that others forbid, and
    `check_client_metrics_configs` for a subscription to client metrics that cannot be.
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
    # From the id of a new cluster, the records with which it begins beside its features.
    first_records: Callable[[bytes], Sequence[MetadataRecord]] = lambda cluster_id: ()
    check_client_metrics_configs: Callable[[Mapping[str, str]], None] = lambda configs: None
    authorizer: AuthorizerSettings | None = None  # None: clients are not judged
    # The typed settings of this broker, from which topic settings take their defaults.
    broker_values: Mapping[str, ConfigValue] = field(default_factory=dict)
