"""The key of false salts is equal at each start, and at all nodes with the same secret."""

from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk, OsDisk
from ottla.node.settings.config import parse_config
from ottla.node.start.foundation import Foundation, make_foundation
from ottla.node.start.login_key import LOGIN_KEY, find_login_key
from ottla.node.start.world import World

LOGINS = {
    "listeners": "SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "ssl.keystore.location": "node.pem",
}


def node(
    directory: Path, disk: MemoryDisk | OsDisk | None = None, *, logs_in: bool = True, **settings: str
) -> Foundation:
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    config = parse_config({"log.dirs": str(directory)} | (LOGINS if logs_in else {}) | texts)
    return make_foundation(config, World(disk=disk or OsDisk()))


def test_a_node_without_a_secret_keeps_its_own_key(tmp_path: Path) -> None:
    first, again = find_login_key(node(tmp_path)), find_login_key(node(tmp_path))

    assert first == again and len(first) == 32
    assert (tmp_path / LOGIN_KEY).stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other"
    other.mkdir()
    assert find_login_key(node(other)) != first


def test_a_node_without_logins_keeps_no_key(tmp_path: Path) -> None:
    assert len(find_login_key(node(tmp_path, logs_in=False))) == 32
    assert not list(tmp_path.iterdir())


def test_a_rest_api_with_logins_is_enough_to_keep_a_key(tmp_path: Path) -> None:
    rest = {"ottla_rest_authentication": "basic", "ottla_rest_listeners": "http://127.0.0.1:0"}

    assert find_login_key(node(tmp_path, logs_in=False, **rest)) == (tmp_path / LOGIN_KEY).read_bytes()


def test_nodes_with_one_secret_have_one_key_and_no_file(tmp_path: Path) -> None:
    keys = {
        find_login_key(node(tmp_path / str(node_id), node_id=str(node_id), cluster_secret="a" * 32))
        for node_id in range(3)
    }

    assert len(keys) == 1 and not list(tmp_path.iterdir())
    assert find_login_key(node(tmp_path, cluster_secret="b" * 32)) not in keys


def test_a_file_with_other_content_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / LOGIN_KEY).write_bytes(b"half")

    key = find_login_key(node(tmp_path))

    assert (tmp_path / LOGIN_KEY).read_bytes() == key and "does not hold a key" in caplog.text


def test_a_directory_that_cannot_be_written_does_not_stop_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()  # has no directory yet

    assert len(find_login_key(node(tmp_path, disk))) == 32
    assert "cannot be read or written" in caplog.text and "restart the node" in caplog.text
