"""The broker settings of what is told to a Prometheus: how much of it, and under whose names."""

from typing import Final

from ottla.logstore.config_def import ConfigScope, at_least, between, list_of
from ottla.node.settings.setting import INT, LIST, LOW, setting

KAFKA_EXPORTER: Final = "kafka_exporter"
KMINION: Final = "kminion"

METRICS_SETTINGS: Final = (
    setting(
        "ottla.metrics.topics.max",
        INT,
        2_000,
        "Of so many topics a node tells its counters one by one; of all of them together it always does.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.partitions.max",
        INT,
        5_000,
        "Of so many partitions a node tells offsets and sizes one by one, some 20 series each; 0 for none.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.group.offsets.max",
        INT,
        5_000,
        "So many committed offsets, and how far they are behind, a node tells of the groups that it"
        " coordinates; 0 for none.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.groups.max",
        INT,
        5_000,
        "Of so many groups a node tells members and state one by one, and what they have committed.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.bytes.max",
        INT,
        33_554_432,
        "The most bytes of one scrape. Series beyond them are left out; ottla_scrape_cut_series counts them."
        " The first of each name are always there.",
        at_least(4_194_304),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.metrics.loop.look.ms",
        INT,
        100,
        "A timer on the node's loop falls due so often; how late it is tells how long turns of the loop are."
        " 5 finds every turn that clients could notice, for a two-thousandth of a processor.",
        between(1, 10_000),
        importance=LOW,
    ),
    setting(
        "ottla.metrics.exporters",
        LIST,
        (KAFKA_EXPORTER, KMINION),
        "Under whose names topics and groups are told beside those of Kafka's own metrics: kafka_exporter,"
        " kminion, or both.",
        list_of(KAFKA_EXPORTER, KMINION),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
)
