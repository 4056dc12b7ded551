"""The settings that `ottla.secure` implies, those that may differ, and those that contradict it."""

from pathlib import Path

import pytest

from ottla.logstore.words.errors import KafkaError
from ottla.node.settings.config import BrokerConfig, parse_config
from ottla.node.settings.secure_settings import SecureFiles

JAAS = (
    "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="{name}" password="{password}";\n'
)
SECRET = "a-secret-of-many-characters"


def secure(home: Path, **settings: str) -> BrokerConfig:
    """Return the configuration of a node with data in `home/data`; in names `_` stands for a dot."""
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return parse_config({"ottla.secure": "true", "log.dirs": str(home / "data"), **given})


def write_files(home: Path, name: str = "admin", password: str = "hidden-password") -> SecureFiles:
    files = SecureFiles(home / "data-secure")
    files.directory.mkdir()
    files.client_properties.write_text(JAAS.format(name=name, password=password))
    files.cluster_secret.write_text(f"{SECRET}\n")
    return files


def test_clients_log_in_over_tls_and_nodes_have_a_listener_of_their_own(tmp_path: Path) -> None:
    config = secure(tmp_path)

    assert [(one.name, one.security_protocol, one.port) for one in config.listeners] == [
        ("SASL_SSL", "SASL_SSL", 9092),
        ("INTERNAL", "SSL", 0),
    ]
    assert config.inter_broker_listener_name == "INTERNAL"
    assert list(config.listener_sasl["SASL_SSL"].mechanisms) == ["SCRAM-SHA-512"]
    assert config.listener_security["INTERNAL"].client_auth == "required"
    assert config.listener_security["SASL_SSL"].client_auth == "none"


def test_nodes_with_certificates_of_the_directory_must_prove_their_ids(tmp_path: Path) -> None:
    made, own = secure(tmp_path), secure(tmp_path, ssl_keystore_location="/own/key.pem")

    needs = {name: one.needs_node_id for name, one in made.listener_security.items()}
    assert needs == {"INTERNAL": True, "SASL_SSL": False}, "clients have no node id"
    assert made.peer_security is not None and made.peer_security.needs_node_id
    assert not any(one.needs_node_id for one in own.listener_security.values()), (
        "certificates from elsewhere may name only hosts"
    )


def test_without_acls_everything_is_denied_and_topics_are_not_created_automatically(tmp_path: Path) -> None:
    config = secure(tmp_path)

    assert config.authorizer is not None
    assert config.authorizer.super_users == {"User:admin"}
    assert not config.authorizer.allow_everyone_if_no_acl_found
    assert not config.auto_create_topics_enable


def test_the_rest_api_has_tls_and_logins(tmp_path: Path) -> None:
    config = secure(tmp_path)

    assert [one.url for one in config.ottla_rest_listeners] == ["https://:8082"]
    assert config.rest_logins.methods == ("basic",)
    assert config.rest_security is not None and config.listener_security["SASL_SSL"].keystore is not None
    assert config.rest_security.keystore == config.listener_security["SASL_SSL"].keystore
    assert not config.rest_listeners_are_named, "the port is a default: another program may use it"
    assert secure(tmp_path, ottla_rest_listeners="https://:9999").rest_listeners_are_named
    assert secure(tmp_path, ottla_rest_listeners="http://127.0.0.1:8082").ottla_rest_listeners


def test_keys_are_beside_the_data_or_in_the_directory_of_the_setting(tmp_path: Path) -> None:
    beside = secure(tmp_path)
    elsewhere = secure(tmp_path, ottla_secure_dir="/keys", node_id="3")

    assert beside.secure_files == SecureFiles(tmp_path / "data-secure")
    assert elsewhere.listener_security["SASL_SSL"].keystore.location == "/keys/node-3.pem"
    assert elsewhere.listener_security["INTERNAL"].truststore is not None
    assert elsewhere.listener_security["INTERNAL"].truststore.location == "/keys/ca.pem"


def test_the_administrator_and_the_secret_are_read_from_the_files(tmp_path: Path) -> None:
    write_files(tmp_path, name="root")

    config = secure(tmp_path)

    assert [(one.name, one.password) for one in config.first_users] == [("root", "hidden-password")]
    assert config.authorizer is not None and config.authorizer.super_users == {"User:root"}
    assert config.cluster_secret == SECRET
    assert "hidden-password" not in repr(config) and SECRET not in repr(config)


def test_first_users_in_the_settings_are_added_to_the_administrator(tmp_path: Path) -> None:
    write_files(tmp_path)

    config = secure(tmp_path, ottla_add_scram="SCRAM-SHA-512=[name=anna,password=other]")

    assert [one.name for one in config.first_users] == ["admin", "anna"]


