"""Source, sink and mirror on clusters with TLS, logins and an authorizer: access and rejections.

Users have the rights that the tables of the pages name, and no others.
"""

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ottla.logstore.words.errors import KafkaError
from ottla.pipeline.mirror.mirror_job import run
from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.query import AvailableNow, QuerySettings
from tests.compat.java.jars import reason_to_skip
from tests.pages import ROOT
from tests.pipeline.secured import PASSWORDS, TIMEOUT_S, Secured, secured
from tests.pipeline.spark.conftest import KAFKA_OVERRIDES
from tests.pipeline.spark.topic_rows import read_topic, values_of
from tests.pipeline.topics import fill, make_topic

pytestmark = pytest.mark.slow
SOON_S = 30.0  # including the time that Spark itself takes on a busy machine


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    is_kafka = request.param == "kafka"
    if is_kafka and (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    home = tmp_path_factory.mktemp(request.param)
    with secured(home, *(KAFKA_OVERRIDES if is_kafka else ()), is_kafka=is_kafka) as found:
        yield found


@pytest.fixture
def orders(server: Secured) -> str:
    """Make a topic with two records, with no rights for any user."""
    for user in PASSWORDS:
        server.revoke_all(user)
    topic = make_topic(server.bootstrap("ADMIN"), name=f"orders-{uuid4().hex}")
    fill(server.bootstrap("ADMIN"), topic, [b"1", b"2"])
    return topic


def rights_of(page: str, heading: str, **names: str) -> list[str]:
    """Return the rights in the table of a page below a heading, in the form of `Secured.grant`."""
    text = (ROOT / "docs" / page).read_text().partition(f"{heading}\n")[2]
    lines = text.partition("\n\n##")[0].splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| `")]
    assert rows, "the page has no table there"
    found = []
    for resource, operations, *_ in rows:
        kind, _, name = resource.strip().strip("`").partition(" ")
        for old, new in names.items():
            name = name.replace(old, new)
        found += [f"{kind} {name or '-'} {operation.strip()}" for operation in operations.split(",")]
    return found


def copy(spark: SparkSession, source: dict[str, str], sink: dict[str, str], checkpoint: str) -> None:
    """Copy a topic once, by a stream."""
    rows = spark.readStream.format("ottla").options(**source, startingOffsets="earliest").load()
    query = rows.select("key", "value").writeStream.format("ottla").options(**sink)
    query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


# ---- rights -------------------------------------------------------------------------------------


def test_a_stream_copies_exactly_once_with_the_rights_of_the_page(
    spark: SparkSession, server: Secured, orders: str, checkpoint: str
) -> None:
    copies = make_topic(server.bootstrap("ADMIN"), name=f"copies-{uuid4().hex}")
    source = {**server.options("anna"), "subscribe": orders, "kafka.group.id": f"{orders}-lag"}
    sink = {**server.options("bert", mechanism="SCRAM-SHA-256"), "topic": copies}
    once = {**sink, "delivery.guarantee": "exactly_once", "transactional.id": f"{orders}.copies"}
    lag = f"{orders}-lag"
    server.grant("anna", *rights_of("spark.md", "### Rights of the source", orders=orders, lag=lag))
    server.grant(
        "bert",
        *rights_of(
            "spark.md", "### Rights of an exactly-once sink", copies=copies, TRANSACTIONAL=f"{orders}.copies"
        ),
    )

    copy(spark, source, once, checkpoint)
    fill(server.bootstrap("ADMIN"), orders, [b"3"])
    copy(spark, source, once, checkpoint)

    assert values_of(read_topic(server.bootstrap("ADMIN"), copies)) == {b"1": 1, b"2": 1, b"3": 1}


def test_a_batch_needs_one_right_to_be_read_and_one_to_be_written(
    spark: SparkSession, server: Secured, orders: str
) -> None:
    copies = make_topic(server.bootstrap("ADMIN"), name=f"copies-{uuid4().hex}")
    server.grant("anna", f"topic {orders} read")
    server.grant("bert", f"topic {copies} write")

    rows = spark.read.format("ottla").options(**server.options("anna"), subscribe=orders).load()
    sink = {**server.options("bert", mechanism="PLAIN"), "topic": copies}
    rows.select("value").write.format("ottla").mode("append").options(**sink).save()

    assert values_of(read_topic(server.bootstrap("ADMIN"), copies)) == {b"1": 1, b"2": 1}


@pytest.mark.parametrize("missing", ["source", "sink"])
def test_a_missing_right_is_reported(spark: SparkSession, server: Secured, orders: str, missing: str) -> None:
    copies = make_topic(server.bootstrap("ADMIN"), name=f"copies-{uuid4().hex}")
    if missing == "source":
        server.grant("anna", f"topic {copies} write")
    else:
        server.grant("anna", f"topic {orders} read", f"topic {copies} describe", "cluster - idempotent_write")

    with pytest.raises(PySparkException, match="TOPIC_AUTHORIZATION_FAILED"):
        rows = spark.read.format("ottla").options(**server.options(), subscribe=orders).load()
        sink = {**server.options(), "topic": copies}
        rows.select("value").write.format("ottla").mode("append").options(**sink).save()


def mirror_options(server: Secured, topic: str, **more: str) -> MirrorOptions:
    """Return options of a mirror of a cluster into itself, with a user for each side."""
    sides = {"source": server.options("anna"), "target": server.options("bert")}
    given = {
        f"{side}.cluster.{name.removeprefix('kafka.')}": value
        for side, options in sides.items()
        for name, value in options.items()
    }
    aliases = {"source.cluster.alias": "a", "target.cluster.alias": "b"}
    return MirrorOptions.from_options({**given, **aliases, "topics": topic, **more})


def test_a_mirror_runs_with_the_rights_of_the_page(
    spark: SparkSession, server: Secured, orders: str, checkpoint: str
) -> None:
    server.grant("anna", *rights_of("mirror.md", "### Rights in the source", payments=orders))
    server.grant("bert", *rights_of("mirror.md", "### Rights in the target", payments=orders))
    settings = QuerySettings(name="mirror", checkpoint=checkpoint, trigger=AvailableNow())
    group = f"{orders}-readers"
    reader = Consumer({"bootstrap.servers": server.bootstrap("ADMIN"), "group.id": group})
    reader.commit(offsets=[TopicPartition(orders, 0, 1)], asynchronous=False)

    job = run(spark, mirror_options(server, orders), settings)
    job.query.awaitTermination()
    status = job.status()
    job.stop()

    assert values_of(read_topic(server.bootstrap("ADMIN"), f"a.{orders}")) == {b"1": 1, b"2": 1}
    assert status.lag == 0 and status.rounds.problems == {}
    [copied] = reader.committed([TopicPartition(f"a.{orders}", 0)], timeout=TIMEOUT_S)
    reader.close()
    assert copied.offset == 1


# ---- rejections ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["password", "authority"])
def test_a_stream_without_access_stops_with_one_sentence_at_once(
    spark: SparkSession, server: Secured, orders: str, checkpoint: str, wrong: str
) -> None:
    options = server.options(password="guessed-canary") if wrong == "password" else server.options()
    if wrong == "authority":
        options["kafka.ssl.truststore.location"] = str(server.home / "untrusted.pem")
    begun = time.monotonic()

    with pytest.raises(PySparkException) as rejected:
        copy(spark, {**options, "subscribe": orders}, {**options, "topic": orders}, checkpoint)

    message = str(rejected.value)
    expected = (
        "refused the login of the user anna" if wrong == "password" else "its certificate is not trusted"
    )
    assert expected in message and "canary" not in message
    assert time.monotonic() - begun < SOON_S


def test_a_mirror_without_access_fails_with_the_reason(
    spark: SparkSession, server: Secured, checkpoint: str
) -> None:
    wrong = server.options("bert", password="guessed-canary")["kafka.sasl.jaas.config"]
    options = mirror_options(server, "orders", **{"target.cluster.sasl.jaas.config": wrong})
    settings = QuerySettings(name="mirror", checkpoint=checkpoint, trigger=AvailableNow())

    with pytest.raises(KafkaError, match="refused the login of the user bert"):
        run(spark, options, settings)


def test_a_misspelt_setting_stops_a_query_by_its_name(spark: SparkSession, server: Secured) -> None:
    options = {**server.options(), "kafka.ssl.trustore.location": "canary", "subscribe": "orders"}

    with pytest.raises(PySparkException, match=r"kafka\.ssl\.trustore\.location: is not a sec") as rejected:
        spark.read.format("ottla").options(**options).load().collect()

    assert "canary" not in str(rejected.value)
