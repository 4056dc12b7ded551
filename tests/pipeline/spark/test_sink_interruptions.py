"""Exactly once when a batch is interrupted: its query is stopped, or a node is killed while rows continue."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.node.coordinators.key_partition import partition_for
from tests.integration.cluster.conftest import Cluster, write_cluster
from tests.pipeline.spark.crash_queries import (
    BATCHES,
    check_rows,
    faulty_options,
    query_starter,
    run_to_the_end,
    wait_for,
)
from tests.pipeline.spark.faulty_sink import FaultyDataSource

pytestmark = pytest.mark.slow

TRANSACTION_TOPIC = "__transaction_state"
TRANSACTION_PARTITIONS = 50  # Kafka's default


@pytest.mark.parametrize("point", ["in the middle of a task", "in the middle of rolling forward"])
def test_a_query_that_is_stopped_in_the_middle_of_a_batch_continues(
    spark: SparkSession, bootstrap: str, tmp_path: Path, point: str
) -> None:
    spark.dataSource.register(FaultyDataSource)
    goes_on = tmp_path / "goes-on"
    options = faulty_options(bootstrap, tmp_path, point, "none", **{"fault.waits_for": str(goes_on)})
    start = query_starter(spark, tmp_path, format="faulty", **options)

    query = start()
    wait_for(tmp_path / "flag", query)
    with ThreadPoolExecutor() as threads:
        stopped = threads.submit(query.stop)  # it waits for a commit that is under way
        while query.isActive:
            time.sleep(0.02)
        goes_on.touch()  # processes that still run may continue
        stopped.result()
    failures = run_to_the_end(start)

    assert query.exception() is None
    assert failures == []
    check_rows(bootstrap, options["topic"], BATCHES)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    three = write_cluster(tmp_path_factory.mktemp("nodes"), 3)
    three.start(0, 1, 2)
    yield three
    three.stop()


def leader_of(nodes: Cluster, topic: str, partition: int) -> int:
    found = nodes.admin().list_topics(topic, timeout=60).topics[topic]
    return int(found.partitions[partition].leader)


@pytest.mark.parametrize("point", ["in the middle of a task", "before the decision"])
def test_a_node_that_is_killed_costs_no_row_and_no_failure(
    spark: SparkSession, nodes: Cluster, tmp_path: Path, point: str
) -> None:
    """It leads a partition of the topic, or it is the coordinator of the batch's record."""
    spark.dataSource.register(FaultyDataSource)
    goes_on = tmp_path / "goes-on"
    options = faulty_options(
        nodes.bootstrap, tmp_path, point, "none", replicas=3, **{"fault.waits_for": str(goes_on)}
    )

    query = query_starter(spark, tmp_path, format="faulty", **options)()
    wait_for(tmp_path / "flag", query)
    deciding = partition_for(options["transactional.id"] + "-c", TRANSACTION_PARTITIONS)
    victim = {
        "in the middle of a task": leader_of(nodes, options["topic"], 1),
        "before the decision": leader_of(nodes, TRANSACTION_TOPIC, deciding),
    }[point]
    nodes.kill(victim)
    goes_on.touch()
    query.awaitTermination()
    nodes.start(victim)

    check_rows(nodes.bootstrap, options["topic"], BATCHES)
