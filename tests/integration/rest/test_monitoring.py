"""The dashboard and alerts of k8s/monitoring: nodes have their metrics, and promtool can read them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from ottla.node.embedded import Cluster
from ottla.node.settings.group_config_def import DEAD_LETTER_TOPIC
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually, name_of
from tests.share_polls import poll

pytestmark = pytest.mark.slow

MONITORING = Path(__file__).parents[3] / "k8s" / "monitoring"
METRIC = re.compile(r"\b((?:kafka|ottla|process)_\w+)\b(\{[^}]*\})?")
LABEL = re.compile(r"([a-zA-Z_]+)(?:=~|!~|!=|=)")

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)


def selectors(expression: str) -> list[tuple[str, set[str]]]:
    """Return the metrics in an expression, each with the labels that it uses."""
    return [(name, set(LABEL.findall(labels))) for name, labels in METRIC.findall(expression)]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each expression in the dashboard and the alerts."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            inner = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"])
            assert inner is not None, variable
            yield variable["name"], f'{inner[1]}{{{inner[2]}=""}}'
    for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


@pytest.fixture(scope="module")
def labels_of(rest_cluster: Cluster, apis: list[Api]) -> dict[str, set[str]]:
    """Return every metric that three nodes have after some traffic, with its labels."""
    topic, group = name_of("monitored"), name_of("monitors")
    settings: dict[str, Any] = {"bootstrap.servers": rest_cluster.bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result()
    producer = Producer(settings)
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 99)])  # there is no such offset: the error is counted
    assert eventually(lambda: (one := consumer.poll(1.0)) and not one.error())
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    _reject_a_record(apis, rest_cluster.bootstrap, topic)
    names: dict[str, set[str]] = {}
    for api in apis:
        for family in text_string_to_metric_families(api.ask("GET", "/metrics").content.decode()):
            for sample in family.samples:
                names.setdefault(sample.name, set()).update(sample.labels)
    return names


def _reject_a_record(apis: list[Api], bootstrap: str, topic: str) -> None:
    """Make a share group reject a record when its dead-letter topic does not exist."""
    group = name_of("workers")
    changes = {"share.auto.offset.reset": "earliest", DEAD_LETTER_TOPIC: name_of("dlq.missing")}
    configs = [{"name": name, "value": value} for name, value in changes.items()]
    apis[0].post(f"{apis[0].v3}/groups/{group}/configs:alter", {"data": configs}, 204)
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
    worker = ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"})
    worker.subscribe([topic])
    [record] = eventually(lambda: poll(worker), "the record is received")
    worker.acknowledge(record, AcknowledgeType.REJECT)
    worker.commit_sync(TIMEOUT_S)
    failed = "kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total"
    stalled = "ottla_share_partition_stalled_seconds"

    def are_counted() -> bool:
        metrics = "".join(api.ask("GET", "/metrics").content.decode() for api in apis)
        return f'{failed}{{group="{group}"' in metrics and f'{stalled}{{group="{group}"' in metrics

    assert eventually(are_counted, "the leader of the partition counts the rejection")
    worker.close()


def test_every_metric_and_label_in_an_expression_exists(labels_of: dict[str, set[str]]) -> None:
    count = 0
    for place, expression in expressions():
        names = selectors(expression)
        assert names or expression.startswith("up{"), f"{place} names no metric: {expression}"
        for name, labels in names:
            count += 1
            assert name in labels_of, f"{place}: no node has {name}"
            assert labels - {"instance", "job"} <= labels_of[name], f"{place}: {name} lacks some of {labels}"
    assert count > 70


def test_panels_do_not_overlap() -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    taken: dict[tuple[int, int], str] = {}

    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@needs_promtool
@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", "alerts.yaml"),
        ("check", "config", "prometheus.yaml"),
        ("test", "rules", "alerts.test.yaml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_the_files(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *words], cwd=MONITORING, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_can_read_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__rate_interval", "5m", expression)}
        for number, (_, expression) in enumerate(expressions())
        if not expression.startswith("up")
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    done = subprocess.run(
        ["promtool", "check", "rules", file], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
