"""The settings of SASL listeners: what stands together, and what holds for one of them."""

import pytest

from ottla.logstore.words.config_def import ConfigScope
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.config import BROKER_CONFIG_DEF, BrokerConfig, parse_config
from ottla.node.settings.sasl_settings import mechanism_setting

BASE = {
    "listeners": "PLAINTEXT://:9092,SECURE://:9093,OTHER.ONE://:9094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,OTHER.ONE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "ssl.keystore.location": "node.pem",
}
USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" user_anna="anna-secret" user_bert="a=b;";'
)


def config(**settings: str) -> BrokerConfig:
    return parse_config({**BASE, **settings})


def test_what_is_set_for_one_listener_or_mechanism_goes_before_what_is_set_for_all() -> None:
    made = config(
        **{
            "connections.max.reauth.ms": "1",
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN, scram-sha-256",
            "listener.name.secure.plain.sasl.jaas.config": USERS,
            "listener.name.secure.connections.max.reauth.ms": "2",
            "listener.name.secure.PLAIN.connections.max.reauth.ms": "3",
            "connection.failed.authentication.delay.ms": "7",
        }
    )

    secure, other = made.listener_sasl["SECURE"], made.listener_sasl["OTHER.ONE"]
    assert [(one.name, one.max_reauth_ms) for one in secure.mechanisms.values()] == [
        ("PLAIN", 3),
        ("SCRAM-SHA-256", 2),
    ]
    assert secure.mechanisms["PLAIN"].passwords == {"anna": "anna-secret", "bert": "a=b;"}
    assert "anna-secret" not in repr(made)
    assert [(one.name, one.max_reauth_ms) for one in other.mechanisms.values()] == [("SCRAM-SHA-512", 1)]
    assert (secure.failed_delay_ms, other.max_receive_bytes) == (7, 65_536)
    assert "PLAINTEXT" not in made.listener_sasl and not made.warnings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "cannot have GSSAPI. .*SCRAM-SHA-512"),
        ({"sasl.enabled.mechanisms": ""}, "needs one of PLAIN"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "OTHER.ONE .*has no TLS.*ottla.sasl.plain.without.tls"),
        ({"sasl.jaas.config": USERS}, r"listener\.name\..*\.plain\.sasl\.jaas\.config"),
        ({"listener.name.secure.scram-sha-512.sasl.jaas.config": USERS}, "it must be ScramLoginModule"),
        ({"listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN"}, "no listener PLAINTEXT with SASL"),
        ({"listener.name.nowhere.plain.sasl.jaas.config": USERS}, "no listener NOWHERE with SASL"),
        ({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, "not enforced yet"),
    ],
)
def test_what_cannot_stand_together_is_refused_in_one_sentence(settings: dict[str, str], words: str) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        config(**settings)

    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_login_module_that_cannot_be_read_is_refused_without_its_passwords() -> None:
    broken = 'PlainLoginModule required user_anna="secret" user_bert=;'

    with pytest.raises(KafkaError, match="has no usable login module") as refused:
        config(
            **{
                "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.secure.plain.sasl.jaas.config": broken,
            }
        )

    assert "secret" not in refused.value.detail.replace("listener.name.secure", "")


def test_plain_without_tls_is_warned_of_where_it_is_allowed() -> None:
    made = config(**{"sasl.enabled.mechanisms": "PLAIN", "ottla.sasl.plain.without.tls": "true"})

    assert made.warnings == (
        "The listener OTHER.ONE takes passwords by PLAIN without TLS: everybody between a client and this "
        "node can read them.",
    )


def test_names_of_settings_of_mechanisms_have_three_parts() -> None:
    assert mechanism_setting("listener.name.a.b.scram-sha-256.connections.max.reauth.ms") == (
        "A.B",
        "SCRAM-SHA-256",
        "connections.max.reauth.ms",
    )
    assert mechanism_setting("listener.name.a.sasl.enabled.mechanisms") is None


def test_users_and_lifetimes_of_a_listener_change_while_a_node_runs() -> None:
    name = "listener.name.secure.plain.sasl.jaas.config"
    before = config(**{"listener.name.secure.sasl.enabled.mechanisms": "PLAIN"})
    before.check_dynamic({name: USERS})

    after = before.with_dynamic({}, {name: USERS, "listener.name.secure.connections.max.reauth.ms": "5"})

    changed = after.listener_sasl["SECURE"].mechanisms["PLAIN"]
    assert changed.max_reauth_ms == 5 and changed.passwords is not None and "anna" in changed.passwords
    assert BROKER_CONFIG_DEF.key(name).scope is ConfigScope.PER_BROKER
    assert BROKER_CONFIG_DEF.key(name).sensitive
    with pytest.raises(KafkaError, match="has no usable login module"):
        before.check_dynamic({name: "nonsense"})
