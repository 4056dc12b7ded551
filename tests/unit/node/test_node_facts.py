"""Calls from the thread of the REST API to the node's loop: they return, fail, or time out."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.node_facts import NodeFacts


class NodeThread:
    """An event loop in a thread, as a node has one."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
        self.loop.close()


@pytest.fixture
def node() -> Iterator[NodeThread]:
    thread = NodeThread()
    yield thread
    thread.stop()


class FakeNode:
    """A node with a single fact."""

    answer = 42


def facts_of(node: NodeThread) -> NodeFacts:
    return NodeFacts(cast(Any, FakeNode()), node.loop)


def test_a_call_runs_on_the_loop_of_the_node(node: NodeThread) -> None:
    async def ask() -> tuple[int, int]:
        return await facts_of(node).ask(lambda broker: (cast(Any, broker).answer, threading.get_ident()))

    assert asyncio.run(ask()) == (42, node.thread.ident)


def test_an_error_of_a_call_is_raised_in_the_caller(node: NodeThread) -> None:
    def fail(_: object) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "not here")

    with pytest.raises(KafkaError, match="not here"):
        asyncio.run(facts_of(node).ask(fail))


def test_a_call_to_a_stuck_loop_times_out(node: NodeThread) -> None:
    may_proceed = threading.Event()
    node.loop.call_soon_threadsafe(may_proceed.wait)
    try:
        with pytest.raises(KafkaError) as given_up:
            asyncio.run(facts_of(node).ask(lambda broker: 1, timeout_s=0.02))
    finally:
        may_proceed.set()

    assert given_up.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_a_call_to_a_node_that_has_ended_fails_at_once(node: NodeThread) -> None:
    node.stop()

    with pytest.raises(KafkaError, match="has ended"):
        asyncio.run(facts_of(node).ask(lambda broker: 1))
