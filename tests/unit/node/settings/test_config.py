"""The configuration of a node: the sources of settings, their meaning, and errors."""

import re
from pathlib import Path

import pytest

from ottla.logstore.log_config import TOPIC_CONFIG_DEF
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.old_names import OLD_BROKER_NAMES
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.config import BrokerConfig, environment_name, load_config, parse_config
from ottla.node.settings.properties_file import parse_properties
from ottla.node.settings.settings_not_honoured import NOT_HONOURED


def test_a_node_without_any_setting_has_kafkas_defaults() -> None:
    config = parse_config({})

    assert (config.num_partitions, config.fetch_max_bytes) == (1, 57671680)
    assert [(one.name, one.host, one.port) for one in config.listeners] == [("PLAINTEXT", "", 9092)]
    assert config.values["log.segment.bytes"] == 1 << 30
    assert config.metadata_log_dir == config.log_dirs[0] and not config.warnings


def test_every_attribute_is_a_setting() -> None:
    own = {
        "listener_max_connections",
        "listener_max_connection_creation_rate",
        "values",
        "static_texts",
        "cluster_texts",
        "broker_texts",
        "warnings",
    }
    own |= {
        "listener_security",
        "controller_security",
        "peer_security",
        "peer_login",
        "controller_sasl",
        "controller_login",
        "listener_sasl",
        "first_users",
        "secure_files",
        "authorizer",
        "audit_file",
        "is_broker",
        "is_voter",
        "may_vote",
        "advertised_controllers",
        "controller_listeners",
        "rest_listeners_are_named",
        "rest_security",
        "rest_logins",
    }
    names = {name.replace(".", "_") for name in BROKER_CONFIG_DEF.keys}

    assert set(BrokerConfig.__dataclass_fields__) - own <= names
    assert not NOT_HONOURED & set(BROKER_CONFIG_DEF.keys)


def test_an_environment_variable_is_the_name_of_its_setting_with_one_prefix() -> None:
    names = [environment_name(setting) for setting in (*BROKER_CONFIG_DEF.keys, *NOT_HONOURED)]

    config = load_config(
        environment={"OTTLA_REST_LISTENERS": "http://:18082", "OTTLA_NODE_ID": "7", "OTTLA_BROKER_RACK": ""}
    )

    assert len(set(names)) == len(names), "no two settings share a variable"
    assert [one.port for one in config.ottla_rest_listeners] == [18082]
    assert config.node_id == 7 and config.broker_rack is None


def test_overrides_win_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
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
    ({"listeners": "PLAINTEXT://:9092,SASL_PLAINTEXT://:9093"}, "cannot use GSSAPI"),
    ({"listeners": "SSL://:9093", "ssl.keystore.location": "a"}, "no listener uses PLAINTEXT"),
    ({"listeners": "PLAINTEXT://:9092,SSL://:9093"}, "ssl.keystore.location"),
    (
        {
            "listeners": "PLAINTEXT://:9092,SSL://:9093",
            "ssl.keystore.location": "a",
            "inter.broker.listener.name": "SSL",
        },
        "connects the nodes of the cluster, so it needs this setting",
    ),
    ({"listeners": "A://:1"}, "listener.security.protocol.map"),
    ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "twice"),
    ({"listeners": "CONTROLLER://:1", "controller.listener.names": "CONTROLLER"}, "listeners"),
    (
        {"advertised.listeners": "OTHER://h:1", "listener.security.protocol.map": "OTHER:PLAINTEXT"},
        "PLAINTEXT",
    ),
    ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "address"),
    ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "such as PLAINTEXT://HOST:1"),
    ({"listeners": "PLAINTEXT://[::]:1"}, "PLAINTEXT listens on ::"),
    (
        {
            "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
            "controller.listener.names": "CONTROLLER",
            "advertised.listeners": "PLAINTEXT://h:1,CONTROLLER://0.0.0.0:2",
        },
        "CONTROLLER has no address",
    ),
    (
        {
            "listeners": "PLAINTEXT://:1",
            "controller.listener.names": "CONTROLLER",
            "advertised.listeners": "PLAINTEXT://h:1,CONTROLLER://h:2",
        },
        "CONTROLLER is not in listeners",
    ),
    ({"node.id": "1", "broker.id": "2"}, "broker.id"),
    ({"node.id": "-1"}, "node.id"),
    ({"num.partitions": "0"}, "num.partitions"),
    ({"num.partitions": "x"}, "num.partitions"),
    ({"process.roles": "broker"}, "controller.quorum.voters"),
    ({"process.roles": "controller"}, "controller.listener.names"),
    ({"log.dirs": "/a,/b,/a/../b"}, "twice"),
    ({"log.dirs": ""}, "log.dirs: it must not be empty"),
    ({"log.dirs": "/a,,/b"}, "log.dirs: it must not contain an empty entry"),
    ({"log.dir": ""}, "log.dir: it must not be empty"),
    ({"log.dirs": "/a\0b"}, "log.dirs: it contains a zero byte"),
    ({"metadata.log.dir": "/a\0b"}, "metadata.log.dir: it contains a zero byte"),
    ({"advertised.listeners": "PLAINTEXT://h\0:1"}, "advertised.listeners: it contains a zero byte"),
    ({"cluster.id": "short"}, "cluster.id"),
    ({"group.max.session.timeout.ms": "5", "group.min.session.timeout.ms": "6"}, "group.max"),
    ({"max.connections.per.ip.overrides": "host"}, "ADDRESS:LIMIT"),
    ({"inter.broker.listener.name": "X"}, "inter.broker"),
]


