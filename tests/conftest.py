"""What all kinds of tests share: nodes as processes that do not outlive their test, and who runs which file.

With several processes each file is one process's own. Long files whose tests share nothing are shared out
(`BY_TEST`), and those files that share what is dear are one's together:
Spark's session costs many seconds and half a gigabyte, Apache Kafka and its tools a Java each, the console a
browser, the REST API a cluster. Such long pieces begin first (`FIRST`), then the tests that wait more than
they compute, beside those of the simulation, which never wait; the last are short files, which end at about
the same time.

What fails in a test of real processes is run once more, as Apache Kafka's own build does: two busy cores can
make anybody late. The summary names such tests, and more than `MAX_RERUNS` of them fail the run. What is
decided by seeds, bytes or a judge of histories gets no second chance.
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
    # They share no session with the other tests.
    "tests/pipeline/spark/applications/": "applications of Spark",
    "tests/pipeline/spark/": "Spark",
    "tests/compat/java/": "Apache Kafka",
    "tests/compat/differential/": "Apache Kafka",
    "tests/compat/clients/test_ottla": "Apache Kafka",
    "tests/console/": "console",
    "tests/integration/rest/": "REST",
}
# Files whose tests share nothing, or nothing beyond their function: these are shared out one by one. As one
# piece such a file takes minutes, and a run may wait for it when all others have ended.
BY_TEST = (
    "tests/integration/test_demo.py",
    "tests/integration/test_pages.py",
    "tests/simulation/",
)
BY_FUNCTION = ("tests/integration/test_attacks.py",)
FIRST = (
    *OF_ONE_PROCESS,
    # Minutes of attacks on the same nodes, which mostly wait.
    *BY_FUNCTION,
    "tests/compat/",
    # The simulation computes while tests of real processes wait: of each some at a time.
    "tests/chaos/",
    "tests/simulation/test_mutants.py",
    "tests/k8s/",
    "tests/simulation/test_simulation.py",
    "tests/pipeline/",
    "tests/simulation/test_stories.py",
    "tests/integration/",
    "tests/simulation/",
)
# Fixtures of the plugin, which is everybody's.
FOLDER_OF = {"ottla_cluster": "tests/pipeline"}
RUN_ONCE_MORE = tuple(f"tests/{kind}/" for kind in ("compat", "console", "integration", "pipeline"))
MAX_RERUNS = 5  # of some 2,000 tests with real processes

# Hundreds of nodes, commands and workers start in a run. Where the environment forbids to keep what was
# compiled, as in many a container, each compiles some 280 modules anew, which is half of its start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Under nohup a hangup is ignored, and so by all that is started. A handler is not passed on.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
# So is an interrupt in the background of a script, which commands are to end by.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Whether an example takes longer than 200 ms says how busy the machine is, not whether it is right.
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ottla", QUICK)
settings.register_profile("thorough", QUICK, max_examples=2_000)  # with --hypothesis-profile=thorough
settings.load_profile("ottla")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(thorough.OPTION, action="store_true", help="what is marked thorough, too")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Nobody is to think that all has run."""
    if not config.getoption(thorough.OPTION):
        terminalreporter.write_line(
            f"without the tests that are marked thorough: scripts/test {thorough.OPTION} runs them, too"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those of `FIRST` in its order, then all others in theirs."""
    thorough.deselect(config, items)
    items.sort(key=lambda item: rank(item.nodeid))
    for item in items:
        if item.nodeid.startswith(RUN_ONCE_MORE):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish() -> None:
    """What was imported and collected lives as long as this process: no collector walks through it again."""
    gc.freeze()


class SharedFixtures:
    """What the tests of a folder share ends when this process leaves the folder.

    A node that rests takes a hundredth of a core, a cluster, a browser or a Java more, and there would be
    dozens in the end. A plugin, as pytest tells of fixtures of a session to no conftest.py below its root.
    """

    def __init__(self) -> None:
        self._begun: list[tuple[str, Callable[[], None]]] = []  # of which folder, and how they end

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
        with ExitStack() as ends:  # what began last first, and all of them, should one fail to end
            for _, finish in left:
                ends.callback(finish)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SharedFixtures())


def rank(nodeid: str) -> int:
    """Which of `FIRST` a test is of."""
    return next((number for number, one in enumerate(FIRST) if nodeid.startswith(one)), len(FIRST))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    reruns = reporter.stats.get("rerun", []) if reporter is not None else []
    if len(reruns) > MAX_RERUNS and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"{len(reruns)} tests passed only when they were run once more.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """`--dist loadfile`, but with larger pieces (`OF_ONE_PROCESS`) and smaller ones (`BY_TEST`)."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class PiecesOfOneProcess(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return piece_of(nodeid) or super()._split_scope(nodeid)

    return PiecesOfOneProcess(config, log)


def piece_of(nodeid: str) -> str | None:
    """What a test is run with by one process; None: the tests of its file."""
    if nodeid.startswith(BY_TEST):
        return nodeid
    if nodeid.startswith(BY_FUNCTION):
        return nodeid.partition("[")[0]
    return next((to for folder, to in OF_ONE_PROCESS.items() if nodeid.startswith(folder)), None)


@pytest.fixture
def is_thorough(request: pytest.FixtureRequest) -> bool:
    """Whether there is time for more examples."""
    return bool(request.config.getoption(thorough.OPTION))


@pytest.fixture
def start_node() -> Iterator[StartNode]:
    """Starts nodes; whatever the test leaves running is killed."""
    started: list[Server] = []

    def start(data: Path, *overrides: str, port: int = 0) -> Server:
        started.append(start_ottla(data, *overrides, port=port))
        return started[-1]

    yield start
    for server in started:
        if server.is_running():
            server.kill()
