"""Texts that could make a parser backtrack: values of settings, lists that grow, JSON that does not end."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, Final

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S, ask
from attacks.nodes import Nodes
from ottla.logstore.words.schema_source import STRING_MAX_BYTES
from ottla.metadata_raft.commands import ConfigOperation
from ottla.metadata_raft.controller_config import MAX_VALUE_CHARS_PER_COMMAND

TOPIC: Final = "costly"
TOPIC_RESOURCE: Final = 2
THROTTLED: Final = "leader.replication.throttled.replicas"
LIST_CHARS: Final = 16_000
VALUES: Final = (
    ("min.cleanable.dirty.ratio", "9" * (STRING_MAX_BYTES - 1) + "x"),
    ("min.cleanable.dirty.ratio", "9." + "9" * (STRING_MAX_BYTES - 3) + "x"),
    ("cleanup.policy", "a" + " " * (STRING_MAX_BYTES - 2) + "b"),
    (THROTTLED, "0:1," * (STRING_MAX_BYTES // 4 - 1) + "x"),
)
# Each quote might be the end of the text.
QUOTES: Final = b'{"value":{"type":"STRING","data":"' + b'\\"' * 30_000 + b"}{"
DOCUMENTS: Final = 10


def _make(nodes: Nodes) -> None:
    with nodes.connect() as client:
        wanted = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
        client.call("create_topics", 7, topics=[wanted], timeout_ms=30_000)


def _alter(nodes: Nodes, changes: Sequence[tuple[str, str, ConfigOperation]]) -> str:
    configs = [{"name": name, "config_operation": kind, "value": value} for name, value, kind in changes]
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC, "configs": configs}
    return ask(nodes, "incremental_alter_configs", 1, resources=[resource])


def _set(nodes: Nodes) -> str:
    answers = [_alter(nodes, [(name, value, ConfigOperation.SET)]) for name, value in VALUES]
    assert set(answers) == {"1 x INVALID_CONFIG"}, answers
    return answers[0]


def _list_from(first: int) -> str:
    entries = ",".join(f"{number}:{number}" for number in range(first, first + LIST_CHARS // 10))
    return entries[: LIST_CHARS - 1].rpartition(",")[0]


def _grow(nodes: Nodes) -> str:
    """Append to a long list and subtract from it, many times."""
    some, others = _list_from(10_000), _list_from(20_000)
    answers = [
        _alter(nodes, [(THROTTLED, value, kind)])
        for _ in range(20)
        for value, kind in (
            (some, ConfigOperation.SET),
            (others, ConfigOperation.APPEND),
            (some, ConfigOperation.SUBTRACT),
        )
    ]
    assert set(answers) == {"1 x NONE"}, answers
    return f"{len(answers)} x NONE"


def _create(chars: int) -> Callable[[Nodes], str]:
    def send(nodes: Nodes) -> str:
        value = _list_from(10_000)
        configs = [{"name": THROTTLED, "value": value}]
        topics = [
            {
                "name": f"costly-{chars}-{number}",
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": configs,
            }
            for number in range(chars // len(value))
        ]
        return ask(nodes, "create_topics", 7, topics=topics, timeout_ms=30_000)

    return send


def _produce_json(nodes: Nodes) -> str:
    with urllib.request.urlopen(f"{nodes.rest}/v3/clusters", timeout=TIMEOUT_S) as response:
        found: Any = json.load(response)
    url = f"{nodes.rest}/v3/clusters/{found['data'][0]['cluster_id']}/topics/{TOPIC}/records"
    answers = []
    for _ in range(DOCUMENTS):
        request = urllib.request.Request(url, QUOTES, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                answers.append(answer.status)
        except urllib.error.HTTPError as error:
            answers.append(error.code)
    return f"{len(answers)} x {answers[0]}"


ATTACKS: Final = (
    Attack(
        name="settings-of-many-readings",
        sends="settings of 32,767 digits, blanks or pairs, with a character that makes them invalid",
        send=_set,
        prepare=_make,
        cpu_s=1,
    ),
    Attack(
        name="settings-that-grow",
        sends="60 changes of a list of 16,000 characters: set, append, subtract",
        send=_grow,
        prepare=_make,
        cpu_s=3,
    ),
    Attack(
        name="topics-with-long-settings",
        sends="CreateTopics with 512 KiB of settings, the most that is allowed",
        send=_create(MAX_VALUE_CHARS_PER_COMMAND),
        cpu_s=3,
    ),
    Attack(
        name="topics-with-too-long-settings",
        sends="CreateTopics with 16 MiB of settings",
        send=_create(16 << 20),
        cpu_s=3,
        growth_mib=150,  # the frame of 16 MiB, its decoded texts (large_requests), those of the response
    ),
    Attack(
        name="json-without-end",
        sends="10 documents over REST with 30,000 quotes in a text that does not end",
        send=_produce_json,
        prepare=_make,
        cpu_s=1,
    ),
)