def test_each_implied_setting_can_be_set_to_another_value(tmp_path: Path) -> None:
    config = secure(
        tmp_path,
        listeners="EXTERNAL://:9095,INTERNAL://:9094",
        auto_create_topics_enable="true",
        super_users="User:boss",
        sasl_enabled_mechanisms="SCRAM-SHA-256,PLAIN",
        ssl_keystore_location="/own/key.pem",
        ottla_rest_listeners="",
    )

    assert [(one.name, one.security_protocol) for one in config.listeners] == [
        ("EXTERNAL", "SASL_SSL"),
        ("INTERNAL", "SSL"),
    ]
    assert config.auto_create_topics_enable
    assert config.authorizer is not None and config.authorizer.super_users == {"User:boss"}
    assert list(config.listener_sasl["EXTERNAL"].mechanisms) == ["SCRAM-SHA-256", "PLAIN"]
    assert config.listener_security["EXTERNAL"].keystore.location == "/own/key.pem"
    assert config.ottla_rest_listeners == ()


def test_a_single_node_gets_an_inter_broker_listener_besides_that_for_clients(tmp_path: Path) -> None:
    config = secure(tmp_path, listeners="SASL_SSL://kafka:9095")

    assert [(one.name, one.host) for one in config.listeners] == [
        ("SASL_SSL", "kafka"),
        ("INTERNAL", "127.0.0.1"),
    ]


def test_controllers_have_tls(tmp_path: Path) -> None:
    write_files(tmp_path)

    config = secure(
        tmp_path,
        listeners="SASL_SSL://:9092,INTERNAL://:9094,CONTROLLER://:9093",
        controller_listener_names="CONTROLLER",
        controller_quorum_voters="0@a:9093,1@b:9093,2@c:9093",
    )

    assert [one.security_protocol for one in config.controller_listeners] == ["SSL"]
    assert config.controller_security is not None and config.controller_security.client_auth == "required"


def test_a_node_that_is_only_a_controller_has_tls(tmp_path: Path) -> None:
    write_files(tmp_path)

    config = secure(
        tmp_path,
        process_roles="controller",
        listeners="CONTROLLER://:9093",
        controller_listener_names="CONTROLLER",
        controller_quorum_voters="0@a:9093,1@b:9093,2@c:9093",
    )

    assert [(one.name, one.security_protocol) for one in config.all_listeners] == [("CONTROLLER", "SSL")]
    assert config.peer_security is not None and config.peer_security.needs_node_id
    assert config.listener_security["CONTROLLER"].client_auth == "required"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listeners": "PLAINTEXT://:9092"}, "the listener PLAINTEXT is PLAINTEXT, without TLS"),
        (
            {
                "listeners": "SASL_SSL://:9092,SSL://:9094,OLD://:9095",
                "listener_security_protocol_map": "SASL_SSL:SASL_SSL,SSL:SSL,OLD:SASL_PLAINTEXT",
            },
            "the listener OLD is SASL_PLAINTEXT, without TLS",
        ),
        ({"authorizer_class_name": ""}, "without authorizer.class.name every client may do everything"),
        ({"allow_everyone_if_no_acl_found": "true"}, "lets every client use what has no ACLs"),
        ({"super_users": "User:boss;User:ANONYMOUS"}, "which is every client without a login"),
        ({"ottla_rest_listeners": "http://:8082", "ottla_rest_authentication": ""}, "has no TLS"),
        (
            {"controller_quorum_voters": "0@a:9093,1@b:9093"},
            "this node is one of several, and {home}/data-secure has no cluster.secret",
        ),
        (
            {
                "controller_quorum_voters": "0@a:9093,1@b:9093",
                "cluster_secret": SECRET,
                "listeners": "SASL_SSL://:9092,CONTROLLER://:9093",
                "controller_listener_names": "CONTROLLER",
            },
            "listeners needs one for them, such as INTERNAL://:9094",
        ),
    ],
)
def test_settings_that_would_leave_the_node_open_or_alone_are_rejected(
    settings: dict[str, str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(KafkaError) as refused:
        secure(tmp_path, **settings)

    assert words.format(home=tmp_path) in refused.value.detail
    assert SECRET not in refused.value.detail


@pytest.mark.parametrize(
    "content",
    [
        "",
        "sasl.jaas.config=nonsense",
        JAAS.format(name="", password="hidden-password"),
        JAAS.format(name="admin", password="hidden-password]"),
        JAAS.format(name="admin", password="hidden-password") * 2 + "\n\\",
    ],
)
def test_the_error_about_an_invalid_client_properties_has_no_password(content: str, tmp_path: Path) -> None:
    files = write_files(tmp_path)
    files.client_properties.write_text(content)

    try:
        config = secure(tmp_path)
    except KafkaError as refused:
        assert "client.properties" in refused.detail and "hidden" not in refused.detail
    else:
        assert [one.name for one in config.first_users] == ["admin"], "the last of equal lines wins"


def test_no_file_is_read_without_the_setting(tmp_path: Path) -> None:
    write_files(tmp_path)

    config = parse_config({"log.dirs": str(tmp_path / "data"), "ottla.secure": "false"})

    assert config.secure_files is None and config.first_users == () and config.cluster_secret is None
