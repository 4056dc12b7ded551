"""Fixtures and hooks of all kinds of tests: nodes that end with their test, and the distribution of files.

With several worker processes, each file runs in one process. Long files whose tests share nothing are split
(`BY_TEST`), and files that share an expensive fixture run in one process together: Spark's session costs many
seconds and half a gigabyte, Apache Kafka and each of its tools a JVM, the console a browser, the REST API a
cluster. Such long pieces start first (`FIRST`), then tests that wait more than they compute, beside those of
the simulation, which never wait. Short files are last, so that all processes end at about the same time.

A failed test of real processes is run once more, as in Apache Kafka's own build, because two busy cores can
delay any process. The summary names such tests, and more than `MAX_RERUNS` of them fail the run. Tests that
depend on seeds, on bytes or on the check of a history are not repeated.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import thorough
from tests.compat.servers import Server, StartNode, start_ottla

OF_ONE_PROCESS = {
    # These share no Spark session with the other tests.
    "tests/pipeline/spark/applications/": "applications of Spark",
    "tests/pipeline/spark/": "Spark",
    "tests/compat/java/": "Apache Kafka",
    "tests/compat/differential/": "Apache Kafka",
    "tests/compat/clients/test_ottla": "Apache Kafka",
    "tests/console/": "console",
    "tests/integration/rest/": "REST",
}
# Files whose tests share nothing, or nothing outside of their function: each test is a piece of its own. As
# one piece such a file takes minutes, and a run may have to wait for it at its end.
BY_TEST = (
    "tests/integration/test_demo.py",
    "tests/integration/test_pages.py",
    "tests/simulation/",
)
BY_FUNCTION = ("tests/integration/test_attacks.py",)
FIRST = (
    *OF_ONE_PROCESS,
    # Minutes of attacks on shared nodes, mostly waiting.
    *BY_FUNCTION,
    "tests/compat/",
    # The simulation computes while tests of real processes wait, so parts of both alternate.
    "tests/chaos/",
    "tests/simulation/test_mutants.py",
    "tests/k8s/",
    "tests/simulation/test_simulation.py",
    "tests/pipeline/",
    "tests/simulation/test_scenarios.py",
    "tests/integration/",
    "tests/simulation/",
)
# The folders of fixtures that a plugin defines: pytest knows no folder of these.
FOLDER_OF = {"ottla_cluster": "tests/pipeline"}
RUN_ONCE_MORE = tuple(f"tests/{kind}/" for kind in ("compat", "console", "integration", "pipeline"))
MAX_RERUNS = 5  # of some 2,000 tests with real processes

# Hundreds of nodes, commands and workers start in a run. If the environment forbids writing bytecode, as in
# many containers, each compiles some 280 modules again, which is half of its start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Under nohup SIGHUP is ignored, and child processes inherit that. They do not inherit a handler.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
# SIGINT is ignored likewise in the background of a script, but tests end commands by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example that takes longer than 200 ms shows a busy machine, not an error.
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ottla", QUICK)
settings.register_profile("thorough", QUICK, max_examples=2_000)  # with --hypothesis-profile=thorough
settings.load_profile("ottla")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(thorough.OPTION, action="store_true", help="also run the tests that are marked thorough")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say that a run without --thorough has left tests out."""
    if not config.getoption(thorough.OPTION):
        terminalreporter.write_line(
            f"without the tests that are marked thorough; scripts/test {thorough.OPTION} runs them too"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort tests by `FIRST`; the others follow in their own order."""
    thorough.deselect(config, items)
    items.sort(key=lambda item: rank(item.nodeid))
    for item in items:
        if item.nodeid.startswith(RUN_ONCE_MORE):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish() -> None:
    """Exclude imported and collected objects from garbage collection; they exist until the process ends."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exclude the objects that earlier files left, too.

    A collection of all of them takes tenths of a CPU second, which a test that measures CPU time would count.
    """
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


class SharedFixtures:
    """Ends the session fixtures of a folder when this process leaves the folder.

    An idle node takes a hundredth of a core, a cluster, a browser or a JVM more, and there would be dozens at
    the end. This is a plugin, because pytest passes session fixtures to no conftest.py below its root.
    """

    def __init__(self) -> None:
        self._begun: list[tuple[str, Callable[[], None]]] = []  # the folder and the finalizer of each

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> None:
        if fixturedef.scope == "session":
            folder = fixturedef.baseid or FOLDER_OF.get(fixturedef.argname, "")
            self._begun.append((f"{folder}/", lambda: fixturedef.finish(request)))  # type: ignore[arg-type]

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None or nextitem.path.parent == item.path.parent:
            return
        left = [
            one
            for one in self._begun
            if item.nodeid.startswith(one[0]) and not nextitem.nodeid.startswith(one[0])
        ]
        self._begun = [one for one in self._begun if one not in left]
        with ExitStack() as ends:  # in reverse order, and all of them even if one fails
            for _, finish in left:
                ends.callback(finish)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SharedFixtures())


def rank(nodeid: str) -> int:
    """Return the index of a test in `FIRST`, or its length for other tests."""
    return next((number for number, one in enumerate(FIRST) if nodeid.startswith(one)), len(FIRST))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    reruns = reporter.stats.get("rerun", []) if reporter is not None else []
    if len(reruns) > MAX_RERUNS and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"{len(reruns)} tests passed only in their second run.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Return a scheduler as of `--dist loadfile`, but with the pieces of `piece_of`."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class PiecesOfOneProcess(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return piece_of(nodeid) or super()._split_scope(nodeid)

    return PiecesOfOneProcess(config, log)


def piece_of(nodeid: str) -> str | None:
    """Return the name of the piece that a test belongs to; None for that of its file."""
    if nodeid.startswith(BY_TEST):
        return nodeid
    if nodeid.startswith(BY_FUNCTION):
        return nodeid.partition("[")[0]
    return next((to for folder, to in OF_ONE_PROCESS.items() if nodeid.startswith(folder)), None)


@pytest.fixture
def is_thorough(request: pytest.FixtureRequest) -> bool:
    """Return True in a thorough run, which has time for more examples."""
    return bool(request.config.getoption(thorough.OPTION))


@pytest.fixture
def start_node() -> Iterator[StartNode]:
    """Yield a function that starts nodes; kill those that still run after the test."""
    started: list[Server] = []

    def start(data: Path, *overrides: str, port: int = 0) -> Server:
        started.append(start_ottla(data, *overrides, port=port))
        return started[-1]

    yield start
    for server in started:
        if server.is_running():
            server.kill()
