"""The rules of STYLE.md that a machine can hold; the lists of exceptions only shrink."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("logstore", "metadata_raft", "groupcoord", "node", "pipeline")
CORES = ("logstore", "metadata_raft", "groupcoord")

# How often `Any` stands in a package, or in a folder of `node`: never more than here.
ANY = {
    "groupcoord": 5,
    "logstore": 24,  # the notation of messages; libraries of codecs
    "metadata_raft": 25,  # records by their class; messages of pysyncobj
    "node": 2,
    "node/cli": 22,  # JSON; Typer
    "node/client": 29,  # JSON
    "node/coordinators": 22,  # answers and effects of any coordinator
    "node/doctor": 2,
    "node/embedded": 21,  # the loop's own signatures; arguments of clients of any library
    "node/kafka_api": 38,  # messages of any API
    "node/metrics": 2,
    "node/net": 11,
    "node/process": 1,
    "node/quota": 1,  # what coroutines are sent and yield
    "node/replica": 8,
    "node/rest_api": 96,  # JSON
    "node/settings": 8,  # arguments by their names
    "node/start": 3,
    "node/tools": 3,
    "node/wire": 16,  # messages of any API
    "node/work": 4,
    "pipeline": 72,  # YAML, databases, Spark
}
# Where an error ends that nobody foresaw, and why it may.
ENDS_OF_ERRORS = {
    "metadata_raft/quorum_raft.py": "told to the voter, which ends",
    "metadata_raft/raft_core.py": "ends the voter's thread",
    "metadata_raft/raft_thread.py": "told to the node, in whose thread this is not",
    "node/broker.py": "raised when all is closed",
    "node/embedded/cluster.py": "told to the caller, in whose thread this is not",
    "node/embedded/secured_access.py": "told to the caller, in whose thread this is not",
    "node/kafka_api/sasl_gate.py": "a login fails",
    "node/security/jwks_fetcher.py": "a fetch fails",
    "node/node_facts.py": "raised where the question was asked",
    "node/rest_api/authentication.py": "raised where it is waited for, by which a login fails",
    "node/rest_api/http_server.py": "a request ends",
    "node/rest_api/probe_server.py": "a thread ends, and the node goes on",
    "node/rest_api/record_service.py": "a request ends",
    "node/rest_api/server_thread.py": "a thread ends, and the node goes on",
    "node/work/fair_pool.py": "raised where the work was given",
    "pipeline/jobs/runner.py": "a user's function fails its own job",
}
REQUESTS_END_IN = "node/net/"
# Starts and holds the tasks of a node.
HOLDS_TASKS = "node/start/node_tasks.py"
BASES = {
    "Exception",
    "ValueError",
    "OSError",
    "KafkaError",
    "Enum",
    "IntEnum",
    "StrEnum",
    "IntFlag",
    "Protocol",
    "NamedTuple",
    "TypedDict",
    "Generic",
    # Of libraries, which demand a subclass.
    "asyncio.BufferedProtocol",
    "SSLProtocol",
    "asyncio.Protocol",
    "asyncio.SelectorEventLoop",
    "uvloop.Loop",
    "RequestHandler",
    "BaseHTTPRequestHandler",
    "HTTPServer",
    "TyperGroup",
    "logging.Formatter",
    "logging.StreamHandler",
    "ctypes.Structure",
    "SyncObj",
    "Transport",
    "yaml.SafeLoader",
}
# Readers and writers of Spark: it pickles them and asks for their classes, so they share by bases of ours.
SPARK = (
    "pipeline/spark/",
    "pipeline/connect/table_reader.py",
    "pipeline/jobs/query_events.py",
    "pipeline/streams/",
)
OURS = {"Versions"}  # a TypedDict that has another one's keys


@cache
def sources() -> dict[str, ast.Module]:
    """Return every module of the product by its path."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def found(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, kind):
                yield path, node


def where(path: str, node: ast.AST) -> str:
    return f"{path}:{getattr(node, 'lineno', 0)}"


