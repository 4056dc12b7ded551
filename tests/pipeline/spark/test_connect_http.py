"""A topic to a web hook: each partition in order, equal keys at a replay, rejected records in a topic."""

import json
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.connect import http_sink
from ottla.pipeline.query import AvailableNow, QuerySettings
from tests.pipeline.topics import fill, make_topic
from tests.pipeline.web_hook import Reply, Request, WebHook

pytestmark = pytest.mark.slow

TIMEOUT_S = 120


@pytest.fixture
def hook() -> Iterator[WebHook]:
    served = WebHook()
    yield served
    served.close()


def send(frame: DataFrame, hook: WebHook, checkpoint: str, **options: str) -> None:
    """Send all present records; `__` stands for a dot in options."""
    given = {"http.url": hook.url, "retry.backoff.ms": "1", "max.retries": "0", "batch.max.size": "5"}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    query = QuerySettings(name="hooks", checkpoint=checkpoint, trigger=AvailableNow())
    assert http_sink.start(frame, given, query).awaitTermination(TIMEOUT_S)


def read(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()


def test_a_partition_keeps_its_order_and_a_replay_its_keys(
    spark: SparkSession, bootstrap: str, hook: WebHook, checkpoint: str
) -> None:
    topic = make_topic(bootstrap, partitions=2)
    for partition in (0, 1):
        fill(bootstrap, topic, [b"%d" % number for number in range(12)], partition=partition)
    frame = read(spark, bootstrap, topic, minPartitions="6")

    def crash_late(request: Request) -> Reply:
        return Reply(status=503 if b"11" in request.body else 200)

    hook.answer = crash_late
    with pytest.raises(Exception, match="answered 503"):
        send(frame, hook, checkpoint)
    before, hook.requests = hook.requests, []
    hook.answer = lambda _request: Reply()
    send(frame, hook, checkpoint)

    by_partition: dict[str, list[int]] = {}
    for request in hook.requests:
        of = request.headers["Idempotency-Key"].split("/")[2]
        by_partition.setdefault(of, []).extend(json.loads(request.body))
    assert by_partition == {f"{topic}-0": list(range(12)), f"{topic}-1": list(range(12))}
    bodies = {request.headers["Idempotency-Key"]: request.body for request in hook.requests}
    assert before and all(bodies[request.headers["Idempotency-Key"]] == request.body for request in before)


def test_rejected_records_are_in_the_topic_of_dead_letters(
    spark: SparkSession, bootstrap: str, hook: WebHook, checkpoint: str
) -> None:
    topic, rejected = make_topic(bootstrap), make_topic(bootstrap)
    fill(bootstrap, topic, [b"%d" % number for number in range(10)])
    hook.answer = lambda request: Reply(status=400 if b"7" in request.body else 200)

    send(
        read(spark, bootstrap, topic),
        hook,
        checkpoint,
        errors__tolerance="all",
        errors__deadletterqueue__topic__name=rejected,
        kafka__bootstrap__servers=bootstrap,
    )

    letters = spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    (letter,) = letters.option("subscribe", rejected).option("includeHeaders", "true").load().collect()
    headers = {one.key: bytes(one.value).decode() for one in letter.headers}
    assert bytes(letter.value) == b"7"
    assert headers["__connect.errors.topic"] == topic
    assert headers["__connect.errors.offset"] == "7"
    assert headers["__connect.errors.exception.message"].endswith("answered 400 ''")
