"""The settings of clients in docs/clients.md are the ones that the tests of these clients use."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPAT = ROOT / "tests" / "compat"
PYTHON = COMPAT / "clients" / "secured_client.py"
PROGRAMS = {
    "confluent-kafka": PYTHON,
    "confluent-kafka, kcat": PYTHON,
    "kcat": COMPAT / "clients" / "test_kcat.py",
    "Java": COMPAT / "java" / "SecuredClient.java",
    "franz-go": COMPAT / "go" / "secured" / "franz.go",
    "sarama": COMPAT / "go" / "secured" / "sarama.go",
    "kafka-python": PYTHON,
    "aiokafka": PYTHON,
}
OF_BOTH_IN_GO = COMPAT / "go" / "secured" / "main.go"
SECTION = re.compile(r"### Settings of each client\n(.*?)\n### ", re.DOTALL)


def rows() -> list[tuple[str, str]]:
    """Return each client of the tables, with the rest of its row."""
    section = SECTION.search((ROOT / "docs" / "clients.md").read_text())
    assert section is not None
    cells = re.findall(r"^\| ([^|]+?) \|(.*)\|$", section[1], re.MULTILINE)
    return [(client, rest) for client, rest in cells if client != "client"]


def test_the_tables_have_a_row_of_each_client() -> None:
    assert {client for client, _ in rows()} == set(PROGRAMS)


@pytest.mark.parametrize(("client", "rest"), rows())
def test_the_settings_of_a_client_are_the_tested_ones(client: str, rest: str) -> None:
    program = PROGRAMS[client].read_text() + (
        OF_BOTH_IN_GO.read_text() if "go" in PROGRAMS[client].parts else ""
    )

    names = [name for code in re.findall(r"`([^`]+)`", rest) for name in re.findall(r"[A-Za-z][\w.]+", code)]

    assert names
    for name in names:
        assert name in program or name == "PEM", f"{client}: {name}"
