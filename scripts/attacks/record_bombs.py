"""Batches of a few kB that decompress into millions of records, for each part that decompresses batches.

These are Produce, look-ups by time, compaction, and reads over the REST API.
"""

import http.client
import json
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S, at_leader, codes_in, in_words
from attacks.kubelet import SETTINGS, probed
from attacks.nodes import Nodes
from attacks.probes import get
from ottla.logstore.compression import Compression, compress
from ottla.logstore.record import seal_batch
from ottla.logstore.record_batch import BatchHeader
from tests.compat.batches import batch
from tests.compat.wire_client import WireClient, eventually

MILLION: Final = 1_000_000
MANY_BOMBS: Final = 100
TINY: Final = bytes.fromhex("0c000000010100")  # no key, no value
# The largest timestamp, which a header claims though no record has it; within the range that a topic accepts.
CLAIMED_MS: Final = int(time.time() * 1000) + 1_800_000
LOOKUP_MS: Final = CLAIMED_MS - 1
GONE_CLIENTS: Final = 8
TAIL_S: Final = 2.0
# Requests as the console sends them: the newest records, a search, and the records since a time.
CONSOLE_PAGES: Final = (
    "offset=-50&count=50&timeout_ms=1500",
    "offset=earliest&filter=nothing&timeout_ms=1500",
    f"timestamp={int(time.time() * 1000) - 3_600_000}&count=50&timeout_ms=1500",
)
# The node stores batches that it rejects by default, as nodes did before they validated records.
NOT_VALIDATING: Final = {"validate.records": "false", "log.cleaner.backoff.ms": "100"}


@cache
def bomb(number: int, *, max_timestamp: int | None = None) -> bytes:
    """Return a batch of this number of records, 0.7 kB for each million."""
    now_ms = int(time.time() * 1000)
    header = BatchHeader(
        0, 0, 0, 2, 0, Compression.ZSTD, number - 1, now_ms, max_timestamp or now_ms, -1, -1, -1, number
    )
    return bytes(seal_batch(header, compress(Compression.ZSTD, TINY * number)))


def _made(topic: str, **configs: str) -> Callable[[Nodes], None]:
    """Return a function that creates a topic of one partition with these settings."""

    def prepare(nodes: Nodes) -> None:
        with nodes.connect() as client:
            wanted = {
                "name": topic,
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": [{"name": name, "value": value} for name, value in configs.items()],
            }
            created = client.call("create_topics", 7, topics=[wanted], timeout_ms=30_000).topics[0]
            assert not created.error_code, created
            first = batch([b"first"], keys=[b"k"])
            codes = eventually(lambda: _produce(nodes, topic, first), "NONE".__eq__)
            assert codes == "NONE", codes

    return prepare


def _produce(nodes: Nodes, topic: str, records: bytes) -> str:
    with at_leader(nodes, topic).connect(timeout_s=TIMEOUT_S) as client:
        data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
        answer = client.call("produce", 9, acks=1, timeout_ms=30_000, topic_data=data)
        return in_words(codes_in(answer)).removeprefix("1 x ")


def _list_offsets(nodes: Nodes, topic: str, timestamp: int) -> Any:
    with at_leader(nodes, topic).connect(timeout_s=TIMEOUT_S) as client:
        return _offset_for_time(client, topic, timestamp)


def _offset_for_time(client: WireClient, topic: str, timestamp: int) -> Any:
    partitions = [{"partition_index": 0, "timestamp": timestamp}]
    answer = client.call("list_offsets", 7, replica_id=-1, topics=[{"name": topic, "partitions": partitions}])
    return answer.topics[0].partitions[0]


# ---- the attacks ---------------------------------------------------------------------------------


def _send_refused(nodes: Nodes) -> str:
    codes = {_produce(nodes, "bombs-checked", bomb(10 * MILLION)) for _ in range(10)}
    assert codes == {"INVALID_RECORD"}, codes
    return "10 x INVALID_RECORD"


