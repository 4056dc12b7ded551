"""A secured node does not start without its security because a flag was forgotten."""

from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.words.errors import KafkaError
from ottla.node.settings.config import BrokerConfig, parse_config
from ottla.node.start.secured_mark import SECURED_MARK, leave_mark, refuse_to_open

DATA = Path("/data/one"), Path("/data/two")


def node(**settings: str) -> BrokerConfig:
    texts = {"log.dirs": ",".join(map(str, DATA)), "listeners": "PLAINTEXT://127.0.0.1:9092"}
    return parse_config(texts | {name.replace("_", "."): value for name, value in settings.items()})


@pytest.fixture
def disk() -> MemoryDisk:
    made = MemoryDisk()
    for path in DATA:
        made.make_directory(path)
    return made


def test_unsecured_data_are_served(disk: MemoryDisk) -> None:
    refuse_to_open(node(), disk)


def test_one_marked_directory_is_enough_and_the_error_names_both_remedies(disk: MemoryDisk) -> None:
    leave_mark(disk, DATA[1])

    with pytest.raises(KafkaError) as refused:
        refuse_to_open(node(), disk)

    assert refused.value.detail.startswith("/data/two belongs to a node that was started with --secure.")
    assert "one-secure, which does not exist; set ottla.secure.dir to" in refused.value.detail
    assert "ottla.secure=false" in refused.value.detail


def test_keys_beside_the_data_are_a_mark_too(disk: MemoryDisk) -> None:
    disk.make_directory(Path("/data/one-secure"))
    disk.write_file(Path("/data/one-secure/ca.pem"), b"CA", sync=False)

    with pytest.raises(KafkaError, match=r"\(its keys: /data/one-secure\)"):
        refuse_to_open(node(), disk)


def test_security_can_be_turned_off_explicitly(disk: MemoryDisk) -> None:
    leave_mark(disk, DATA[0])

    refuse_to_open(node(ottla_secure="false"), disk)


@pytest.mark.parametrize(
    ("settings", "is_closed"),
    [
        ({"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, True),
        ({}, False),  # every client that trusts the certificate may do everything
    ],
    ids=["TLS and an authorizer", "TLS alone"],
)
def test_other_settings_may_close_the_node_as_well(
    disk: MemoryDisk, settings: dict[str, str], is_closed: bool
) -> None:
    leave_mark(disk, DATA[0])
    config = parse_config(
        {
            "log.dirs": str(DATA[0]),
            "listeners": "SSL://127.0.0.1:9092",
            "inter.broker.listener.name": "SSL",
            "ottla.rest.listeners": "",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "/own.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/authorities.pem",
            **settings,
        }
    )

    if is_closed:
        refuse_to_open(config, disk)
    else:
        with pytest.raises(KafkaError):
            refuse_to_open(config, disk)


def test_a_mark_is_written_once(disk: MemoryDisk) -> None:
    leave_mark(disk, DATA[0])
    before = disk.read_file(DATA[0] / SECURED_MARK)
    leave_mark(disk, DATA[0])

    assert disk.read_file(DATA[0] / SECURED_MARK) == before != b""


def test_an_error_of_the_disk_is_left_to_the_opening_of_logs(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path) -> bool:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "exists", failing)

    refuse_to_open(node(), disk)