@pytest.mark.parametrize(
    ("texts", "word"), REFUSED, ids=[word + str(n) for n, (_, word) in enumerate(REFUSED)]
)
def test_an_invalid_setting_is_rejected_in_one_sentence(texts: dict[str, str], word: str) -> None:
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
    rate = config.with_dynamic({"listener.name.inner.max.connection.creation.rate": "5"}, {})
    assert rate.listener_max_connection_creation_rate == {"INNER": 5}
    with pytest.raises(KafkaError, match=r"listener\.name\.inner\.max\.connections"):
        parse_config({name: "-1"})


def test_a_setting_without_effect_causes_one_warning() -> None:
    config = parse_config({"num.io.threads": "8", "some.thing": "1"})

    assert len(config.warnings) == 2
    assert "num.io.threads" in config.warnings[0] and "some.thing" in config.warnings[1]


MISSPELT = [
    ("log.dir.s", " Did you mean log.dirs?"),
    ("num.partition", " Did you mean num.partitions?"),
    ("listener.name.inner.max.connection", ""),
    ("colour", ""),
    ("x" * 100_000, ""),
]


@pytest.mark.parametrize(("name", "suggestion"), MISSPELT, ids=[name[:40] for name, _ in MISSPELT])
def test_an_unknown_override_is_an_error_but_an_unknown_name_in_a_file_only_a_warning(
    name: str, suggestion: str, tmp_path: Path
) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"{name}=/data\n")

    with pytest.raises(KafkaError) as refused:
        load_config(overrides=[f"{name}=/data"], environment={})
    config = load_config(path, environment={})

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.detail == f"Unknown setting {name[:200]}.{suggestion}"
    assert config.warnings == (f"The setting {name[:200]} is unknown and has no effect.{suggestion}",)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("zookeeper.connect", "controller.quorum.voters, as there is no ZooKeeper"),
        ("log.cleanup.interval.mins", "log.retention.check.interval.ms, in milliseconds"),
        ("log.retention.bytes.per.topic", "the setting retention.bytes of a topic"),
        ("port", "listeners"),
    ],
)
def test_a_name_of_kafka_0_8_is_rejected_with_the_current_one(
    name: str, instead: str, tmp_path: Path
) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"{name}=1\n")
    message = f"The setting {name} is a name of an older Apache Kafka; use {instead}."

    with pytest.raises(KafkaError) as in_file:
        load_config(path, environment={})
    with pytest.raises(KafkaError) as in_override:
        load_config(overrides=[f"{name}=1"], environment={})

    assert in_file.value.detail == in_override.value.detail == message


def test_old_names_are_not_current_ones_and_their_replacements_exist() -> None:
    of_today = {*BROKER_CONFIG_DEF.keys, *NOT_HONOURED}
    of_topics = TOPIC_CONFIG_DEF.keys
    named = [re.findall(r"[a-z]+(?:\.[a-z]+)+", instead) for instead in OLD_BROKER_NAMES.values()]

    assert not of_today & OLD_BROKER_NAMES.keys()
    assert all(name in of_today or name in of_topics for names in named for name in names)