def _send_to_compacted(nodes: Nodes) -> str:
    """Produce bombs to a compacted topic, which decompresses each to find keys, beside an honest producer."""
    with ThreadPoolExecutor(8) as threads:
        hostile = [threads.submit(_produce, nodes, "bombs-compacted", bomb(MILLION)) for _ in range(40)]
        honest = batch([b"honest" * 20_000], keys=[b"k"])
        codes = {_produce(nodes, "bombs-compacted", honest) for _ in range(5)}
        refused = {one.result() for one in hostile}
    assert codes == {"NONE"}, f"an honest producer got {codes}"
    assert refused == {"INVALID_RECORD"}, refused
    return "40 x INVALID_RECORD"


def prepare_times(nodes: Nodes) -> None:
    """Create topics for look-ups by time: one with bombs whose headers lie, and an honest one."""
    _made("bombs-times")(nodes)
    _made("honest-times")(nodes)
    for _ in range(20):
        code = _produce(nodes, "bombs-times", bomb(10 * MILLION, max_timestamp=CLAIMED_MS))
        assert code == "NONE", code


def begin_lookup(client: WireClient) -> None:
    """Send a look-up of a time that is after every bomb's records; do not wait for the response."""
    partitions = [{"partition_index": 0, "timestamp": LOOKUP_MS}]
    client.send("list_offsets", 7, replica_id=-1, topics=[{"name": "bombs-times", "partitions": partitions}])


def _send_times(nodes: Nodes) -> str:
    """Look up times in bombs, over connections that close at once; an honest look-up must be served."""
    for _ in range(GONE_CLIENTS):
        with at_leader(nodes, "bombs-times").connect() as client:
            begin_lookup(client)
    honest = _list_offsets(nodes, "honest-times", 1)
    assert (honest.error_code, honest.offset) == (0, 0), f"an honest look-up got {honest}"
    found = _list_offsets(nodes, "bombs-times", LOOKUP_MS)
    return f"error code {found.error_code}"


def _prepare_readers(nodes: Nodes) -> None:
    _made("bombs-read")(nodes)
    for _ in range(5):
        code = _produce(nodes, "bombs-read", bomb(10 * MILLION))
        assert code == "NONE", code


def _send_readers(nodes: Nodes) -> str:
    """Read pages as clients of the API and the console do, and a live tail, while the node is probed."""
    cluster = json.loads(get(nodes.rest, "/v3/clusters")[1])["data"][0]["cluster_id"]
    path = f"/v3/clusters/{cluster}/topics/bombs-read/records"
    requests = (*(f"offset=earliest&count={count}" for count in (1, 2, 100, 1, 1, 1)), *CONSOLE_PAGES)
    with probed(nodes) as kubelet:
        found = [len(json.loads(get(nodes.rest, f"{path}?{query}")[1])["data"]) for query in requests]
        tail_bytes = _tail(nodes, f"{path}?offset=earliest&filter=nothing")
    assert found[:6] == [1, 2, 100, 1, 1, 1], found
    return f"pages of {found} records; a tail of {tail_bytes} bytes; {kubelet.requests} probes"


