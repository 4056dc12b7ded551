"""Apache Kafka's tools see the changes of `ottla user`, `ottla acl` and `ottla quota`, and vice versa."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.compat.java.kafka_tools import KafkaTools
from tests.integration.secured_node import Commands, SecuredNode, secured_node

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    yield from secured_node(tmp_path_factory.mktemp("secured"))


class Both:
    """The administrator's commands: ours, and Kafka's."""

    def __init__(self, node: SecuredNode, ours: Commands, tools: KafkaTools) -> None:
        self.ours = ours
        self._tools = tools
        self._server = ("--bootstrap-server", node.address("TLS"), "--command-config", str(ours.config))

    def kafka(self, tool: str, *words: str) -> str:
        ran = self._tools.run(tool, *self._server, *words)
        assert ran.code == 0, ran.text
        return ran.text


@pytest.fixture
def both(
    node: SecuredNode,
    tools: KafkaTools,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Both:
    return Both(node, Commands(node.properties(), monkeypatch, capfd), tools)


def entries(text: str) -> set[tuple[str, ...]]:
    """Return the ACLs that `kafka-acls --list` shows: resource, name, pattern, principal, operation."""
    found = set()
    resource: tuple[str, ...] = ()
    for line in text.splitlines():
        if match := re.search(r"resourceType=(\w+), name=(.*), patternType=(\w+)\)", line):
            resource = match.groups()
        elif match := re.search(
            r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)", line
        ):
            found.add((*resource, *match.groups()))
    return found


def ours_as_theirs(both: Both, *words: str) -> set[tuple[str, ...]]:
    keys = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
    listed = json.loads(both.ours("acl", "list", *words, "--output", "json"))
    return {tuple(one[key] for key in keys) for one in listed}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            ["--producer", "--topic", "t", "--transactional-id", "x", "--idempotent"],
            ["--producer", "--topic", "t", "--transactional-id", "x", "--idempotent"],
        ),
        (
            ["--consumer", "--topic", "t", "--group", "g", "--pattern-type", "prefixed"],
            ["--consumer", "--topic", "t", "--group", "g", "--resource-pattern-type", "prefixed"],
        ),
        (
            ["--operation", "read,DescribeConfigs", "--topic", "t", "--topic", "*", "--host", "10.0.0.7"],
            [
                *("--operation", "Read", "--operation", "DescribeConfigs"),
                *("--topic", "t", "--topic", "*", "--allow-host", "10.0.0.7"),
            ],
        ),
        (["--operation", "all", "--cluster"], ["--operation", "All", "--cluster"]),
        (
            ["--operation", "create_tokens", "--user-principal", "User:x"],
            ["--operation", "CreateTokens", "--user-principal", "User:x"],
        ),
    ],
)
def test_the_same_options_make_the_same_acls_and_each_tool_sees_those_of_the_other(
    both: Both, ours: list[str], theirs: list[str]
) -> None:
    both.ours("acl", "create", "--allow", "User:of-ottla", *ours)
    both.kafka("kafka-acls", "--add", "--allow-principal", "User:of-kafka", *theirs)

    seen = entries(both.kafka("kafka-acls", "--list"))
    assert seen and seen == ours_as_theirs(both)
    mine = {one for one in seen if one[3] == "User:of-ottla"}
    assert mine
    assert {(*one[:3], "User:of-kafka", *one[4:]) for one in mine} == seen - mine
    assert both.ours("acl", "create", "--allow", "User:of-kafka", *ours).startswith("created 0 ACLs; ")

    for name in ("User:of-ottla", "User:of-kafka"):
        both.ours("acl", "delete", "--principal", name, "--yes")
    assert not entries(both.kafka("kafka-acls", "--list"))


def test_users_and_quotas_of_one_tool_are_those_of_the_other(both: Both) -> None:
    of_user = ("--entity-type", "users", "--entity-name", "anna")
    both.ours("user", "create", "anna", "--iterations", "8192", "--password-file", "-", given="secret")
    both.ours("quota", "set", "--user", "anna", "producer_byte_rate=1048576", "request_percentage=12.5")

    described = both.kafka("kafka-configs", "--describe", *of_user)
    assert "SCRAM-SHA-512=iterations=8192" in described
    assert "producer_byte_rate=1048576.0" in described and "request_percentage=12.5" in described

    both.kafka("kafka-configs", "--alter", *of_user, "--add-config", "SCRAM-SHA-256=[password=secret]")
    both.kafka("kafka-configs", "--alter", *of_user, "--add-config", "consumer_byte_rate=5")
    both.kafka("kafka-configs", "--alter", *of_user, "--delete-config", "request_percentage")
    assert "SCRAM-SHA-256  4096" in both.ours("user", "list")
    quotas = json.loads(both.ours("quota", "list", "--user", "anna", "--output", "json"))
    assert {one["name"]: one["value"] for one in quotas} == {
        "producer_byte_rate": 1048576,
        "consumer_byte_rate": 5,
    }

    both.ours("quota", "delete", "--user", "anna")
    both.ours("user", "delete", "anna")
    assert "SCRAM" not in both.kafka("kafka-configs", "--describe", *of_user)