def test_an_override_that_only_apache_kafka_has_causes_a_warning() -> None:
    names = ("num.io.threads", "listener.name.plaintext.ssl.protocol")

    config = load_config(overrides=[f"{name}=TLS" for name in names], environment={})

    assert config.warnings == tuple(
        f"The Apache Kafka setting {name} is not supported and has no effect." for name in names
    )


UNHONOURED = [
    ("super.users", "User:admin"),
    ("allow.everyone.if.no.acl.found", "false"),
    ("sasl.enabled.mechanisms", "PLAIN"),
    ("sasl.something.new", "x"),
    ("listener.name.inner.sasl.enabled.mechanisms", "SCRAM-SHA-512"),
    ("listener.name.inner.scram-sha-512.sasl.jaas.config", "ScramLoginModule required;"),
    ("ssl.client.auth", "required"),
    ("listener.name.inner.ssl.client.auth", "requested"),
    ("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),
    ("ssl.enabled.protocols", "TLSv1.3"),
    ("create.topic.policy.class.name", "com.example.Policy"),
    ("connections.max.reauth.ms", "3600000"),
]
WITHOUT_EFFECT = [
    ("create.topic.policy.class.name", ""),
]


@pytest.mark.parametrize(("name", "value"), UNHONOURED)
def test_a_setting_of_security_without_effect_stops_the_start(name: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"{name}={value}\n")

    for give in (
        lambda: load_config(path, environment={}),
        lambda: load_config(overrides=[f"{name}={value}"], environment={}),
        lambda: parse_config({name: value}),
    ):
        with pytest.raises(KafkaError) as refused:
            give()
        assert refused.value.code is ErrorCode.INVALID_CONFIG and name in refused.value.detail

    environment = {environment_name(name): value}
    if name in NOT_HONOURED:
        with pytest.raises(KafkaError, match=name.replace(".", "[.]")):
            load_config(environment=environment)


@pytest.mark.parametrize("name", ["ssl.client.auth", "listener.name.controller.ssl.client.auth"])
def test_controllers_with_tls_require_certificates_of_each_other(name: str) -> None:
    config = parse_config(
        {
            **VOTER,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
            "ssl.keystore.location": "a.pem",
            "ssl.truststore.location": "b.pem",
            name: "required",
        }
    )

    security = config.listener_security["CONTROLLER"]
    assert (security.client_auth, security.keystore.location) == ("required", "a.pem")
    assert not config.warnings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.client.auth", "none"),
        ("ssl.enabled.protocols", "TLSv1.2, TLSv1.3"),
        ("sasl.jaas.config", ""),
        ("connections.max.reauth.ms", "0"),
    ],
)
def test_a_setting_of_tls_or_sasl_that_restricts_nothing_needs_no_such_listener(
    name: str, value: str
) -> None:
    assert not parse_config({name: value}).warnings


@pytest.mark.parametrize(("name", "value"), WITHOUT_EFFECT)
def test_a_setting_of_security_that_restricts_nothing_only_causes_a_warning(name: str, value: str) -> None:
    config = parse_config({name: value})

    assert config.warnings == (f"The Apache Kafka setting {name} is not supported and has no effect.",)


def test_a_misspelt_environment_variable_causes_a_warning() -> None:
    config = load_config(environment={"OTTLA_LOG_DIR_S": "/data", "OTTLA_HOME": "x", "OTTLA_BOOTSTRAP": "y"})

    assert config.warnings == (
        "The environment variable OTTLA_LOG_DIR_S is unknown and has no effect. Did you mean OTTLA_LOG_DIRS?",
    )


def test_the_listeners_for_clients_do_not_include_controller_listeners() -> None:
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


SECRET = "0123456789abcdef"
VOTER = {
    "node.id": "1",
    "cluster.secret": SECRET,
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "2@b:9093,1@[::1]:9093,3@c:9093",
}


def test_a_voter_knows_the_others_and_opens_its_listener_for_them() -> None:
    config = parse_config(VOTER)

    voters = [(one.node_id, one.host, one.port) for one in config.controller_quorum_voters]
    assert voters == [(1, "::1", 9093), (2, "b", 9093), (3, "c", 9093)]
    assert config.is_voter and [one.name for one in config.controller_listeners] == ["CONTROLLER"]
    assert not config.warnings and SECRET not in repr(config)


def test_a_node_that_is_not_a_voter_needs_no_controller_listener() -> None:
    config = parse_config({**VOTER, "node.id": "4", "listeners": "PLAINTEXT://:9092"})

    assert not config.is_voter and not config.controller_listeners


