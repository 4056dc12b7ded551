"""One Spark session for all tests except `applications`, run by one process (`tests/conftest.py`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.spark.java import NoJavaError, find_java
from ottla.pipeline.spark.session import start_session
from tests.compat.java.jars import reason_to_skip, reason_without_java, spark_connector_jars
from tests.compat.servers import start_kafka
from tests.pipeline.spark.either_format import FORMATS, Either
from tests.pipeline.spark.sessions import CONFIGURATION
from tests.pipeline.spark.warm_python import warm_python
from tests.ports import free_port

# Spark's usual manager of checkpoints starts the program `chmod` for each file, 20 ms each. It is used where
# drivers are killed (`applications`).
CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": f"{CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
}
KAFKA_OVERRIDES = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start a session with two local cores and no web page; skip if there is no Java at all."""
    try:
        java = find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {**CONFIGURATION, **SESSION_SETTINGS, "spark.sql.warehouse.dir": str(warehouse)}
    # Our format needs no jar (`test_session.py`); with these jars, Spark's connector is its reference.
    settings["spark.jars"] = ",".join(spark_connector_jars() or ())
    with warm_python() as python:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("PYSPARK_PYTHON", python)
            session = start_session("tests", settings, master="local[2]", java=java)
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Return a path at which a query of this test may keep its checkpoint."""
    return str(tmp_path / "checkpoint")


@pytest.fixture(autouse=True)
def no_query_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop the queries that a failed test leaves running, as the session continues."""
    yield
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        for query in session.streams.active:
            query.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of Apache Kafka 4.3.1; skip the test if it cannot run here."""
    if (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    server = start_kafka(tmp_path_factory.mktemp("kafka"), *KAFKA_OVERRIDES)
    yield server.bootstrap
    server.stop()


@pytest.fixture(scope="session")
def connect_server(spark: SparkSession) -> Iterator[str]:
    """Return the address at which clients of Spark Connect reach the application of this session."""
    port = free_port()
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    context = spark.sparkContext._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.port", str(port))
    server = jvm.org.apache.spark.sql.connect.SparkConnectPlugin().driverPlugin()
    server.init(context, None)
    yield f"sc://127.0.0.1:{port}"
    server.shutdown()


@pytest.fixture
def connector(spark: SparkSession) -> str:
    """Return the name of Spark's own Kafka connector; skip the test if its jars are missing."""
    if not spark.conf.get("spark.jars"):
        pytest.skip(reason_without_java() or "Maven does not resolve the jars of Spark's connector")
    return "kafka"


@pytest.fixture
def either(spark: SparkSession, bootstrap: str, connector: str) -> dict[str, Either]:
    """Return both formats by name."""
    assert connector in FORMATS
    return {name: Either(spark=spark, bootstrap=bootstrap, name=name) for name in FORMATS}
