"""The directory of keys of a secured node: its facts and the doctor's findings about them."""

import errno
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from ottla.logstore.meta_properties import META_PROPERTIES
from ottla.node.doctor.finding import Severity
from ottla.node.doctor.look_at_secure_dir import keystore_to_be_made, look_at_secure_dir
from ottla.node.doctor.look_at_security import look_at_tls
from ottla.node.doctor.secure_dir_findings import of_directory
from ottla.node.settings.config import BrokerConfig, parse_config

NOW = datetime.now(UTC)


class Home:
    """The data and the directory of keys of a node that has stopped."""

    def __init__(self, home: Path, *, authority_days: int = 3650) -> None:
        self.owner = 1000  # of the secrets: not root, as an ordinary user of the machine
        self.keys, self.data = home / "data-secure", home / "data"
        self.keys.mkdir(mode=0o700)
        self.data.mkdir()
        (self.data / META_PROPERTIES).write_text("")
        ca = trustme.CA()
        self.write("ca.pem", expiring(authority_days), 0o644)
        self.write("ca.key", b"a key")
        self.write("cluster.secret", b"a-secret-of-twenty-four-bytes")
        self.write(
            "client.properties",
            b"sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            b'username="admin" password="a-password";',
        )
        self.write("node-0.pem", ca.issue_cert("node-0").private_key_and_cert_chain_pem.bytes())

    def write(self, name: str, content: bytes, mode: int = 0o600) -> Path:
        path = self.keys / name
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def config(self, **settings: str) -> BrokerConfig:
        return parse_config({"ottla.secure": "true", "log.dirs": str(self.data), **settings})

    def problems(self) -> list[str]:
        return self._sentences(Severity.PROBLEM)

    def notes(self) -> list[str]:
        return self._sentences(Severity.NOTE)

    def _sentences(self, severity: Severity) -> list[str]:
        looked_at = look_at_secure_dir(self.config())
        assert looked_at is not None
        secrets = [one._replace(owner=self.owner) for one in looked_at.secrets]
        found = of_directory(looked_at._replace(secrets=secrets), NOW)
        return [one.sentence for one in found if one.severity is severity]


def expiring(days: int) -> bytes:
    """Return a certificate that expires after this number of days."""
    return trustme.CA().issue_cert("any", not_after=NOW + timedelta(days=days)).cert_chain_pems[0].bytes()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_directory_as_a_node_makes_it_has_no_problem(home: Home) -> None:
    assert home.problems() == [] and home.notes() == []
    assert keystore_to_be_made(home.config()) == ""
    assert look_at_secure_dir(parse_config({"log.dirs": str(home.data)})) is None


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("ca.key", "the private key of the authority"),
        ("cluster.secret", "the secret of the nodes"),
        ("client.properties", "the password of the administrator"),
    ],
)
def test_a_secret_that_all_users_can_read_is_a_problem_and_one_that_the_group_can_a_note(
    home: Home, name: str, holds: str
) -> None:
    path = home.keys / name
    path.chmod(0o640)
    assert home.problems() == []
    assert home.notes() == [f"The group of {path} can read or change secrets of the node's user: chmod 600."]

    home.owner = 0
    assert home.notes() == [], "as Kubernetes hands over files of a Secret"

    path.chmod(0o604)
    (found,) = home.problems()
    assert found == f"Every user of this machine can read {path}, which holds {holds}: chmod 600 {path}"


@pytest.mark.parametrize(
    ("mode", "problem", "noted"),
    [
        (0o700, "", ""),
        (0o750, "", ""),
        (0o755, "", "can list the keys in"),
        (0o770, "", "can replace the keys in it"),
        (0o777, "can replace the keys in", ""),
        (0o1777, "", ""),  # a volume of a Kubernetes Secret
    ],
)
def test_users_that_may_write_to_the_directory_can_replace_keys(
    home: Home, mode: int, problem: str, noted: str
) -> None:
    home.keys.chmod(mode)

    assert [problem in one for one in home.problems()] == [True] * bool(problem)
    assert [noted in one for one in home.notes()] == [True] * bool(noted)


@pytest.mark.parametrize(
    ("days", "problem", "noted"),
    [
        (-1, "expired on", ""),
        (29, "expires on", ""),
        (100, "", "each client needs another"),
        (181, "", ""),
    ],
)
def test_an_authority_that_expires_is_reported_in_time_for_all_clients(
    tmp_path: Path, days: int, problem: str, noted: str
) -> None:
    home = Home(tmp_path, authority_days=days)

    assert [problem in one for one in home.problems()] == [True] * bool(problem)
    assert [noted in one for one in home.notes()] == [True] * bool(noted)


def test_the_later_expiry_of_two_authorities_counts(home: Home) -> None:
    home.write("ca.pem", expiring(-1) + expiring(400), 0o644)

    assert home.problems() == [] and home.notes() == []


def test_certificates_of_other_nodes_are_checked_here_and_those_of_this_node_by_its_listener(
    home: Home,
) -> None:
    chain = trustme.CA().issue_cert("node-1", not_after=NOW + timedelta(days=3))
    expiring = home.write("node-1.pem", chain.private_key_and_cert_chain_pem.bytes())
    broken = home.write("node-2.pem", b"nothing")
    folder = home.keys / "node-3.pem"
    folder.mkdir(mode=0o700)
    home.write("node-0.pem", b"checked where it is shown")

    first, second, third = home.problems()

    assert first.startswith(f"The certificate in {expiring} expires on")
    assert second.startswith(f"The certificate in {broken} cannot be read: it has no certificate")
    assert third == f"The certificate in {folder} cannot be read: it is not a file."


def test_missing_files_are_reported_with_the_remedy(home: Home) -> None:
    (home.keys / "node-0.pem").unlink()
    assert home.problems() == []
    assert home.notes() == [f"{home.keys} has no node-0.pem: the next start of the node creates one."]

    (home.keys / "ca.key").unlink()
    (found,) = home.problems()
    assert "has no node-0.pem, so the node does not start" in found and "--node 0`" in found

    (home.keys / "ca.pem").unlink()
    (found,) = home.problems()
    assert found.startswith(f"{home.keys} has no ca.pem, the certificate of the authority, so the node")


def test_a_directory_whose_files_may_not_be_read_is_a_problem(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exists(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", exists)

    (found,) = home.problems()
    assert found.startswith(f"{home.keys} cannot be read (Permission denied)")
    assert keystore_to_be_made(home.config()) == str(home.keys / "node-0.pem")


def test_a_missing_directory_is_a_problem_only_for_a_node_with_data(home: Home) -> None:
    for path in home.keys.iterdir():
        path.unlink()
    home.keys.rmdir()
    (found,) = home.problems()
    assert found.startswith(f"{home.data} has data of a secured node, but there is no directory {home.keys}")

    (home.data / META_PROPERTIES).unlink()
    assert home.problems() == []
    made = home.config()
    assert keystore_to_be_made(made) == str(home.keys / "node-0.pem"), "the first start makes all"
    assert look_at_tls(made, NOW) and look_at_tls(made, NOW, keystore_to_be_made(made)) == []