def test_the_example_of_a_single_node_in_apache_kafka_works() -> None:
    config = parse_config(
        {
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "localhost:9093",
        }
    )

    assert config.is_voter and not config.controller_quorum_voters
    assert not config.controller_listeners and "cluster.secret" in config.warnings[0]


def test_a_node_with_bootstrap_servers_joins_their_cluster() -> None:
    settings = {"cluster.secret": SECRET, "controller.quorum.bootstrap.servers": "a:9093,[::1]:9093"}

    config = parse_config(settings)

    assert not config.is_voter
    assert config.controller_quorum_bootstrap_servers == (("a", 9093), ("::1", 9093))


REFUSED_QUORUMS = [
    ({"cluster.secret": "short"}, "16 characters"),
    ({"controller.quorum.voters": "1@a:1,1@b:1"}, "twice"),
    ({"controller.quorum.voters": "1@a:1,2@a:1"}, "share"),
    ({"controller.quorum.voters": "1@a"}, "HOST:PORT"),
    ({"controller.quorum.voters": "1@a:70000"}, "HOST:PORT"),
    ({"controller.quorum.voters": "x@a:1"}, "1@HOST:PORT"),
    ({"controller.quorum.voters": "99999999999@a:1"}, "1@HOST:PORT"),
    ({"controller.quorum.bootstrap.servers": "a"}, "HOST:PORT"),
    ({"process.roles": "broker"}, "process.roles"),
    ({"process.roles": "broker,controller", "node.id": "7"}, "controller.quorum.voters"),
    ({"listeners": "PLAINTEXT://:9092"}, "controller.listener.names"),
    (
        {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"},
        "sasl.enabled.mechanisms",
    ),
    ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"}, "ssl.keystore.location"),
    ({"replica.selector.class": "com.example.Mine"}, "replica.selector.class"),
]


@pytest.mark.parametrize(("texts", "word"), REFUSED_QUORUMS, ids=[str(one[0]) for one in REFUSED_QUORUMS])
def test_an_invalid_quorum_is_rejected_in_one_sentence(texts: dict[str, str], word: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_config({**VOTER, **texts})

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert word in refused.value.detail and "\n" not in refused.value.detail


CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "cluster.secret": SECRET,
}


def test_a_node_may_be_only_a_controller() -> None:
    """Brokers and tools connect to the listener that other controllers use, too."""
    config = parse_config(CONTROLLER)
    advertised = parse_config({**CONTROLLER, "advertised.listeners": "CONTROLLER://example.com:1"})
    anywhere = parse_config({**CONTROLLER, "listeners": "CONTROLLER://0.0.0.0:9093"})

    assert config.is_voter and not config.is_broker and parse_config({}).is_broker
    assert config.listeners == config.controller_listeners == config.all_listeners
    assert config.inter_broker_listener_name == "CONTROLLER" and not config.warnings
    assert [one.host for one in advertised.advertised_listeners] == ["example.com"]
    assert anywhere.listeners[0].host == "0.0.0.0"


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}, "PLAINTEXT is not one of them"),
        ({"listeners": "PLAINTEXT://:9092"}, "PLAINTEXT is not one of them"),
        ({"controller.quorum.voters": "2@127.0.0.1:9093"}, "it does not contain this controller, node 1"),
        ({"cluster.secret": None}, "cluster.secret"),
        ({"process.roles": "controller,observer"}, "process.roles"),
    ],
)
def test_settings_that_a_node_cannot_have_as_only_a_controller_are_rejected(
    texts: dict[str, str | None], word: str
) -> None:
    given = {name: text for name, text in {**CONTROLLER, **texts}.items() if text is not None}

    with pytest.raises(KafkaError) as refused:
        parse_config(given)

    assert refused.value.code is ErrorCode.INVALID_CONFIG and word in refused.value.detail


def test_several_nodes_without_a_secret_do_not_start() -> None:
    with pytest.raises(KafkaError, match=r"cluster\.secret"):
        parse_config({name: text for name, text in VOTER.items() if name != "cluster.secret"})


