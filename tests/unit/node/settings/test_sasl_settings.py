"""The settings of SASL listeners, resolved for one listener, and the contradictions between them."""

import pytest

from ottla.logstore.words.config_def import ConfigScope
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.config import BROKER_CONFIG_DEF, BrokerConfig, parse_config
from ottla.node.settings.sasl_settings import MechanismSettings, mechanism_setting

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


def test_settings_of_one_listener_or_mechanism_win_over_those_of_all() -> None:
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
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "cannot use GSSAPI, .*SCRAM-SHA-512"),
        ({"sasl.enabled.mechanisms": ""}, "needs one of PLAIN"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "OTHER.ONE .*has no TLS.*ottla.sasl.plain.without.tls"),
        ({"sasl.jaas.config": USERS}, r"listener\.name\..*\.plain\.sasl\.jaas\.config"),
        ({"listener.name.secure.scram-sha-512.sasl.jaas.config": USERS}, "it must be ScramLoginModule"),
        ({"listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN"}, "no listener PLAINTEXT with SASL"),
        ({"listener.name.nowhere.plain.sasl.jaas.config": USERS}, "there is no listener NOWHERE"),
        ({"sasl.mechanism.controller.protocol": "PLAIN"}, "there is no listener with SASL"),
    ],
)
def test_contradicting_settings_of_sasl_are_rejected_in_one_sentence(
    settings: dict[str, str], words: str
) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        config(**settings)

    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_the_error_about_an_invalid_login_module_has_no_passwords() -> None:
    broken = 'PlainLoginModule required user_anna="secret" user_bert=;'

    with pytest.raises(KafkaError, match="has no usable login module") as refused:
        config(
            **{
                "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.secure.plain.sasl.jaas.config": broken,
            }
        )

    assert "secret" not in refused.value.detail.replace("listener.name.secure", "")


def test_plain_without_tls_causes_a_warning_if_it_is_allowed() -> None:
    made = config(**{"sasl.enabled.mechanisms": "PLAIN", "ottla.sasl.plain.without.tls": "true"})

    assert made.warnings == (
        "The listener OTHER.ONE accepts passwords by PLAIN without TLS: anyone on the network path can read "
        "them.",
    )


def test_names_of_settings_of_mechanisms_have_three_parts() -> None:
    assert mechanism_setting("listener.name.a.b.scram-sha-256.connections.max.reauth.ms") == (
        "A.B",
        "SCRAM-SHA-256",
        "connections.max.reauth.ms",
    )
    assert mechanism_setting("listener.name.a.sasl.enabled.mechanisms") is None


def test_users_and_the_duration_of_logins_can_be_changed_while_a_node_runs() -> None:
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


# ---- between nodes ---------------------------------------------------------------------------------

INTER_BROKER = {
    "inter.broker.listener.name": "SECURE",
    "ssl.truststore.location": "ca.pem",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
}
OWN_USER = "listener.name.secure.scram-sha-512.sasl.jaas.config"
SCRAM_USER = 'a.ScramLoginModule required username="node" password="node-secret";'


def test_a_node_logs_in_to_others_with_the_user_of_its_inter_broker_listener() -> None:
    made = config(**INTER_BROKER, **{OWN_USER: SCRAM_USER})

    assert made.inter_broker_listener_name == "SECURE"
    assert made.peer_login is not None
    assert (made.peer_login.user, made.peer_login.password) == ("node", "node-secret")
    assert "node-secret" not in repr(made)
    assert made.listener_security["SECURE"].has_logins and made.listener_security["SECURE"].is_between_nodes


def test_security_inter_broker_protocol_may_name_a_protocol_with_logins() -> None:
    by_protocol = {
        name: value for name, value in INTER_BROKER.items() if name != "inter.broker.listener.name"
    }

    made = config(**by_protocol, **{"security.inter.broker.protocol": "SASL_SSL", OWN_USER: SCRAM_USER})

    assert made.inter_broker_listener_name == "SECURE"


def test_a_node_whose_inter_broker_listener_has_no_sasl_can_log_in_to_others() -> None:
    made = config(**{"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512", OWN_USER: SCRAM_USER})

    assert made.inter_broker_listener_name == "PLAINTEXT"
    assert made.peer_login is not None and made.peer_login.user == "node"


