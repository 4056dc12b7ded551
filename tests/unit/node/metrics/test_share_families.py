"""The metrics of share groups have the names of Kafka's."""

from ottla.node.counters.share_counters import MAX_COUNTED_GROUPS, OTHER_GROUPS, ShareCounters
from ottla.node.metrics.readings import SharePartitionReading, ShareReading
from ottla.node.metrics.share_families import share_families


def lines_of(reading: ShareReading) -> set[str]:
    return {line.rstrip() for family in share_families(reading) for line in family.lines}


def test_acknowledgements_and_records_in_flight_have_samples() -> None:
    counters = ShareCounters()
    counters.acknowledged = [1, 20, 3, 4, 5]
    counters.expired_fetches = 6
    counters.load_times.observe(0.02)
    letters = counters.dead_letters_of("workers")
    letters.records, letters.produces, letters.failed_produces, letters.ignored = 10, 11, 12, 13

    lines = lines_of(
        ShareReading(
            counters=counters,
            session_count=7,
            session_partition_count=8,
            evictions=9,
            partitions=[SharePartitionReading("workers", "orders", 2, 30, 4, 5, 6_500)],
            left_out=0,
        )
    )

    place = '{group="workers",topic="orders",partition="2"}'
    assert lines >= {
        'kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Accept"} 20',
        'kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Renew"} 5',
        "kafka_server_sharegroupmetrics_partitionloadtimems_count 1",
        'kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total{group="workers"} 10',
        'kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total{group="workers"} 11',
        'kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total{group="workers"} 12',
        'ottla_share_group_omitted_dead_letters_total{group="workers"} 13',
        "kafka_server_sharesessioncache_sharesessionscount 7",
        "kafka_server_sharesessioncache_sharepartitionscount 8",
        "kafka_server_sharesessioncache_sharesessionevictions_total 9",
        "kafka_server_delayedsharefetchmetrics_expires_total 6",
        f"kafka_server_sharepartitionmetrics_inflightmessagecount{place} 30",
        f"kafka_server_sharepartitionmetrics_inflightbatchcount{place} 4",
        f"kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total{place} 5",
        f"ottla_share_partition_stalled_seconds{place} 6.5",
    }


def test_the_dead_letters_of_very_many_groups_are_counted_together() -> None:
    counters = ShareCounters()
    for number in range(MAX_COUNTED_GROUPS + 5):
        counters.dead_letters_of(f"g{number}").records += 1

    assert len(counters.dead_letters) == MAX_COUNTED_GROUPS + 1
    assert counters.dead_letters[OTHER_GROUPS].records == 5
