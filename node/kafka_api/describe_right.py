"""Checks a member's right to describe the topics it subscribes to, before its heartbeat is decided."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.work.turns import Steps, at_once, take_turns

R = TypeVar("R")


def after_topic_checks(
    context: RequestContext, topics: Sequence[str] | None, answer: Callable[[], Result[R]]
) -> Result[R]:
    """Return `answer()` if the client may describe each of the topics; raise KafkaError if it may not.

    A large request takes turns with the loop.
    """
    access = context.access
    if access.is_open or not topics:
        return answer()
    checks = _check_each(access, topics)
    if context.is_large:
        return _answer_in_turns(checks, answer)
    at_once(checks)
    return answer()


def _check_each(access: Access, topics: Sequence[str]) -> Steps[None]:
    for topic in topics:
        access.check(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
        yield


async def _answer_in_turns(checks: Steps[None], answer: Callable[[], Result[R]]) -> Result[R]:
    await take_turns(checks)
    return answer()
