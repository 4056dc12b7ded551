"""JSON of very many small values, and pages over many partitions: small requests that cause much work."""

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S
from attacks.nodes import Nodes
from attacks.probes import get
from ottla.logstore.compression import Compression
from ottla.logstore.record import build_batch
from tests.compat.wire_client import eventually

READ_TOPIC: Final = "json-read"
PRODUCED_TOPIC: Final = "json-produced"
PAGED_TOPIC: Final = "json-paged"
PARTS: Final = 3_000_000
ARRAY: Final = b"[" + b"{}," * PARTS + b"{}]"  # 9 MB, 1.3 kB as a batch of zstd
# 9 MB each: brackets, and texts that hold what separates values.
PRODUCED: Final = (
    ARRAY,
    b"[" + b'"[",' * (PARTS * 3 // 4) + b"1]",
    b'["' + rb"\\" * (PARTS * 3 // 2) + b'",1',
)
DOCUMENTS: Final = 50_000
PARTITIONS: Final = 100
LARGE: Final = b"x" * 900_000
READ_QUERIES: Final = ("count=1", "count=1&filter=$.a=1", "offset=-1&count=50&filter=nothing")


def _make(nodes: Nodes, topic: str, partitions: int, value: bytes | None) -> None:
    """Create a topic, and produce a record with this value, if any, to each partition."""
    with nodes.connect() as client:
        configs = [{"name": "max.message.bytes", "value": "16000000"}]
        wanted = {
            "name": topic,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": configs,
        }
        client.call("create_topics", 7, topics=[wanted], timeout_ms=30_000)
        if value is None:
            return
        records = build_batch([(None, value, int(time.time() * 1000), ())], compression=Compression.ZSTD)
        data = [{"index": index, "records": records} for index in range(partitions)]
        topic_data = [{"name": topic, "partition_data": data}]

        def produce() -> set[int]:
            answer = client.call("produce", 9, acks=-1, timeout_ms=30_000, topic_data=topic_data)
            return {int(one.error_code) for one in answer.responses[0].partition_responses}

        assert eventually(produce, {0}.__eq__) == {0}


def _records_url(nodes: Nodes, topic: str) -> str:
    cluster: Any = json.loads(get(nodes.rest, "/v3/clusters")[1])["data"][0]["cluster_id"]
    return f"/v3/clusters/{cluster}/topics/{topic}/records"


def _read(nodes: Nodes) -> str:
    url = _records_url(nodes, READ_TOPIC)
    answers = [get(nodes.rest, f"{url}?{query}&timeout_ms=5000") for query in READ_QUERIES]
    assert {status for status, _ in answers} == {200}, answers
    return f"{len(answers)} pages, the longest {max(len(body) for _, body in answers):,} bytes"


def _produce(nodes: Nodes) -> str:
    url = nodes.rest + _records_url(nodes, PRODUCED_TOPIC)
    codes = []
    for value in PRODUCED:
        try:
            [answered] = _post(url, b'{"value":{"type":"JSON","data":' + value + b"}}")
        except urllib.error.HTTPError as error:
            codes.append(error.code)
            continue
        assert answered["error_code"] >= 400, f"a document of {value[:10]!r} was accepted"
        codes.append(answered["error_code"])
    return f"error codes {codes}"


def _post(url: str, body: bytes) -> list[Any]:
    """Return the reports of the records in a stream."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return [json.loads(line) for line in answer]


def _stream(nodes: Nodes) -> str:
    reports = _post(nodes.rest + _records_url(nodes, PRODUCED_TOPIC), b"{}" * DOCUMENTS)
    assert len(reports) == DOCUMENTS, reports[-1]
    return f"{len(reports):,} reports, the last with code {reports[-1]['error_code']}"


def _page(nodes: Nodes) -> str:
    url = _records_url(nodes, PAGED_TOPIC)
    statuses: Counter[int] = Counter()
    for query in ("offset=earliest&count=1000", "offset=earliest&filter=nothing&timeout_ms=3000"):
        statuses[get(nodes.rest, f"{url}?{query}")[0]] += 1
    assert set(statuses) == {200}, statuses
    return f"{statuses[200]} pages"


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="json-of-many-values-read",
        sends=f"pages and filters over a record of {PARTS:,} values of JSON, which is 1.3 kB compressed",
        send=_read,
        prepare=lambda nodes: _make(nodes, READ_TOPIC, 1, ARRAY),
        cpu_s=3.0,
        node_counts=(1,),
    ),
    Attack(
        name="json-of-many-values-produced",
        sends=f"records of {PARTS:,} values, of texts and of escapes in JSON over REST, each of 9 MB",
        send=_produce,
        prepare=lambda nodes: _make(nodes, PRODUCED_TOPIC, 1, None),
        cpu_s=4.0,
        node_counts=(1,),
    ),
    Attack(
        name="json-of-many-documents",
        sends=f"a stream of {DOCUMENTS:,} empty records over REST",
        send=_stream,
        prepare=lambda nodes: _make(nodes, PRODUCED_TOPIC, 1, None),
        cpu_s=8.0,
        node_counts=(1,),
    ),
    Attack(
        name="pages-over-many-partitions",
        sends=f"pages over {PARTITIONS} partitions that have a record of {len(LARGE):,} bytes each",
        send=_page,
        prepare=lambda nodes: _make(nodes, PAGED_TOPIC, PARTITIONS, LARGE),
        cpu_s=5.0,
        node_counts=(1,),
    ),
)
