"""The OpenAPI document compared with a running node: schemathesis sends requests for all of its operations.

The tests use a separate cluster of one node, since the requests delete, drain and move. The names in paths
exist, since otherwise nearly all responses would be 404.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import Api

pytestmark = pytest.mark.slow
TOPIC, GROUP = "kept", "readers"
THOROUGH_EXAMPLES = 20  # per operation and phase
CHECKS = Path(__file__).parent / "openapi_checks.py"  # schemathesis loads this module
CONFIG = """
seed = 8
hooks = "{hooks}"
max-failures = 40
request-timeout = 30
workers = 1

[generation]
max-examples = {examples}
database = "none"

[phases.stateful]
enabled = false

[parameters]
"path.cluster_id" = "{cluster_id}"
"path.topic_name" = "{topic}"
"path.consumer_group_id" = "{group}"
"path.partition_id" = 0
"path.broker_id" = 0
"path.group_name" = "v2-readers"
"path.instance" = "kept"

[checks]
# A schema cannot express everything, such as more replicas than nodes, or an invalid value of a setting.
positive_data_acceptance.expected-statuses = ["2xx", "400", "404", "409", "422", "429", "503"]
# 503 may answer a request with a short timeout (openapi_checks.py checks which); other 5xx are failures.
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

# The body reports an invalid record; the status says only that the stream, or the batch, was read.
[[operations]]
include-operation-id = ["produceRecord", "produceRecordsBatch"]
checks.negative_data_rejection.enabled = false

# A transactional id may be "abort", so this path allows GET; the document has that GET at the path of ids.
[[operations]]
include-path = "/v1/transactions/abort"
checks.allow_header_conformance.enabled = false

[[operations]]
include-operation-id = "deleteKafkaTopic"
parameters."path.topic_name" = "missing"

[[operations]]
include-operation-id = "deleteConsumerV2"
parameters."path.instance" = "missing"
"""


@pytest.fixture
def alone() -> Iterator[Api]:
    """Start a node with a topic, and a group that has committed; return its API."""
    with Cluster(nodes=1, rest=True, overrides={"auto.create.topics.enable": "false"}) as cluster:
        api = Api(cluster.rest_urls[0], cluster.cluster_id)
        api.post(f"{api.v3}/topics", {"topic_name": TOPIC, "partitions_count": 2}, 201)
        api.post(f"{api.v3}/topics/{TOPIC}/records", {"partition_id": 0})
        api.post("/consumers/v2-readers", {"name": "kept", "format": "binary"})
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "log_level": 0})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
        consumer.close()
        yield api
        assert api.get("/v3/clusters")["data"]


@pytest.mark.timeout(1_900)
def test_the_node_does_what_its_document_says(alone: Api, tmp_path: Path, is_thorough: bool) -> None:
    examples = THOROUGH_EXAMPLES if is_thorough else 1
    config = CONFIG.format(
        cluster_id=alone.cluster_id, topic=TOPIC, group=GROUP, hooks=CHECKS, examples=examples
    )
    (tmp_path / "schemathesis.toml").write_text(config)

    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml"]
    run = subprocess.run(
        [*command, "run", f"{alone.url}/openapi.json", "--no-color"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1_800,
    )

    # schemathesis does not check the document itself.
    paths = alone.get("/openapi.json")["paths"].items()
    operations = sum(len(one) for path, one in paths if path != "/openapi.json")
    assert run.returncode == 0, run.stdout[-20_000:]
    counted = re.search(r"Selected: (\d+)/(\d+)\s+Tested: (\d+)", run.stdout)
    assert counted is not None and counted.groups() == (str(operations),) * 3
