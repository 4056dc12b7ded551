"""A cluster that balances itself: brokers that join get their share, on request and automatically."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat import command_line
from tests.compat.wire_client import WireClient
from tests.integration.cluster.conftest import Cluster, MakeCluster, eventually
from tests.integration.cluster.rolling import change, load
from tests.integration.cluster.test_cluster import consume, create, produce
from tests.integration.cluster.test_moves import fill
from tests.integration.cluster.test_quorum_grows import ottla

pytestmark = pytest.mark.slow
PARTITIONS = 12
RECORDS = 600
BALANCE_START_S = 15.0  # for a balance to measure the growth of partitions and to start


def placed(cluster: Cluster, topic: str) -> list[tuple[int, list[int]]]:
    """Return the leader and the replicas of each partition."""
    partitions = cluster.admin(0).list_topics(topic, timeout=60).topics[topic].partitions
    return [(partitions[index].leader, list(partitions[index].replicas)) for index in sorted(partitions)]


def replicas(cluster: Cluster, topic: str) -> Counter[int]:
    return Counter(replica for _, replicas in placed(cluster, topic) for replica in replicas)


def set_for_all(cluster: Cluster, name: str, value: str) -> None:
    config = {"name": name, "config_operation": 0, "value": value}
    resource = {"resource_type": 4, "resource_name": "", "configs": [config]}
    with WireClient(cluster.nodes[0].bootstrap) as client:
        response = client.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert not response.responses[0].error_code, response


def balance(cluster: Cluster, *words: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(ottla(cluster, "cluster", "balance", *words, "--output", "json"))
    return plan


def test_brokers_that_join_get_their_share_on_request(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(4)
    cluster.start(0, 1, 2)
    topic = create(cluster, by=0, partitions=PARTITIONS, replicas=2)
    produce(cluster, topic, RECORDS)
    cluster.start(3)

    planned = balance(cluster, "--plan")
    moved = [one for one in planned["moves"] if set(one["replicas"]) != set(one["new_replicas"])]
    assert {one["reason"] for one in moved} == {"replicas"}
    assert planned["brokers"][3]["before"]["replicas"] == 0
    balance(cluster, "--execute")

    def has_equal_shares() -> bool:
        held, leads = replicas(cluster, topic), Counter(leader for leader, _ in placed(cluster, topic))
        return len(held) == 4 and max(held.values()) - min(held.values()) <= 2 and max(leads.values()) <= 4

    eventually(has_equal_shares, "the node that is asked knows the equal shares")
    # The first consumer creates the topic of offsets, whose placement need not be even with these replicas.
    assert balance(cluster)["moves"] == [] and not balance(cluster, "--status")["requested"]
    assert sorted(map(int, consume(cluster, topic, RECORDS, PARTITIONS))) == list(range(RECORDS))


def test_a_balance_continues_when_the_controller_is_killed(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(4, "ottla.balance.concurrent.moves=1")
    cluster.start(0, 1, 2)
    topic = create(cluster, by=0, partitions=PARTITIONS, replicas=2, min_insync_replicas="2")
    produce(cluster, topic, RECORDS)
    cluster.start(3)

    balance(cluster, "--execute", "--no-wait")
    eventually(lambda: replicas(cluster, topic)[3] > 0, "the first partition has moved")
    controller = cluster.admin().describe_cluster().result(60).controller.id
    cluster.kill(controller)
    cluster.start(controller)

    eventually(lambda: replicas(cluster, topic)[3] >= PARTITIONS // 2 - 1, "the joined broker has its share")
    eventually(lambda: not balance(cluster, "--status")["requested"], "the balance has ended")
    assert sorted(map(int, consume(cluster, topic, RECORDS, PARTITIONS))) == list(range(RECORDS))


def test_a_cluster_that_balances_itself_fills_a_broker_and_empties_another(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(4, "ottla.balance.interval.ms=1000")
    cluster.start(0, 1, 2)
    topic = create(cluster, by=0, partitions=PARTITIONS, replicas=2)
    with load(cluster, topic):
        set_for_all(cluster, "ottla.balance.enable", "true")
        cluster.start(3)
        eventually(
            lambda: replicas(cluster, topic)[3] >= PARTITIONS // 2 - 1, "the new broker has its share", 120
        )

        set_for_all(cluster, "ottla.balance.exclude.brokers", "1")
        eventually(lambda: replicas(cluster, topic)[1] == 0, "the broker is empty", 120)
    assert set(replicas(cluster, topic)) == {0, 2, 3}


def test_a_broker_that_is_decommissioned_stays_empty(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(4, "ottla.balance.interval.ms=1000", "ottla.balance.enable=true")
    cluster.start(0, 1, 2, 3)
    topic = create(cluster, by=0, partitions=PARTITIONS, replicas=2)
    leaving = command_line.start(cluster.bootstrap, "broker", "decommission", "3", "--timeout", "120")
    eventually(lambda: replicas(cluster, topic)[3] == 0, "the broker is empty", 120)

    time.sleep(BALANCE_START_S)

    assert replicas(cluster, topic)[3] == 0
    assert cluster.terminate(3) == 0
    _, err = leaving.communicate(timeout=120)
    assert leaving.returncode == 0, err
    assert balance(cluster)["excluded"] == []


def test_a_balance_is_cancelled(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(4, "ottla.balance.max.bytes.per.second=50000", "ottla.balance.concurrent.moves=2")
    cluster.start(0, 1, 2)
    topic = create(cluster, by=0, partitions=PARTITIONS, replicas=2)
    fill(cluster, topic, 36, PARTITIONS)  # more than the first fetch of each replica, which is not throttled
    cluster.start(3)
    before = placed(cluster, topic)
    waiting = command_line.start(cluster.bootstrap, "cluster", "balance", "--execute")
    eventually(lambda: bool(balance(cluster, "--status")["moving"]), "partitions move")

    cancelled = balance(cluster, "--cancel")["cancelled"]

    assert cancelled and len(cancelled) <= 2
    eventually(lambda: not balance(cluster, "--status")["moving"], "no partition moves")
    eventually(
        lambda: [sorted(one) for _, one in placed(cluster, topic)] == [sorted(one) for _, one in before],
        "all replicas are where they were",
    )
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert "partitions could still move: it was cancelled" in out and "is balanced" not in out


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[list[Path]]:
    """Three file systems of 64 MiB, which only root can mount."""
    mounts = [tmp_path / f"disk-{number}" for number in range(3)]
    mounted: list[Path] = []
    for mount in mounts:
        mount.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(mount)]
        if os.geteuid() == 0 and not subprocess.run(command, capture_output=True, check=False).returncode:
            mounted.append(mount)
    try:
        if len(mounted) < len(mounts):
            pytest.skip("file systems cannot be mounted here")
        yield mounts
    finally:
        for mount in mounted:
            subprocess.run(["umount", "--lazy", str(mount)], check=True)


def test_replicas_move_away_from_a_disk_that_is_nearly_full(
    small_disks: list[Path], make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(3)
    for home, disk in zip(cluster.homes, small_disks, strict=True):
        change(home, log_dirs=disk / "data")
    cluster.start(0, 1, 2)
    topic = create(cluster, by=0, partitions=PARTITIONS, replicas=1)
    count = fill(cluster, topic, 12, partitions=PARTITIONS)
    before = replicas(cluster, topic)
    (small_disks[2] / "filler").write_bytes(bytes(48 * 1024**2))

    planned = balance(cluster, "--plan")
    balance(cluster, "--execute")

    assert {one["reason"] for one in planned["moves"]} == {"disks"}
    fills = [planned["brokers"][2][when]["fill"] for when in ("before", "after")]
    assert fills[0] > 0.75 and fills[1] < fills[0] - 0.03
    assert replicas(cluster, topic)[2] < before[2]
    assert len(consume(cluster, topic, count, PARTITIONS)) == count


def test_no_plan_is_made_without_the_sizes_of_a_broker_that_does_not_answer(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3, "broker.session.timeout.ms=60000")
    cluster.start(0, 1, 2)
    create(cluster, by=0, partitions=3, replicas=3)
    cluster.signal(2, signal.SIGSTOP)
    try:
        answer = ottla(cluster, "cluster", "balance", "--plan", "--timeout", "8", code=1)
    finally:
        cluster.signal(2, signal.SIGCONT)

    assert "node 2" in answer and "did not answer" in answer and "is balanced" not in answer
