"""In the directory of keys, missing files are made and existing ones stay."""

import os
import ssl
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ottla.logstore.words.errors import KafkaError
from ottla.node.secure_setup import secure_directory
from ottla.node.secure_setup.issued_certificates import Authority, Wanted, of_client, of_node
from ottla.node.secure_setup.node_keys import client_bootstrap, node_hosts, prepare
from ottla.node.secure_setup.secure_directory import complete, issue_more
from ottla.node.security.distinguished_name import host_names, validity
from ottla.node.settings.config import BrokerConfig, parse_config
from ottla.node.settings.properties_file import parse_properties
from ottla.node.settings.secure_settings import SECURE_DIR, SecureFiles, administrator_of

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureFiles]:
    files = SecureFiles(tmp_path_factory.mktemp("keys") / "secure")
    complete(files, hosts_of={0: ["localhost"], 1: ["kafka-1"]}, bootstrap="localhost:9092")
    yield files


@pytest.fixture
def fake_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the program that makes certificates: each one is a short text."""

    def issue(authority: Authority | None, wanted: Sequence[Wanted]) -> tuple[Authority, list[str]]:
        return authority or Authority(certificate="CA", key="KEY"), [f"of {one.name}" for one in wanted]

    monkeypatch.setattr(secure_directory, "issue", issue)


def content_of(files: SecureFiles) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files.directory.iterdir()}


def certificate(path: Path) -> bytes:
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


@pytest.mark.slow
def test_only_their_owner_can_read_the_files_except_the_certificate_of_the_authority(
    made: SecureFiles,
) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in made.directory.iterdir()}

    assert made.directory.stat().st_mode & 0o777 == 0o700
    assert modes.pop("ca.pem") == 0o644
    assert set(modes) == {"ca.key", "cluster.secret", "client.properties", "node-0.pem", "node-1.pem"}
    assert set(modes.values()) == {0o600}


@pytest.mark.slow
def test_certificates_name_node_and_hosts_and_are_trusted_by_the_authority(made: SecureFiles) -> None:
    own = certificate(made.node(1))
    since, until = validity(own)
    context = ssl.create_default_context(cafile=str(made.authority))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.node(1))

    assert host_names(own) == {"node-1", "kafka-1"}
    now = datetime.now(UTC)
    assert since < now < until and timedelta(days=364) < until - now < timedelta(days=366)
    assert validity(certificate(made.authority))[1] - now > timedelta(days=3600)
    assert [one["subject"] for one in context.get_ca_certs()] != []


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Do a handshake in memory; ssl.SSLError if one end rejects the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(5):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.slow
def test_nodes_and_clients_with_these_certificates_accept_each_other(
    made: SecureFiles, tmp_path: Path
) -> None:
    anna = tmp_path / "anna.pem"
    issue_more(made, {anna: of_client("anna")})
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(made.authority))
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(made.node(1))
    client = ssl.create_default_context(cafile=str(made.authority))
    # The default of Python 3.13 and later.
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server.verify_flags |= ssl.VERIFY_X509_STRICT

    for chain in (anna, made.node(0)):
        client.load_cert_chain(chain)
        shake_hands(server, client, "kafka-1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client, "kafka-2")
    server.load_cert_chain(anna)
    with pytest.raises(ssl.SSLError):
        shake_hands(server, client, "anna")


@pytest.mark.slow
def test_two_processes_at_once_make_one_authority(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path / "secure")
    made: list[list[Path]] = []

    def run(node_id: int) -> None:
        made.append(complete(files, hosts_of={node_id: ["localhost"]}, bootstrap=""))

    threads = [threading.Thread(target=run, args=(node_id,)) for node_id in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    paths = [path.name for one in made for path in one]
    assert sorted(paths) == sorted(set(paths)) and paths.count("ca.pem") == 1
    client = ssl.create_default_context(cafile=str(files.authority))
    for node_id in range(3):
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(files.node(node_id))
        shake_hands(server, client, "localhost")


@pytest.mark.slow
def test_the_administrator_has_a_random_password_in_one_file(made: SecureFiles, tmp_path: Path) -> None:
    other = SecureFiles(tmp_path / "other")
    complete(other, hosts_of={}, bootstrap="", with_keys=False)

    passwords = {
        administrator_of(parse_properties(files.client_properties.read_bytes())).password
        for files in (made, other)
    }
    elsewhere = [text for name, text in content_of(made).items() if name != "client.properties"]

    assert len(passwords) == 2 and all(len(one) >= 32 for one in passwords)
    assert not any(password.encode() in text for password in passwords for text in elsewhere)


@pytest.mark.usefixtures("fake_issuer")
def test_existing_files_stay_and_missing_ones_are_made(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path / "a" / "secure")
    complete(files, hosts_of={0: []}, bootstrap="localhost:1")
    before = content_of(files)

    made = complete(files, hosts_of={0: [], 1: []}, bootstrap="localhost:2")
    again = complete(files, hosts_of={0: [], 1: []}, bootstrap="localhost:3")

    assert made == [files.node(1)] and again == []
    assert content_of(files) == {**before, "node-1.pem": b"of node-1"}


@pytest.mark.usefixtures("fake_issuer")
def test_without_the_key_of_the_authority_no_node_is_added(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path)
    complete(files, hosts_of={0: []}, bootstrap="")
    files.authority_key.unlink()

    with pytest.raises(KafkaError) as refused:
        complete(files, hosts_of={0: [], 1: []}, bootstrap="")

    assert "has no ca.key" in refused.value.detail
    assert complete(files, hosts_of={0: []}, bootstrap="") == []


@pytest.mark.usefixtures("fake_issuer")
def test_a_key_without_its_certificate_is_not_overwritten(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path)
    files.authority_key.write_text("OLD")

    with pytest.raises(KafkaError):
        complete(files, hosts_of={0: []}, bootstrap="")

    assert content_of(files) == {"ca.key": b"OLD"}


@pytest.mark.usefixtures("fake_issuer")
def test_the_error_for_a_key_without_its_certificate_says_how_to_restore_it(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path)
    files.authority_key.write_text("OLD")

    with pytest.raises(KafkaError) as refused:
        complete(files, hosts_of={0: []}, bootstrap="")

    assert "Bring ca.pem back" in refused.value.detail
    assert "remove ca.key and all node-ID.pem" in refused.value.detail


@pytest.mark.usefixtures("fake_issuer")
def test_an_existing_certificate_is_replaced_only_on_request(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path)
    complete(files, hosts_of={0: []}, bootstrap="")
    files.node(0).write_text("OLD")

    with pytest.raises(KafkaError) as refused:
        issue_more(files, {files.node(0): of_node(0, [])})
    assert "already exists" in refused.value.detail and files.node(0).read_text() == "OLD"
    issue_more(
        files, {files.node(0): of_node(0, []), tmp_path / "anna.pem": of_client("anna")}, may_replace=True
    )

    assert files.node(0).read_text() == "of node-0" and (tmp_path / "anna.pem").read_text() == "of anna"
    assert files.node(0).stat().st_mode & 0o777 == 0o600


# ---- a node that starts ----------------------------------------------------------------------------


def node(home: Path, **settings: str) -> BrokerConfig:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return parse_config({"ottla.secure": "true", "log.dirs": str(home / "data"), **given})


def prepared(config: BrokerConfig, now: datetime = NOW) -> set[str]:
    assert config.secure_files is not None
    return {path.name for path in prepare(config, config.secure_files, now)}


def test_a_certificate_names_the_hosts_of_the_node(tmp_path: Path) -> None:
    config = node(
        tmp_path,
        listeners="SASL_SSL://0.0.0.0:9092,INTERNAL://10.0.0.1:9094",
        advertised_listeners="SASL_SSL://kafka.example.com:9092",
        ottla_secure_hosts="10.1.1.1,other",
    )

    hosts = node_hosts(config)

    assert {"localhost", "127.0.0.1", "::1", "kafka.example.com", "10.0.0.1", "10.1.1.1", "other"} <= set(
        hosts
    )
    assert client_bootstrap(config) == "kafka.example.com:9092"
    assert client_bootstrap(node(tmp_path)) == "localhost:9092"
    assert client_bootstrap(node(tmp_path, listeners="SASL_SSL://:0")) == ""


@pytest.mark.slow
def test_a_node_makes_its_files_only_at_the_first_start(tmp_path: Path) -> None:
    first = prepared(node(tmp_path))
    second = prepared(node(tmp_path))

    assert first == {"ca.pem", "ca.key", "cluster.secret", "node-0.pem", "client.properties"}
    assert second == set()


@pytest.mark.slow
def test_a_certificate_that_expires_within_a_month_is_renewed_with_all_its_names(tmp_path: Path) -> None:
    prepared(node(tmp_path, ottla_secure_hosts="old-name"))
    files = SecureFiles(tmp_path / "data-secure")
    before = files.node(0).read_bytes()

    early = prepared(node(tmp_path), NOW + timedelta(days=334))
    assert early == set() and files.node(0).read_bytes() == before
    late = prepared(node(tmp_path), NOW + timedelta(days=336))

    assert late == {"node-0.pem"} and files.node(0).read_bytes() != before
    assert "old-name" in host_names(certificate(files.node(0)))


@pytest.mark.slow
def test_a_new_host_causes_a_new_certificate(tmp_path: Path) -> None:
    prepared(node(tmp_path))

    made = prepared(node(tmp_path, advertised_listeners="SASL_SSL://new.example.com:9092"))
    files = SecureFiles(tmp_path / "data-secure")

    assert made == {"node-0.pem"} and "new.example.com" in host_names(certificate(files.node(0)))
    files.authority_key.unlink()
    assert prepared(node(tmp_path, advertised_listeners="SASL_SSL://newer.example.com:9092")) == set()


def test_data_of_an_open_node_are_rejected_before_any_file_is_made(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()

    with pytest.raises(KafkaError) as refused:
        prepared(node(tmp_path))

    assert "no administrator who could log in" in refused.value.detail
    assert f"restore that directory, or set {SECURE_DIR} to its path" in refused.value.detail
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.usefixtures("fake_issuer")
def test_the_error_for_an_unreadable_certificate_says_what_to_do(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path / "data-secure")
    complete(files, hosts_of={0: []}, bootstrap="")
    files.node(0).write_text("damaged")

    with pytest.raises(KafkaError) as here:
        prepared(node(tmp_path))
    files.authority_key.unlink()
    with pytest.raises(KafkaError) as elsewhere:
        prepared(node(tmp_path))

    assert "node-0.pem cannot be used: it has no certificate" in here.value.detail
    assert "remove it so that the next start makes a new one" in here.value.detail
    assert "`ottla secure certificate DIR --node 0 --renew`" in elsewhere.value.detail


@pytest.mark.usefixtures("fake_issuer")
def test_a_node_with_keys_of_its_own_gets_only_an_administrator(tmp_path: Path) -> None:
    config = node(
        tmp_path, ssl_keystore_location="/own/key.pem", ssl_truststore_location="/own/authorities.pem"
    )

    made = prepared(config)
    client = parse_properties((tmp_path / "data-secure" / "client.properties").read_bytes())

    assert made == {"client.properties"}
    assert client["ssl.truststore.location"] == "/own/authorities.pem"


@pytest.mark.usefixtures("fake_issuer")
def test_a_node_of_several_makes_neither_an_administrator_nor_an_authority_of_its_own(tmp_path: Path) -> None:
    of_several = {
        "cluster_secret": "a-secret-of-many-characters",
        "listeners": "SASL_SSL://:9092,INTERNAL://:9094,CONTROLLER://:9093",
        "controller_listener_names": "CONTROLLER",
        "controller_quorum_voters": "0@a:9093,1@b:9093",
    }

    assert prepared(node(tmp_path, **of_several, ssl_keystore_location="/own/key.pem")) <= {"cluster.secret"}
    with pytest.raises(KafkaError) as refused:
        prepared(node(tmp_path, **of_several))

    assert "data-secure has no ca.pem" in refused.value.detail
    assert not SecureFiles(tmp_path / "data-secure").authority.exists()


def test_no_keys_are_made_where_others_could_replace_them(
    tmp_path: Path, fake_issuer: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SecureFiles(tmp_path / "secure")
    files.directory.mkdir()
    files.directory.chmod(0o777)

    with pytest.raises(KafkaError, match=r"every user may write to .*chmod o-w"):
        complete(files, hosts_of={0: ["localhost"]}, bootstrap="")
    assert content_of(files) == {}

    files.directory.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 4_242)
    monkeypatch.setattr(secure_directory, "ROOT", -1)
    with pytest.raises(KafkaError, match="belongs to another user"):
        complete(files, hosts_of={0: ["localhost"]}, bootstrap="")
    assert content_of(files) == {}

    monkeypatch.undo()
    monkeypatch.setattr(
        secure_directory, "issue", lambda known, wanted: (Authority(certificate="CA", key="KEY"), ["PEM"])
    )
    complete(files, hosts_of={0: ["localhost"]}, bootstrap="")
    assert set(content_of(files)) >= {"ca.pem", "ca.key", "node-0.pem"}
