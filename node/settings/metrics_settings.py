"""The broker settings of metrics: their number and names for Prometheus, and those that clients push."""

from typing import Final

from ottla.logstore.words.config_def import ConfigScope, at_least, between, list_of
from ottla.node.settings.setting import BOOLEAN, INT, LIST, LOW, setting

KAFKA_EXPORTER: Final = "kafka_exporter"
KMINION: Final = "kminion"

METRICS_SETTINGS: Final = (
    setting(
        "telemetry.max.bytes",
        INT,
        1_048_576,
        "The maximum size of one push of metrics by a client (KIP-714), in bytes: compressed, and again "
        "decompressed. More than 16 MiB are never accepted.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "ottla.metrics.client.series.max",
        INT,
        20_000,
        "The maximum number of series that a node keeps of metrics pushed by clients (KIP-714), for all "
        "clients together; 0 keeps none.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.all",
        BOOLEAN,
        False,
        "If true, each scrape includes the single partitions of internal topics and all buckets of "
        "histograms. Otherwise it includes only their totals, unless its URL is /metrics?all=true.",
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.topics.max",
        INT,
        2_000,
        "The maximum number of topics with metrics of their own on a node. The totals always "
        "include all topics.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.partitions.max",
        INT,
        5_000,
        "The maximum number of partitions with offset and size metrics of their own on a "
        "node, some 20 series each; 0 turns these metrics off.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.group.offsets.max",
        INT,
        5_000,
        "The maximum number of committed offsets, with their lags, that a node reports for the "
        "groups that it coordinates; 0 turns these metrics off.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.groups.max",
        INT,
        5_000,
        "The maximum number of groups for which a node reports members, state and committed offsets.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.bytes.max",
        INT,
        33_554_432,
        "The maximum size of one scrape in bytes. Series beyond it are left out and counted by "
        "ottla_scrape_cut_series; the first series of each metric is always included.",
        at_least(4_194_304),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.loop.look.ms",
        INT,
        100,
        "How often to measure the latency of the node's event loop. With 5 every delay is found "
        "that clients could notice, at a cost of 0.05 % of a CPU.",
        between(1, 10_000),
        importance=LOW,
    ),
    setting(
        "ottla.history.interval.ms",
        INT,
        10_000,
        "How often a node samples its counters for the charts of the console and /v1/.../history. It keeps "
        "the last 360 samples: an hour by default.",
        between(1_000, 3_600_000),
        importance=LOW,
    ),
    setting(
        "ottla.metrics.exporters",
        LIST,
        (KAFKA_EXPORTER, KMINION),
        "Which metric names to use for topics and groups, besides Kafka's own metrics: those of "
        "kafka_exporter, those of kminion, or both.",
        list_of(KAFKA_EXPORTER, KMINION),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
)
