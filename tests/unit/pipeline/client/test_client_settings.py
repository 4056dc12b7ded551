"""The settings of Kafka's clients: those read, those without effect, and the errors of invalid ones."""

from pathlib import Path

import pytest

from ottla.pipeline.client.client_settings import ClientSettings, Role, TwoPhase
from ottla.pipeline.client.setting_names import idle_reason, redacted
from ottla.pipeline.words import HIDDEN, OptionError


def settings_of(role: Role = Role.SINK, **given: str) -> ClientSettings:
    """Read settings of a client; underscores stand for dots."""
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
def test_a_sink_reads_the_settings_of_javas_producer(name: str, value: str, field: str, read: object) -> None:
    options = {"kafka.bootstrap.servers": "a:1", f"kafka.{name}": value}

    assert getattr(ClientSettings.from_options(options, Role.SINK), field) == read


def test_a_source_reads_the_settings_of_javas_consumer() -> None:
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


def test_settings_without_effect_are_named() -> None:
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
        (
            {"request.required.acks": "1"},
            "kafka.request.required.acks",
            "is a name of an older Apache Kafka; use acks",
        ),
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
def test_invalid_options_are_refused_by_name(given: dict[str, str], option: str, problem: str) -> None:
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
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    ],
)
def test_settings_that_another_part_decides_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=name) as refused:
        ClientSettings.from_options(
            {"kafka.bootstrap.servers": "a:1", f"kafka.{name}": "s3cret"}, Role.SOURCE
        )

    assert "s3cret" not in str(refused.value)


JAAS = 'org.apache.kafka.common.security.{}LoginModule required username="anna" password="hunter22-canary";'
SCRAM = JAAS.format("scram.Scram")


def test_encryption_and_login_are_read_for_both_sides() -> None:
    given = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": "/etc/ca.pem",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": SCRAM,
    }

    source, sink = (ClientSettings.from_options(given, role).security for role in Role)

    assert source == sink and hash(source) == hash(sink)
    assert source.protocol == "SASL_SSL"
    assert source.tls is not None and source.tls.truststore is not None and source.login is not None
    assert source.tls.truststore.location == "/etc/ca.pem" and not source.tls.checks_host_names
    assert (source.login.user, source.login.password) == ("anna", "hunter22-canary")


def test_a_connection_is_unencrypted_by_default() -> None:
    assert settings_of().security.protocol == "PLAINTEXT"
    assert settings_of(security_protocol="plaintext").security.protocol == "PLAINTEXT"


def test_no_secret_is_in_the_representation_of_settings() -> None:
    settings = settings_of(
        security_protocol="SASL_SSL",
        ssl_keystore_key="-----BEGIN PRIVATE KEY----- canary-key",
        ssl_keystore_certificate_chain="-----BEGIN CERTIFICATE----- canary-chain",
        ssl_key_password="canary-password",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=JAAS.format("plain.Plain"),
    )

    assert "canary" not in repr(settings) and "canary" not in str(settings)
    assert settings.security.tls is not None and "canary-key" in str(settings.security.tls.keystore.key)


@pytest.mark.parametrize(
    ("given", "option", "problem"),
    [
        ({"security_protocol": "TLS"}, "kafka.security.protocol", "it must be one of PLAINTEXT, SSL"),
        ({"security_protocol": "SSL", "ssl_foo": "canary"}, "kafka.ssl.foo", "is not a security setting"),
        ({"ssl_trustore_location": "canary"}, "kafka.ssl.trustore.location", "ssl.truststore.location?"),
        ({"sasl_username": "canary"}, "kafka.sasl.username", "give user and password in sasl.jaas.config"),
        ({"security_providers": "canary"}, "kafka.security.providers", "names a Java class"),
        ({"sasl_login_class": "canary"}, "kafka.sasl.login.class", "names a Java class"),
        ({"security_protocol": "SASL_SSL"}, "kafka.sasl.mechanism", "GSSAPI, is not supported"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": SCRAM},
            "kafka.sasl.jaas.config",
            "needs a PlainLoginModule",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": "hunter22-canary",
            },
            "kafka.sasl.jaas.config",
            "cannot be read",
        ),
        (
            {"ssl_truststore_location": "canary"},
            "kafka.ssl.truststore.location",
            "without kafka.security.protocol",
        ),
        ({"sasl_jaas_config": SCRAM}, "kafka.sasl.jaas.config", "without kafka.security.protocol"),
    ],
)
def test_settings_that_would_weaken_security_are_refused_by_name(
    given: dict[str, str], option: str, problem: str
) -> None:
    for role in Role:
        with pytest.raises(OptionError) as refused:
            settings_of(role, **given)

        assert refused.value.option == option and problem in refused.value.problem
        assert "canary" not in str(refused.value)


def test_settings_of_a_protocol_that_is_not_chosen_have_no_effect() -> None:
    settings = settings_of(Role.SOURCE, security_protocol="PLAINTEXT", sasl_jaas_config=SCRAM)

    assert settings.without_effect == ("sasl.jaas.config",)
    assert idle_reason("sasl.jaas.config", "PLAINTEXT") == "kafka.security.protocol is PLAINTEXT"
    assert idle_reason("ssl.trustmanager.algorithm", "SSL").startswith("this client uses OpenSSL")
    assert idle_reason("batch.size", "SSL") == "is a setting of the sink"


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "kafka.properties").write_text("user = anna\npassword = hunter22\n")
    refers = f"${{file:{tmp_path}/kafka.properties:"
    jaas = f'x.ScramLoginModule required username="{refers}user}}" password="{refers}password}}";'

    settings = settings_of(
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas
    )

    login = settings.security.login
    assert login is not None and (login.user, login.password) == ("anna", "hunter22")


def test_checksums_can_be_confirmed() -> None:
    settings_of(Role.SOURCE, check_crcs="true")

    with pytest.raises(OptionError, match="always checked"):
        settings_of(Role.SOURCE, check_crcs="false")


def test_a_cluster_must_be_named() -> None:
    with pytest.raises(OptionError, match=r"bootstrap\.servers: is missing"):
        ClientSettings.from_options({"subscribe": "t"}, Role.SOURCE)


def test_secrets_are_never_shown() -> None:
    options = {
        "kafka.SASL.jaas.config": "p",
        "kafka.ssl.key.password": "q",
        "sasl.password": "r",
        "topic": "t",
    }

    shown = redacted(options)

    assert [*shown.values()] == [HIDDEN, HIDDEN, HIDDEN, "t"]
