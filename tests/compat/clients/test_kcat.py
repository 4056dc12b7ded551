"""kcat (librdkafka 2.0, Debian's), unmodified, as a client of a node."""

import json
import re
import shutil
import subprocess
from uuid import uuid4

import pytest

from tests.compat.clients.secured_node import PLAIN, SCRAM_256, SCRAM_512, TOPIC, SecuredNode, client_settings
from tests.compat.wire_client import WireClient, only

pytestmark = pytest.mark.skipif(
    shutil.which("kcat") is None, reason="kcat is not installed: apt-get install kcat"
)
WAIT_S = 60
SCRAM_WORKS_FROM = (2, 6, 1)  # older versions send their nonce twice, which Kafka 3 accepted


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"kcat-{uuid4().hex[:8]}"
    with WireClient(bootstrap) as client:
        wanted = {"name": name, "num_partitions": 2, "replication_factor": 1}
        assert only(client.call("create_topics", 7, topics=[wanted], timeout_ms=5000).topics).error_code == 0
    return name


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_consumed_records_are_those_that_were_produced(bootstrap: str, topic: str, compression: str) -> None:
    sent = "".join(f"k{number}:{'v' * 20}{number}\n" for number in range(100))
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-z", compression, "-H", "from=kcat", stdin=sent)

    printed = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-f", "%k:%s %h\n")

    lines = [line.removesuffix(" from=kcat") for line in printed.splitlines()]
    assert sorted(lines) == sorted(sent.splitlines())


@pytest.mark.slow
def test_a_group_member_consumes_all_records(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="one\ntwo\nthree\n")

    printed = kcat(
        bootstrap, "-G", f"group-{uuid4().hex[:8]}", "-X", "auto.offset.reset=earliest", "-c3", "-q", topic
    )

    assert sorted(printed.split()) == ["one", "three", "two"]


def test_metadata_and_offsets_by_time_are_returned(bootstrap: str, topic: str) -> None:
    listed = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    kcat(bootstrap, "-P", "-t", topic, "-p0", stdin="one\ntwo\n")

    assert len(listed["brokers"]) == 1
    assert [len(one["partitions"]) for one in listed["topics"] if one["topic"] == topic] == [2]
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "2"]
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:1").split() == [topic, "[0]", "offset", "0"]
    printed = kcat(bootstrap, "-C", "-t", topic, "-p0", "-o1", "-c1", "-q")
    assert printed == "two\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("SSL", None),
        ("MUTUAL", None),
        ("OPEN", SCRAM_256),
        ("TLS", PLAIN),
        ("TLS", SCRAM_256),
        ("TLS", SCRAM_512),
    ],
)
def test_a_record_goes_there_and_back_at_a_secured_node(
    node: SecuredNode, listener: str, mechanism: str | None
) -> None:
    """An old librdkafka cannot log in by SCRAM, neither here nor at Apache Kafka 4."""
    security, value = kcat_arguments(client_settings(node, listener, mechanism)), f"{listener}-{mechanism}"
    if listener == "MUTUAL":
        own = node.home / "client.pem"
        security += ("-X", f"ssl.certificate.location={own}", "-X", f"ssl.key.location={own}")
    if mechanism in (SCRAM_256, SCRAM_512) and librdkafka_version() < SCRAM_WORKS_FROM:
        assert "SASL authentication error: Authentication failed" in connection_errors(
            node.bootstrap(listener), *security
        )
        return

    kcat(node.bootstrap(listener), *security, "-P", "-t", TOPIC, "-p0", stdin=f"{value}\n")

    printed = kcat(node.bootstrap(listener), *security, "-C", "-t", TOPIC, "-p0", "-o-1", "-c1", "-q")
    assert printed == f"{value}\n"


@pytest.mark.slow
def test_a_wrong_password_is_reported(node: SecuredNode) -> None:
    security = kcat_arguments(client_settings(node, "TLS", PLAIN, password="guessed"))

    message = connection_errors(node.bootstrap("TLS"), *security)

    assert "SASL authentication error: Authentication failed: Invalid username or password" in message


def connection_errors(bootstrap: str, *security: str) -> str:
    """Return the errors that kcat prints when it cannot connect."""
    command = ["kcat", "-b", bootstrap, *security, "-L", "-m", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr


def librdkafka_version() -> tuple[int, ...]:
    printed = subprocess.run(
        ["kcat", "-V"], capture_output=True, text=True, timeout=WAIT_S, check=True
    ).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", printed)
    assert found is not None, printed
    return tuple(map(int, found.groups()))


def kcat_arguments(given: dict[str, str]) -> tuple[str, ...]:
    """Return kcat's arguments for these settings."""
    names = {"ca": "ssl.ca.location", "mechanism": "sasl.mechanism"}
    names |= {"user": "sasl.username", "password": "sasl.password"}
    found = [f"{names.get(name, name)}={value}" for name, value in given.items() if "bootstrap" not in name]
    return tuple(word for one in found for word in ("-X", one))
