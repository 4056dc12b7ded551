"""Changes of very many topics: several commands with one response."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.controller_config import MAX_RECORDS_PER_COMMAND
from ottla.node.metadata.command_parts import (
    ITEMS_PER_PART,
    RECORDS_PER_PART,
    grouped,
    parts_of,
    submit_in_parts,
)
from ottla.node.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.node.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.node.work.turns import at_once
from tests.unit.node.metadata.metadata_node import MetadataNode

Item = tuple[str, int]  # a name, and the records that it needs


def split(items: Sequence[Item]) -> list[list[Item]]:
    _, groups = at_once(grouped(items, lambda item: item[1], lambda item: item[0]))
    return list(parts_of(groups, lambda item: item[1]))


class Controller:
    """Records the parts that it gets, and rejects those that contain the name `refuses`."""

    def __init__(self, refuses: str = "") -> None:
        self.parts: list[list[Item]] = []
        self.refuses = refuses

    async def take(self, part: list[Item], timeout_ms: int) -> list[str]:
        assert 0 < timeout_ms <= 1_000
        self.parts.append(part)
        if any(name == self.refuses for name, _ in part):
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return [name for name, _ in part]

    def change(self, items: Sequence[Item]) -> list[str]:
        return asyncio.run(
            submit_in_parts(
                items,
                records_of=lambda item: item[1],
                key_of=lambda item: item[0],
                submit=self.take,
                refused=lambda part, error: [error.code.name] * len(part),
                timeout_ms=1_000,
            )
        )


def test_a_usual_change_is_one_command() -> None:
    controller = Controller()

    assert controller.change([("a", 1), ("b", 2)]) == ["a", "b"]
    assert controller.parts == [[("a", 1), ("b", 2)]]
    assert Controller().change([]) == []


def test_a_part_has_a_limit_of_items_and_of_records() -> None:
    many = [(f"{number}", 1) for number in range(2 * ITEMS_PER_PART + 1)]
    large = [(f"{number}", RECORDS_PER_PART // 2) for number in range(5)]

    assert [len(part) for part in split(many)] == [ITEMS_PER_PART, ITEMS_PER_PART, 1]
    assert [len(part) for part in split(large)] == [2, 2, 1]
    assert [len(part) for part in split([("a", 10 * RECORDS_PER_PART), ("b", 1)])] == [1, 1]


def test_items_with_the_same_key_are_in_one_command() -> None:
    items = [*((f"{number}", 1) for number in range(3 * ITEMS_PER_PART)), ("0", 1)]

    parts = split(items)

    assert sorted(item for part in parts for item in part) == sorted(items)
    assert [number for number, part in enumerate(parts) if ("0", 1) in part] == [0]


def test_other_tasks_run_between_parts_that_do_not_wait() -> None:
    async def scene() -> tuple[int, int]:
        parts: list[int] = []
        turns: list[int] = []

        async def submit(part: list[Item], timeout_ms: int) -> list[str]:
            parts.append(len(turns))
            return []

        async def other() -> None:
            while True:
                turns.append(len(parts))
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        await submit_in_parts(
            [(f"{number}", 0) for number in range(20 * ITEMS_PER_PART)],
            records_of=lambda item: item[1],
            key_of=lambda item: item[0],
            submit=submit,
            refused=lambda part, error: [],
            timeout_ms=1_000,
        )
        beside.cancel()
        return len(parts), len(set(parts))

    made, apart = asyncio.run(scene())
    assert made == apart == 20


def test_deletions_of_missing_topics_are_sent_in_parts() -> None:
    async def scene() -> list[int]:
        node = MetadataNode()
        await node.start()
        sizes: list[int] = []
        submit = node.metadata.submit

        async def counted(command: Any, timeout_ms: int = 1_000, client: Any = None) -> Any:
            sizes.append(len(command.topics))
            return await submit(command, timeout_ms, client)

        node.metadata.submit = counted  # type: ignore[method-assign,assignment]
        names = [f"absent-{number}" for number in range(3 * ITEMS_PER_PART)]
        await node.ask(5, DeleteTopicsRequest(topic_names=names, timeout_ms=1_000))
        return sizes

    assert asyncio.run(scene()) == [ITEMS_PER_PART] * 3


def test_a_failed_part_does_not_fail_the_others() -> None:
    items = [(f"{number}", 1) for number in range(3 * ITEMS_PER_PART)]
    controller = Controller(refuses=f"{ITEMS_PER_PART}")

    results = controller.change(items)

    assert len(controller.parts) == 3
    assert results[ITEMS_PER_PART : 2 * ITEMS_PER_PART] == ["NOT_CONTROLLER"] * ITEMS_PER_PART
    assert results[:ITEMS_PER_PART] == [name for name, _ in items[:ITEMS_PER_PART]]
    assert results[-1] == items[-1][0]


@pytest.mark.parametrize(
    "items",
    [
        [("a", MAX_RECORDS_PER_COMMAND), ("b", 1)],
        [(f"{number}", 0) for number in range(MAX_RECORDS_PER_COMMAND + 1)],
    ],
    ids=["records", "items"],
)
def test_a_change_beyond_the_limit_is_rejected_before_any_part_is_sent(items: list[Item]) -> None:
    controller = Controller()

    assert set(controller.change(items)) == {"POLICY_VIOLATION"}
    assert controller.parts == []


def creation(names: Sequence[str]) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=10_000)


def test_many_topics_are_created_and_deleted_by_several_commands() -> None:
    names = [f"t{number}" for number in range(2 * ITEMS_PER_PART + 5)]

    async def scene() -> tuple[list[int], list[int], list[str]]:
        node = MetadataNode()
        await node.start()
        made = await node.ask(7, creation([*names, names[0]]))
        image = node.metadata.image
        deleted = await node.ask(
            6,
            DeleteTopicsRequest(
                topics=[
                    *(DeleteTopicState(name=name) for name in names[1:]),
                    # The id names a topic that is also in the request by name, so that topic is not deleted.
                    DeleteTopicState(name=None, topic_id=image.topics.by_name[names[1]].topic_id),
                ],
                timeout_ms=10_000,
            ),
        )
        return (
            [one.error_code for one in made.topics],
            [one.error_code for one in deleted.responses],
            sorted(node.metadata.image.topics.by_name),
        )

    made, deleted, left = asyncio.run(scene())

    assert made == [ErrorCode.INVALID_REQUEST, *[ErrorCode.NONE] * (len(names) - 1)]
    assert deleted.count(ErrorCode.NONE) == len(names) - 2
    assert left == [names[1]]
