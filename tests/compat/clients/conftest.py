"""Fixtures of the tests with client libraries at a secured node."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.compat.clients.secured_node import KafkaNode, OttlaNode, SecuredNode, prepare
from tests.compat.clients.secured_programs import CLIENTS, Program
from tests.compat.java.jars import why_not
from tests.integration.oauth_provider import serve_keys
from tests.thorough import THOROUGH


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=[THOROUGH, pytest.mark.java])])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    """Give a node of the module's own: failed logins are counted by address, and all clients have one.

    What is expected of a node Kafka shows in a thorough run.
    """
    home = tmp_path_factory.mktemp("node")
    if request.param == "kafka" and (reason := why_not()) is not None:
        pytest.skip(reason)
    with ExitStack() as ends:
        node: SecuredNode
        if request.param == "kafka":
            node = KafkaNode(home)
        else:
            node = OttlaNode(home, *ends.enter_context(serve_keys(tmp_path_factory.mktemp("provider"))))
        ends.callback(node.stop)
        prepare(node)
        yield node


@pytest.fixture(scope="module")
def programs() -> Iterator[Callable[[str], Program]]:
    """Give the process of a library, started when it is first asked for, and anew when it is behind."""
    started: dict[str, Program] = {}

    def program(name: str) -> Program:
        if name in started and started[name].is_behind:
            started.pop(name).close()
        if name not in started:
            started[name] = Program(name)
        return started[name]

    yield program
    for one in started.values():
        one.close()


@pytest.fixture(
    params=[pytest.param(one, marks=pytest.mark.java if one == "java" else ()) for one in CLIENTS]
)
def library(request: pytest.FixtureRequest, programs: Callable[[str], Program]) -> Program:
    """Give the process of each library in turn."""
    return programs(request.param)