def test_plain_has_the_users_of_the_cluster_if_its_module_has_only_the_node_itself() -> None:
    name = "listener.name.secure.plain.sasl.jaas.config"
    own = 'a.PlainLoginModule required username="node" password="node-secret"'

    def plain(module: str) -> MechanismSettings:
        made = config(**{"listener.name.secure.sasl.enabled.mechanisms": "PLAIN", name: module})
        return made.listener_sasl["SECURE"].mechanisms["PLAIN"]

    alone, more = plain(f"{own};"), plain(f'{own} user_node="x";')

    assert alone.passwords is None and alone.node_login == more.node_login
    assert more.passwords == {"node": "x"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "it is GSSAPI.*must be one of SCRAM-SHA-512"),
        ({"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}, "must be one of SCRAM-SHA-512"),
        ({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, "does not have in sasl.enabled.mechanisms"),
        ({OWN_USER: "a.ScramLoginModule required;"}, 'ScramLoginModule with username="..." and password='),
        ({OWN_USER: 'a.ScramLoginModule required username="node";'}, 'with username="..." and password='),
        ({OWN_USER: r'a.ScramLoginModule required username="n\0" password="x";'}, "has a NUL character"),
    ],
)
def test_an_invalid_login_of_the_node_is_rejected_in_one_sentence(
    settings: dict[str, str], words: str
) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        config(**{**INTER_BROKER, OWN_USER: SCRAM_USER, **settings})

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert "node-secret" not in refused.value.detail


# ---- controllers -----------------------------------------------------------------------------------

CONTROLLERS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,SECURE://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
    "controller.listener.names": "SECURE",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094",
    "node.id": "1",
    "cluster.secret": "sixteen characters",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "ssl.keystore.location": "node.pem",
    "ssl.truststore.location": "ca.pem",
}
OF_CONTROLLER = "listener.name.secure.plain.sasl.jaas.config"
CONTROLLER_USER = (
    'a.PlainLoginModule required username="node" password="node-secret" user_node="node-secret";'
)


def test_controllers_log_in_by_plain() -> None:
    made = parse_config({**CONTROLLERS, OF_CONTROLLER: CONTROLLER_USER})

    assert made.controller_login is not None and made.controller_login.user == "node"
    assert made.controller_sasl["SECURE"].mechanisms["PLAIN"].passwords == {"node": "node-secret"}
    assert not made.listener_sasl and made.peer_login is None and "node-secret" not in repr(made)


def test_no_password_is_sent_to_a_controller_listener_without_logins() -> None:
    made = parse_config(
        {
            **CONTROLLERS,
            OF_CONTROLLER: CONTROLLER_USER,
            "listeners": f"{CONTROLLERS['listeners']},OLD://127.0.0.1:9095",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,OLD:PLAINTEXT",
            "controller.listener.names": "OLD,SECURE",
        }
    )

    assert [one.name for one in made.controller_listeners] == ["OLD", "SECURE"]
    assert made.controller_login is None and "SECURE" in made.controller_sasl


def test_a_node_that_is_only_a_broker_needs_no_users_besides_its_own_at_controllers() -> None:
    made = parse_config(
        {
            **CONTROLLERS,
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "node.id": "3",
            "process.roles": "broker",
            OF_CONTROLLER: 'a.PlainLoginModule required username="node" password="node-secret";',
        }
    )

    assert made.controller_login is not None and not made.controller_listeners


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-512"},
            "It must be PLAIN: the SCRAM users of the cluster",
        ),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-512", OF_CONTROLLER: ""}, "does not have in sasl.enabled"),
        ({OF_CONTROLLER: 'a.PlainLoginModule required user_node="x";'}, 'username="..." and password="..."'),
        ({OF_CONTROLLER: 'a.PlainLoginModule required username="n" password="x";'}, "needs users that may"),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT"},
            "ottla.sasl.plain.without.tls",
        ),
    ],
)
def test_an_invalid_login_at_controllers_is_rejected(settings: dict[str, str], words: str) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        parse_config({**CONTROLLERS, OF_CONTROLLER: CONTROLLER_USER, **settings})

    assert refused.value.code is ErrorCode.INVALID_CONFIG
