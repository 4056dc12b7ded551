"""Fixtures of the tests that connect client libraries to a secured node."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.compat.clients.secured_node import KafkaNode, OttlaNode, SecuredNode, prepare
from tests.compat.clients.secured_programs import CLIENTS, Program
from tests.compat.java.jars import reason_to_skip
from tests.integration.oauth_provider import serve_keys
from tests.thorough import THOROUGH


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=[THOROUGH, pytest.mark.java])])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    """Run a node for the module: failed logins are counted by address, and all clients have the same one.

    In a thorough run Apache Kafka runs the same tests, to show that the expectations are right.
    """
    home = tmp_path_factory.mktemp("node")
    if request.param == "kafka" and (reason := reason_to_skip()) is not None:
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
    """Give a function that returns the process of a library.

    It is started at its first use, and again if it may still be busy with an earlier command.
    """
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
