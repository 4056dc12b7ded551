"""The settings of Kafka's clients: what is read, what is of no use here, what is refused in what words."""

import pytest

from ottla.pipeline.client.client_settings import ClientSettings, Role, TwoPhase
from ottla.pipeline.client.setting_names import redacted
from ottla.pipeline.words import HIDDEN, OptionError


def settings_of(role: Role = Role.SINK, **given: str) -> ClientSettings:
    """Underscores stand for dots."""
    options = {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
    return ClientSettings.from_options({"kafka.bootstrap.servers": "a:1", **options}, role)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", (("a", 1),)),
        (" a:1 , b:2,", (("a", 1), ("b", 2))),
        ("a", (("a", 9092),)),
        ("[::1]:9093,[::2]", (("::1", 9093), ("::2", 9092))),
        ("a:1,a:1", (("a", 1),)),
    ],
)
def test_bootstrap_servers_are_addresses(text: str, addresses: tuple[tuple[str, int], ...]) -> None:
    assert (
        ClientSettings.from_options({"kafka.bootstrap.servers": text}, Role.SOURCE).bootstrap_servers
        == addresses
    )


@pytest.mark.parametrize(
    ("name", "value", "field", "read"),
    [
        ("acks", "all", "acks", -1),
        ("acks", "1", "acks", 1),
        ("acks", "1", "enable_idempotence", False),
        ("batch.size", "16384", "batch_size", 16384),
        ("compression.type", "ZSTD", "compression_type", "zstd"),
        ("max.block.ms", "5", "default_api_timeout_ms", 5),
        ("allow.auto.create.topics", "true", "allow_auto_create_topics", True),
        ("transaction.two.phase.commit.enable", "true", "two_phase", TwoPhase.ALWAYS),
        ("Client.Id", " me ", "client_id", "me"),
    ],
)
def test_a_sink_reads_what_javas_producer_reads(name: str, value: str, field: str, read: object) -> None:
    options = {"kafka.bootstrap.servers": "a:1", f"kafka.{name}": value}

    assert getattr(ClientSettings.from_options(options, Role.SINK), field) == read


def test_a_source_reads_what_javas_consumer_reads() -> None:
    settings = settings_of(
        Role.SOURCE,
        isolation_level="read_committed",
        group_id="g",
        default_api_timeout_ms="7",
        fetch_min_bytes="0",
    )

    assert settings.read_committed
    assert (settings.group_id, settings.default_api_timeout_ms, settings.fetch_min_bytes) == ("g", 7, 0)


def test_a_compression_level_is_that_of_the_type() -> None:
    levels = {"compression_zstd_level": "7", "compression_gzip_level": "-1"}

    assert settings_of(compression_type="zstd", **levels).compression_level == 7
    assert settings_of(compression_type="gzip", **levels).compression_level is None
    assert settings_of(**levels).compression_level is None


def test_what_has_no_effect_is_named() -> None:
    given = {"linger_ms": "5", "acks": "1", "retries": "3"}

    assert settings_of(Role.SINK, **given).without_effect == ("linger.ms", "retries")
    assert settings_of(Role.SOURCE, **given).without_effect == ("acks", "linger.ms", "retries")


@pytest.mark.parametrize(
    ("given", "option", "problem"),
    [
        ({"bootstrap_servers": ""}, "kafka.bootstrap.servers", "names no broker; write host:port"),
        ({"bootstrap_servers": "a:0"}, "kafka.bootstrap.servers", "'a:0' is not an address; write host:port"),
        ({"bootstrap_servers": "a:x"}, "kafka.bootstrap.servers", "'a:x' is not an address; write host:port"),
        ({"batch_sise": "1"}, "kafka.batch.sise", "is not a setting of a Kafka client; batch.size?"),
        ({"xyzzy": "1"}, "kafka.xyzzy", "is not a setting of a Kafka client"),
        ({"batch_size": "many"}, "kafka.batch.size", "is 'many'; it must be a whole number"),
        ({"batch_size": "9" * 5000}, "kafka.batch.size", f"is '{'9' * 40}'; it must be a whole number"),
        ({"batch_size": "0"}, "kafka.batch.size", "is 0; it must be from 1 to 2147483647"),
        ({"batch_size": "2000000"}, "kafka.batch.size", "is more than kafka.max.request.size"),
        ({"enable_idempotence": "yes"}, "kafka.enable.idempotence", "is 'yes'; it must be true or false"),
        (
            {"compression_type": "brotli"},
            "kafka.compression.type",
            "is 'brotli'; it must be one of none, gzip, snappy, lz4, zstd",
        ),
        (
            {"acks": "1", "enable_idempotence": "true"},
            "kafka.acks",
            "must be all while kafka.enable.idempotence is true",
        ),
        ({"retry_backoff_ms": "5000"}, "kafka.retry.backoff.max.ms", "is less than kafka.retry.backoff.ms"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(given: dict[str, str], option: str, problem: str) -> None:
    with pytest.raises(OptionError) as refused:
        settings_of(**given)

    assert (refused.value.option, refused.value.problem) == (option, problem)


@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset",
        "enable.auto.commit",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "partitioner.class",
        "sasl.jaas.config",
        "ssl.truststore.location",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    ],
)
def test_what_another_part_decides_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=name) as refused:
        ClientSettings.from_options(
            {"kafka.bootstrap.servers": "a:1", f"kafka.{name}": "s3cret"}, Role.SOURCE
        )

    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "sasl_plaintext"])
def test_encryption_is_refused_rather_than_left_out(protocol: str) -> None:
    with pytest.raises(OptionError, match="not supported yet"):
        settings_of(security_protocol=protocol)


def test_plaintext_and_checked_sums_can_be_said() -> None:
    settings_of(Role.SOURCE, security_protocol="PLAINTEXT", check_crcs="true")

    with pytest.raises(OptionError, match="always checked"):
        settings_of(Role.SOURCE, check_crcs="false")


def test_a_cluster_must_be_named() -> None:
    with pytest.raises(OptionError, match=r"bootstrap\.servers: is missing"):
        ClientSettings.from_options({"subscribe": "t"}, Role.SOURCE)


def test_secrets_are_shown_to_nobody() -> None:
    options = {
        "kafka.SASL.jaas.config": "p",
        "kafka.ssl.key.password": "q",
        "sasl.password": "r",
        "topic": "t",
    }

    shown = redacted(options)

    assert [*shown.values()] == [HIDDEN, HIDDEN, HIDDEN, "t"]