def _tail(nodes: Nodes, path: str) -> int:
    """Follow a live tail that finds nothing, for TAIL_S; return the number of bytes received."""
    parts = urlsplit(nodes.rest)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TAIL_S)
    received = 0
    try:
        connection.request("GET", path, headers={"Accept": "text/event-stream"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        until = time.monotonic() + TAIL_S
        while time.monotonic() < until:
            received += len(answer.fp.readline())
    except TimeoutError:
        return received
    finally:
        connection.close()
    return received


def _prepare_cleaner(nodes: Nodes) -> None:
    _made("bombs-cleaned")(nodes)
    assert _produce(nodes, "bombs-cleaned", bomb(2 * MILLION)) == "NONE"


def _send_cleaner(nodes: Nodes) -> str:
    """Make a topic compacted that holds a bomb already."""
    _make_compacted(nodes, "bombs-cleaned")
    outcome = eventually(lambda: _cleaned(nodes, "bombs-cleaned"), bool)
    assert outcome, "the log was neither cleaned nor set apart"
    return outcome


def _make_compacted(nodes: Nodes, topic: str) -> None:
    """Make a topic compacted, and close its segment, so that the cleaner cleans it soon."""
    with nodes.connect() as client:
        wanted = {
            "cleanup.policy": "compact",
            "segment.ms": "1",
            "min.cleanable.dirty.ratio": "0",
        }
        configs = [{"name": name, "config_operation": 0, "value": value} for name, value in wanted.items()]
        resources = [{"resource_type": 2, "resource_name": topic, "configs": configs}]
        client.call("incremental_alter_configs", 1, resources=resources, validate_only=False)
    for _ in range(2):  # each new batch closes the segment before it
        time.sleep(0.05)
        _produce(nodes, topic, batch([b"next"], keys=[b"k"]))


def _prepare_many(nodes: Nodes) -> None:
    _made("bombs-many")(nodes)
    _made("honest-compacted")(nodes)
    for _ in range(MANY_BOMBS):
        assert _produce(nodes, "bombs-many", bomb(2 * MILLION)) == "NONE"


def _send_many(nodes: Nodes) -> str:
    """Make a topic of bombs compacted, then an honest topic.

    The topic of bombs is always the dirtier one; the honest topic must be cleaned between its rounds.
    """
    _make_compacted(nodes, "bombs-many")
    time.sleep(1.0)  # its first round has begun
    _make_compacted(nodes, "honest-compacted")
    try:
        outcome = eventually(lambda: _cleaned(nodes, "honest-compacted"), bool, 4 * TIMEOUT_S)
        assert outcome == "cleaned", "the honest topic was not cleaned"
        rounds = len(re.findall(r"bombs-many-0 cleaned from", nodes.log()))
        assert rounds <= 1, f"after {rounds} rounds over the bombs"
    finally:
        with nodes.connect() as client:
            client.call("delete_topics", 5, topic_names=["bombs-many"], timeout_ms=30_000)
    return f"cleaned after {rounds} rounds over the bombs"


def _cleaned(nodes: Nodes, topic: str) -> str:
    """Return "cleaned" or "set apart" once the cleaner has processed a topic, and an empty text before."""
    if re.search(rf"{topic}-0 cleaned from", nodes.log()):
        return "cleaned"
    scrapes = b"".join(nodes.scrape(place) for place in range(len(nodes.processes)))
    set_apart = re.search(
        rb"^kafka_log_logcleanermanager_uncleanable_partitions_count\{.*\} [1-9]", scrapes, flags=re.M
    )
    return "set apart" if set_apart else ""


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="bombs-produced",
        sends="10 batches of 7 kB with 10 million records each, which all claim one offset",
        send=_send_refused,
        prepare=_made("bombs-checked"),
        cpu_s=5.0,
    ),
    Attack(
        name="bombs-to-a-compacted-topic",
        sends="40 batches of a million records without a key, and an honest producer beside them",
        send=_send_to_compacted,
        prepare=_made("bombs-compacted", **{"cleanup.policy": "compact"}),
        cpu_s=10.0,
    ),
    Attack(
        name="bombs-by-time",
        sends="look-ups by time in 20 batches of 10 million records with false times; clients leave at once",
        send=_send_times,
        prepare=prepare_times,
        cpu_s=6.0,
        settings=NOT_VALIDATING,
    ),
    Attack(
        name="bombs-read",
        sends="pages of a topic with 5 batches of 10 million records",
        send=_send_readers,
        prepare=_prepare_readers,
        cpu_s=8.0,  # a live tail decompresses within its budget for as long as it is open
        settings={**NOT_VALIDATING, **SETTINGS},
    ),
    Attack(
        name="bombs-cleaned",
        sends="a topic with 2 million records without a key in 1.4 kB is made compacted",
        send=_send_cleaner,
        prepare=_prepare_cleaner,
        cpu_s=15.0,
        settings=NOT_VALIDATING,
    ),
    Attack(
        name="bombs-beside-an-honest-topic",
        sends=f"a topic with {2 * MANY_BOMBS} million records is made compacted, then an honest one",
        send=_send_many,
        prepare=_prepare_many,
        cpu_s=60.0,
        growth_mib=160.0,  # includes the map of keys, sized by the number of offsets
        settings=NOT_VALIDATING,
        is_thorough=True,
    ),
)
