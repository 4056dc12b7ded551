"""kafka-acls prints the same for Ottla as for Apache Kafka 4.3.1, in a sequence of commands."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.compat.differential.acl_cases import ADMINISTRATOR, NOBODY
from tests.compat.differential.acl_servers import (
    MECHANISM,
    MODULE,
    PASSWORD,
    start_kafka_with_users,
    start_ottla_with_users,
)
from tests.compat.java.kafka_tools import KafkaTools, Ran

pytestmark = [pytest.mark.slow, pytest.mark.java]

ANN: Final = ("--allow-principal", "User:ann")
DENY_BOB: Final = ("--deny-principal", "User:bob")
FORCE: Final = "--force"
PREFIXED: Final = ("--resource-pattern-type", "prefixed")
MATCH: Final = ("--resource-pattern-type", "match")


class Step(NamedTuple):
    """The arguments of one command, and the answer to its question."""

    arguments: tuple[str, ...]
    stdin: str = ""


def step(*arguments: str, stdin: str = "") -> Step:
    return Step(arguments, stdin)


STEPS: Final = [
    step("--list"),
    # Add ACLs.
    step("--add", *ANN, "--operation", "Read", "--topic", "t"),
    step("--add", *ANN, "--operation", "Read", "--topic", "t"),  # a second time
    step("--add", *ANN, "--topic", "whole"),
    step("--add", *ANN, "--operation", "Create", "--operation", "Alter", "--topic", "a", "--topic", "b"),
    step("--add", *ANN, "--allow-host", "10.0.0.1", "--operation", "Write", "--topic", "t"),
    step(
        "--add", "--deny-principal", "User:bob", "--deny-host", "::1", "--operation", "Write", "--topic", "t"
    ),
    step("--add", *ANN, *DENY_BOB, "--operation", "Delete", "--topic", "t"),
    step("--add", *ANN, "--producer", "--topic", "orders"),
    step("--add", *ANN, "--producer", "--topic", "orders", "--transactional-id", "x", "--idempotent"),
    step("--add", *ANN, "--consumer", "--topic", "orders", "--group", "g"),
    step("--add", *ANN, "--producer", "--consumer", "--topic", "both", "--group", "g"),
    step("--add", "--allow-principal", "User:*", "--consumer", "--topic", "*", "--group", "*"),
    step("--add", *ANN, "--operation", "Describe", "--cluster"),
    step("--add", *ANN, "--operation", "IdempotentWrite", "--cluster"),
    step("--add", *ANN, *PREFIXED, "--topic", "pre-", "--group", "pre-"),
    step("--add", *ANN, *PREFIXED, "--operation", "All", "--transactional-id", "pre-"),
    step("--add", *ANN, "--operation", "TwoPhaseCommit", "--transactional-id", "x"),
    step("--add", *ANN, "--operation", "Describe", "--delegation-token", "token"),
    step("--add", *ANN, "--operation", "CreateTokens", "--user-principal", "User:bob"),
    step("--add", "--allow-principal", "Group:staff", "--operation", "Read", "--topic", "name with space"),
    # List them.
    step("--list"),
    step("--list", "--topic", "t"),
    step("--list", "--topic", "*"),
    step("--list", "--topic", "none"),
    step("--list", "--topic", "pre-1"),
    step("--list", "--topic", "pre-1", *MATCH),
    step("--list", "--topic", "pre-", *PREFIXED),
    step("--list", "--topic", "pre-", "--resource-pattern-type", "any"),
    step("--list", "--group", "g", "--cluster"),
    step("--list", "--transactional-id", "x"),
    step("--list", "--delegation-token", "token"),
    step("--list", "--user-principal", "User:bob"),
    step("--list", "--principal", "User:ann", "--topic", "t"),
    step("--list", "--principal", "User:nobody", "--principal", "User:bob", "--topic", "t"),
    # Remove them.
    step("--remove", *ANN, "--operation", "Read", "--topic", "t", stdin="n\n"),
    step("--remove", *ANN, "--operation", "Read", "--topic", "t", stdin="y\n"),
    step("--remove", *ANN, "--operation", "Read", "--topic", "t", FORCE),  # already removed
    step("--remove", *ANN, "--topic", "whole", FORCE),
    step("--remove", *ANN, "--producer", "--topic", "orders", FORCE),
    step("--remove", *ANN, "--consumer", "--topic", "orders", "--group", "g", FORCE),
    step("--remove", *DENY_BOB, "--operation", "Delete", "--topic", "t", FORCE),
    step("--remove", "--topic", "t", FORCE),
    step("--remove", "--topic", "b", "--topic", "none", FORCE),
    step("--remove", "--topic", "pre-1", *MATCH, FORCE),
    step("--remove", "--group", "pre-", *PREFIXED, FORCE),
    step("--remove", "--cluster", stdin="y\n"),
    step("--remove", "--topic", "*", "--group", "*", FORCE),
    step("--list"),
    # Commands that fail.
    step("--add", "--operation", "Read", "--topic", "t"),
    step("--add", *ANN, "--operation", "Read"),
    step("--add", *ANN, "--operation", "Dance", "--topic", "t"),
    step("--add", *ANN, "--operation", "Write", "--group", "g"),
    step("--add", *ANN, "--operation", "Read", "--cluster"),
    step("--add", *ANN, "--producer", "--group", "g"),
    step("--add", *ANN, "--consumer", "--topic", "t"),
    step("--add", *ANN, "--producer", "--operation", "Read", "--topic", "t"),
    step("--add", *ANN, "--operation", "Read", "--topic", "t", *MATCH),
    step("--add", "--allow-principal", "ann", "--operation", "Read", "--topic", "t"),
    step("--add", *ANN, "--operation", "Read", "--topic", ""),
    step("--add", "--allow-principal", "User:", "--operation", "Read", "--topic", "t"),
    step("--remove", FORCE),
    step("--add", "--list", "--topic", "t"),
    step("--list"),
]


@pytest.fixture(scope="module")
def both(tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    mine, ottla = start_ottla_with_users(tmp_path_factory.mktemp("ottla-users"))
    theirs, kafka = start_kafka_with_users(tmp_path_factory.mktemp("kafka-users"))
    yield ottla, kafka
    mine.stop()
    theirs.stop()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("properties")


def command(tools: KafkaTools, home: Path, address: str, user: str, step: Step) -> Ran:
    path = home / f"{user}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={MECHANISM}\n"
        f'sasl.jaas.config={MODULE} required username="{user}" password="{PASSWORD}";\n'
    )
    server = ("--bootstrap-server", address, "--command-config", str(path))
    return tools.run("kafka-acls", *server, *step.arguments, stdin=step.stdin)


def output_of(ran: Ran) -> tuple[int, list[str]]:
    """Return the exit code and the output, without times and addresses.

    The lines are sorted, since Kafka's have the order of a Java hash map.
    """
    text = re.sub(r"127\.0\.0\.1:\d+|\d{4}-\d\d-\d\d \S+|\(node \S+\)", "-", ran.text)
    return ran.code, sorted(line for line in text.splitlines() if not line.lstrip().startswith("at "))


def test_kafka_acls_prints_the_same_at_both(tools: KafkaTools, both: tuple[str, str], home: Path) -> None:
    for step in STEPS:
        mine, theirs = (output_of(command(tools, home, address, ADMINISTRATOR, step)) for address in both)

        assert mine == theirs, step.arguments


@pytest.mark.parametrize(
    "call",
    [
        step("--list"),
        step("--add", *ANN, "--operation", "Read", "--topic", "t"),
        step("--remove", *ANN, "--operation", "Read", "--topic", "t", FORCE),
    ],
    ids=lambda call: call.arguments[0],
)
def test_a_client_without_rights_gets_the_same_error(
    tools: KafkaTools, both: tuple[str, str], home: Path, call: Step
) -> None:
    for address in both:
        rejected = command(tools, home, address, NOBODY, call)

        # Kafka's message has the whole request in Java's notation, so only the exception is checked.
        assert rejected.code == 1, rejected.text
        assert "org.apache.kafka.common.errors.ClusterAuthorizationException: " in rejected.text