def folder_of(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "node" and len(parts) > 2 else parts[0]


def test_any_stands_no_more_often_than_it_did() -> None:
    counts: Counter[str] = Counter()
    for path, tree in sources().items():
        # What a coroutine is sent and yields is the loop's affair: `Coroutine[Any, Any, T]`.
        of_coroutines = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Coroutine"
            for part in getattr(node.slice, "elts", [])[:2]
        }
        counts[folder_of(path)] += sum(
            isinstance(node, ast.Name) and node.id == "Any" and id(node) not in of_coroutines
            for node in ast.walk(tree)
        )

    assert {folder: count for folder, count in counts.items() if count > ANY.get(folder, 0)} == {}


def test_an_error_that_nobody_foresaw_ends_where_a_request_a_thread_or_a_command_does() -> None:
    ends = {
        path
        for path, node in found(ast.ExceptHandler)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    }

    assert {path for path in ends if not path.startswith(REQUESTS_END_IN)} == set(ENDS_OF_ERRORS)


def test_no_task_is_begun_outside_of_a_group() -> None:
    bare = [
        where(path, node)
        for path, node in found(ast.Call)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func)
        in ("asyncio.create_task", "asyncio.ensure_future", "asyncio.gather", "loop.create_task")
        and path != HOLDS_TASKS
    ]

    assert bare == []


def test_only_exceptions_enums_protocols_and_what_libraries_demand_are_subclassed() -> None:
    wrong = []
    for path, node in found(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
        if path.startswith(SPARK):
            continue
        if bases - BASES - OURS:
            wrong.append(f"{where(path, node)}: {node.name}({', '.join(sorted(bases - BASES))})")

    assert wrong == []


def test_no_class_is_abstract() -> None:
    assert [
        where(path, node)
        for path, node in found(ast.ImportFrom)
        if isinstance(node, ast.ImportFrom) and node.module == "abc"
    ] == []


@pytest.mark.parametrize("core", CORES)
def test_chance_is_handed_to_the_cores_and_nothing_is_pickled(core: str) -> None:
    nodes = [node for path, tree in sources().items() if path.startswith(core) for node in ast.walk(tree)]
    imported = {
        name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (getattr(node, "module", None), *(alias.name for alias in node.names))
    }
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}

    assert not imported & {"pickle", "marshal", "secrets"}
    assert {name for name in called if name.startswith("random.")} <= {"random.Random"}


def test_no_module_is_a_place_for_whatever_has_none() -> None:
    stems = {Path(path).stem for path in sources()} | {Path(path).parent.name for path in sources()}

    assert not stems & {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [stem for stem in stems if re.search(r"_part\d*$", stem)] == []


def test_settings_and_the_command_line_alone_read_the_environment() -> None:
    readers = {
        path
        for path, node in found(ast.Attribute)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv")
    }

    assert {path for path in readers if path.startswith(("node/", *CORES))} == {
        "node/settings/config.py",
        "node/cli/record_worker.py",
        "node/cli/serve.py",
        "node/cli/shell_completion.py",
    }


OF_NAMED_TUPLES = ("_replace", "_fields", "_asdict", "_make")


def looks(path: Path) -> Iterator[str]:
    """Yield the private names of other objects that a test uses, imports or patches."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            names = [] if is_own else [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and re.search(r"[sg]etattr$", ast.unparse(node.func)):
            texts = [one.value for one in node.args[:2] if isinstance(one, ast.Constant)]
            names = [text.rpartition(".")[2] for text in texts if isinstance(text, str)]
        for name in names:
            if re.fullmatch(r"_[A-Za-z]\w*", name) and name not in OF_NAMED_TUPLES:
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {name}"


def test_tests_of_node_use_what_its_parts_show() -> None:
    assert [look for path in sorted((ROOT / "tests/unit/node").rglob("*.py")) for look in looks(path)] == []


def test_tests_of_node_imitate_its_parts_by_classes_with_names() -> None:
    assert [
        path.name
        for path in sorted((ROOT / "tests/unit/node").rglob("*.py"))
        if "SimpleNamespace(" in path.read_text()
    ] == []
