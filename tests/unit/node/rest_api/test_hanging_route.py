"""GET /v1/transactions/hanging has the default of `ottla txn find-hanging`."""

import asyncio
import inspect
from typing import Any

import pytest

from ottla.node.cli.txn_app import txn_find_hanging
from ottla.node.client import txn_control
from ottla.node.client.moments import parse_duration
from ottla.node.clock import ManualClock
from ottla.node.rest_api.transactions import list_hanging
from tests.unit.node.fakes import services_of

DEFAULT_MS = parse_duration(inspect.signature(txn_find_hanging).parameters["longer_than"].default)


class Facts:
    """The facts of a node that has only a clock."""

    services = services_of(clock=ManualClock())


class Context:
    """The context of a request, with a cluster that is not asked."""

    client = None
    facts = Facts()


class Request:
    """A request with these parameters."""

    def __init__(self, query: dict[str, int]) -> None:
        self.query = query


@pytest.mark.parametrize(("query", "expected_ms"), [({}, DEFAULT_MS), ({"longer_than_ms": 0}, 0)])
def test_transactions_hang_after_the_default_of_the_command_or_the_time_given(
    monkeypatch: pytest.MonkeyPatch, query: dict[str, int], expected_ms: int
) -> None:
    searched_ms: list[int] = []

    async def find(*_: object, longer_than_ms: int, **__: object) -> txn_control.Search:
        searched_ms.append(longer_than_ms)
        return txn_control.Search([], [])

    monkeypatch.setattr(txn_control, "find_hanging", find)
    context: Any = Context()
    request: Any = Request(query)

    body = asyncio.run(list_hanging(context, request)).body

    assert (searched_ms, body) == ([expected_ms], {"hanging": [], "leaderless": []})
