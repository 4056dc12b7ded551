"""A node's configuration: where settings come from, what they mean, and what is refused."""

from pathlib import Path

import pytest

from logstore.errors import ErrorCode, KafkaError
from node.broker_settings import BROKER_CONFIG_DEF
from node.config import BrokerConfig, load_config, parse_config
from node.properties_file import parse_properties
from node.settings_not_honoured import NOT_HONOURED


def test_a_node_without_any_setting_has_kafkas_defaults() -> None:
    config = parse_config({})

    assert (config.num_partitions, config.fetch_max_bytes) == (1, 57671680)
    assert [(one.name, one.host, one.port) for one in config.listeners] == [("PLAINTEXT", "", 9092)]
    assert config.values["log.segment.bytes"] == 1 << 30
    assert config.metadata_log_dir == config.log_dirs[0] and not config.warnings


def test_every_attribute_is_a_setting() -> None:
    own = {"listener_max_connections", "values", "static_texts", "cluster_texts", "broker_texts", "warnings"}
    names = {name.replace(".", "_") for name in BROKER_CONFIG_DEF.keys}

    assert set(BrokerConfig.__dataclass_fields__) - own <= names
    assert not NOT_HONOURED & set(BROKER_CONFIG_DEF.keys)


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nlog.segment.bytes=2000000\nfetch.max.bytes=2000\n")

    config = load_config(
        path,
        overrides=["num.partitions=4"],
        environment={"OTTLA_NUM_PARTITIONS": "3", "OTTLA_LOG_SEGMENT_BYTES": "3000000", "OTTLA_HOME": "x"},
    )

    assert config.num_partitions == 4
    assert config.values["log.segment.bytes"] == 3_000_000
    assert config.fetch_max_bytes == 2000


REFUSED = [
    ({"listeners": "nonsense"}, "listeners"),
    ({"listeners": "PLAINTEXT://:99999"}, "port"),
    ({"listeners": "SSL://:9093"}, "only PLAINTEXT"),
    ({"listeners": "A://:1"}, "listener.security.protocol.map"),
    ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "twice"),
    ({"listeners": "CONTROLLER://:1", "controller.listener.names": "CONTROLLER"}, "listeners"),
    (
        {"advertised.listeners": "OTHER://h:1", "listener.security.protocol.map": "OTHER:PLAINTEXT"},
        "PLAINTEXT",
    ),
    ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "address"),
    ({"node.id": "1", "broker.id": "2"}, "broker.id"),
    ({"node.id": "-1"}, "node.id"),
    ({"num.partitions": "0"}, "num.partitions"),
    ({"num.partitions": "x"}, "num.partitions"),
    ({"process.roles": "broker"}, "process.roles"),
    ({"log.dirs": "/a,/b,/a/../b"}, "twice"),
    ({"cluster.id": "short"}, "cluster.id"),
    ({"group.max.session.timeout.ms": "5", "group.min.session.timeout.ms": "6"}, "group.max"),
    ({"max.connections.per.ip.overrides": "host"}, "ADDRESS:LIMIT"),
    ({"inter.broker.listener.name": "X"}, "inter.broker"),
]


@pytest.mark.parametrize(
    ("texts", "word"), REFUSED, ids=[word + str(n) for n, (_, word) in enumerate(REFUSED)]
)
def test_a_setting_that_cannot_be_is_refused_in_one_sentence(texts: dict[str, str], word: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_config(texts)

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert word in refused.value.detail and "\n" not in refused.value.detail


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    name = "listener.name.inner.max.connections"
    config = parse_config({name: "7"})

    assert config.listener_max_connections == {"INNER": 7} and not config.warnings
    assert config.with_dynamic({name: "8"}, {}).listener_max_connections == {"INNER": 8}
    assert config.with_dynamic({name: "8"}, {name: "9"}).listener_max_connections == {"INNER": 9}
    with pytest.raises(KafkaError, match=r"listener\.name\.inner\.max\.connections"):
        parse_config({name: "-1"})


def test_what_kafka_knows_and_we_do_not_honour_is_warned_of_once() -> None:
    config = parse_config({"num.io.threads": "8", "some.thing": "1"})

    assert len(config.warnings) == 2
    assert "num.io.threads" in config.warnings[0] and "some.thing" in config.warnings[1]


def test_listeners_of_controllers_are_left_out() -> None:
    config = parse_config(
        {
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "advertised.listeners": "PLAINTEXT://public:19092,CONTROLLER://localhost:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        }
    )

    assert [one.name for one in config.listeners] == ["PLAINTEXT"]
    assert [(one.host, one.port) for one in config.advertised_listeners] == [("public", 19092)]


def test_dynamic_settings_go_before_static_ones_and_bad_ones_are_left_out() -> None:
    static = parse_config({"message.max.bytes": "100"})

    config = static.with_dynamic(
        {"message.max.bytes": "200", "log.retention.ms": "7", "num.partitions": "9"},
        {"message.max.bytes": "300", "foo": "1", "max.connections": "many"},
    )

    assert config.message_max_bytes == 300 and config.values["log.retention.ms"] == 7
    assert config.num_partitions == 1 and len(config.warnings) == 3
    assert config.with_dynamic({}, {}).message_max_bytes == 100


PROPERTIES = [
    ("a=1", {"a": "1"}),
    ("a = 1 ", {"a": "1 "}),
    ("a:1\n\n# c\n! d\nb 2", {"a": "1", "b": "2"}),
    ("a=x\\\n   y", {"a": "xy"}),
    ("a\\=b=c\\:d", {"a=b": "c:d"}),
    ("a=\\u0041\\t.", {"a": "A\t."}),
    ("a=1\r\na=2", {"a": "2"}),
    ("a", {"a": ""}),
    ("a=b=c", {"a": "b=c"}),
    ("dir=C:\\\\x\\\\", {"dir": "C:\\x\\"}),
]


@pytest.mark.parametrize(("text", "values"), PROPERTIES)
def test_properties_are_read_as_java_reads_them(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text.encode()) == values


def test_a_properties_file_that_is_no_text_is_refused() -> None:
    with pytest.raises(KafkaError):
        parse_properties(b"\xff\xfe")