def test_dynamic_settings_win_over_static_ones_and_invalid_ones_are_left_out() -> None:
    static = parse_config({"message.max.bytes": "100"})

    config = static.with_dynamic(
        {"message.max.bytes": "200", "log.retention.ms": "7", "num.partitions": "9"},
        {"message.max.bytes": "300", "foo": "1", "max.connections": "many"},
    )

    assert config.message_max_bytes == 300 and config.values["log.retention.ms"] == 7
    assert config.num_partitions == 1 and len(config.warnings) == 3
    assert config.with_dynamic({}, {}).message_max_bytes == 100


FORBIDDEN_TOGETHER = [
    ({"max.connections.per.ip.overrides": "5"}, "max.connections.per.ip.overrides"),
    ({"max.connections.per.ip": "0"}, "max.connections.per.ip.overrides"),
    ({"log.cleaner.min.compaction.lag.ms": "6", "log.cleaner.max.compaction.lag.ms": "5"}, "compaction.lag"),
    ({"log.retention.ms": "0"}, "log.retention.ms"),
    ({"log.cleaner.dedupe.buffer.size": "1048576"}, "log.cleaner.dedupe.buffer.size"),
    ({"log.cleaner.threads": "128"}, "log.cleaner.dedupe.buffer.size"),
    ({"group.consumer.assignment.interval.ms": "20000"}, "group.consumer.assignment.interval.ms"),
]


@pytest.mark.parametrize(("texts", "word"), FORBIDDEN_TOGETHER)
def test_contradicting_settings_are_rejected_at_the_start_and_as_dynamic_ones(
    texts: dict[str, str], word: str
) -> None:
    node = parse_config({})

    for ask in (parse_config, node.check_dynamic):
        with pytest.raises(KafkaError, match=word) as refused:
            ask(texts)
        assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("name", ["log.cleaner.threads", "num.replica.fetchers"])
def test_a_change_may_at_most_halve_or_double_the_size_of_a_pool(name: str) -> None:
    node = parse_config({name: "5"})

    for size in ("2", "5", "10"):
        node.check_resizes({name: size}, {})
        node.check_resizes({name: "99"}, {name: size})  # its own value wins over the value for all brokers
    for size, word in (("1", "at least half"), ("11", "double")):
        with pytest.raises(KafkaError, match=f"{name}={size}.*{word} the current value 5") as refused:
            node.check_resizes({name: size}, {})
        assert refused.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError, match=f"{name}=5.*double the current value 2"):  # unset, it is 5 again
        node.with_dynamic({}, {name: "2"}).check_resizes({}, {})


def test_contradicting_dynamic_settings_are_ignored() -> None:
    texts = {"max.connections.per.ip.overrides": "5", "message.max.bytes": "200"}
    node = parse_config({"message.max.bytes": "100"})

    of_all = node.with_dynamic(texts, {"message.max.bytes": "300"})
    of_this_one = node.with_dynamic({"message.max.bytes": "200"}, texts)

    assert of_all.message_max_bytes == 100 and of_this_one.message_max_bytes == 200
    assert "max.connections.per.ip.overrides" in of_all.warnings[-1]


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


def test_the_error_about_a_properties_file_that_is_not_text_names_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"\xff\xfe")

    with pytest.raises(KafkaError) as refused:
        load_config(file)

    assert refused.value.detail == f"The configuration file {file} is not UTF-8 text."


STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_the_settings_of_the_authorizer_are_parsed() -> None:
    config = parse_config({"authorizer.class.name": STANDARD, "super.users": "User:admin; User:CN=a,O=b ;"})
    open_to_all = parse_config({"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"})

    assert config.authorizer is not None and open_to_all.authorizer is not None
    assert config.authorizer.super_users == {"User:admin", "User:CN=a,O=b"}
    assert not config.authorizer.allow_everyone_if_no_acl_found
    assert open_to_all.authorizer.allow_everyone_if_no_acl_found
    assert (
        parse_config({}).authorizer is None and parse_config({"authorizer.class.name": ""}).authorizer is None
    )
    assert not config.warnings
    assert not parse_config({"super.users": " ", "allow.everyone.if.no.acl.found": "True"}).warnings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "AclAuthorizer"),
        ({"authorizer.class.name": "StandardAuthorizer"}, STANDARD),
        ({"authorizer.class.name": STANDARD, "super.users": "admin"}, "User:admin"),
    ],
)
def test_an_unknown_authorizer_and_invalid_super_users_stop_the_start(
    settings: dict[str, str], message: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_config(settings)

    assert refused.value.code is ErrorCode.INVALID_CONFIG and message in refused.value.detail
