"""The rules of STYLE.md that a machine can check; the lists of exceptions only shrink."""

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

# The uses of `Any` in a package, or in a folder of `node`: one more needs a decision, fewer are recorded.
ANY = {
    "groupcoord": 3,
    "logstore": 24,  # the notation of messages; libraries of codecs
    "metadata_raft": 25,  # records by their class; messages of pysyncobj
    "node": 2,
    "node/cli": 23,  # JSON; Typer
    "node/client": 29,  # JSON
    "node/coordinators": 22,  # replies and effects of any coordinator
    "node/doctor": 2,
    "node/embedded": 20,  # the loop's own signatures; arguments of clients of any library
    "node/kafka_api": 36,  # messages of any API
    "node/metrics": 2,
    "node/net": 9,
    "node/process": 1,
    "node/quota": 1,  # values that coroutines receive and yield
    "node/replica": 8,
    "node/rest_api": 94,  # JSON
    "node/settings": 6,  # arguments by their names
    "node/start": 3,
    "node/tools": 3,
    "node/wire": 16,  # messages of any API
    "node/work": 4,
    "pipeline": 72,  # YAML, databases, Spark
}
# Modules that catch any exception, and what happens to it.
ENDS_OF_ERRORS = {
    "metadata_raft/quorum_raft.py": "passed to the voter, which ends",
    "metadata_raft/raft_core.py": "ends the voter's thread",
    "metadata_raft/raft_thread.py": "passed to the node's thread",
    "node/broker.py": "raised after all is closed",
    "node/embedded/cluster.py": "passed to the caller's thread",
    "node/embedded/secured_access.py": "passed to the caller's thread",
    "node/kafka_api/sasl_gate.py": "a login fails",
    "node/security/jwks_fetcher.py": "a fetch fails",
    "node/node_facts.py": "raised in the caller",
    "node/rest_api/authentication.py": "raised in the waiting login, which fails",
    "node/rest_api/http_server.py": "a request ends",
    "node/rest_api/probe_server.py": "a thread ends, and the node keeps running",
    "node/rest_api/record_service.py": "a request ends",
    "node/rest_api/v2_instances.py": "a consumer ends",
    "node/rest_api/server_thread.py": "a thread ends, and the node keeps running",
    "node/work/fair_pool.py": "raised in the caller",
    "pipeline/jobs/runner.py": "an error in a user's function fails its own job",
}
REQUESTS_END_IN = "node/net/"
# Starts the tasks of a node and keeps references to them.
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
    # Classes of libraries that require a subclass.
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
# Spark pickles readers and writers and needs their classes, so these share code by base classes of ours.
SPARK = (
    "pipeline/spark/",
    "pipeline/connect/table_reader.py",
    "pipeline/jobs/query_events.py",
    "pipeline/streams/",
)
OURS = {"Versions"}  # a TypedDict that extends another


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


def test_the_uses_of_any_are_as_counted_here() -> None:
    counts: Counter[str] = Counter()
    for path, tree in sources().items():
        # The event loop defines what a coroutine receives and yields: `Coroutine[Any, Any, T]`.
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

    assert {folder: count for folder, count in counts.items() if count} == ANY


def test_only_listed_modules_catch_any_exception() -> None:
    ends = {
        path
        for path, node in found(ast.ExceptHandler)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    }

    assert {path for path in ends if not path.startswith(REQUESTS_END_IN)} == set(ENDS_OF_ERRORS)


def test_no_task_is_started_outside_of_a_group() -> None:
    bare = [
        where(path, node)
        for path, node in found(ast.Call)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func)
        in ("asyncio.create_task", "asyncio.ensure_future", "asyncio.gather", "loop.create_task")
        and path != HOLDS_TASKS
    ]

    assert bare == []


def test_only_exceptions_enums_protocols_and_required_library_classes_are_subclassed() -> None:
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
def test_randomness_is_injected_into_the_cores_and_nothing_is_pickled(core: str) -> None:
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


def test_no_module_is_a_collection_of_utilities() -> None:
    stems = {Path(path).stem for path in sources()} | {Path(path).parent.name for path in sources()}

    assert not stems & {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [stem for stem in stems if re.search(r"_part\d*$", stem)] == []


def test_only_settings_and_the_command_line_read_the_environment() -> None:
    readers = {
        path
        for path, node in found(ast.Attribute)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv")
    }

    assert {path for path in readers if path.startswith(("node/", *CORES))} == {
        "node/settings/config.py",
        "node/cli/profiles.py",  # `$XDG_CONFIG_HOME`, the folder of profiles
        "node/cli/record_worker.py",  # passes it to the command that it starts
        "node/cli/shell_completion.py",  # `$SHELL`, which is no setting
    }


# Modules that build a node from finished parts; they set no attribute of a part, except facts about the node.
MAKERS = ("node/broker.py", "node/start/", "node/process/")
FACTS = re.compile(r"(self\.)?(base\.)?state\.\w+")  # of `NodeState`, which the broker writes


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the targets of an assignment."""
    assigned: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        assigned = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        assigned = [node.target]
    while assigned:
        one = assigned.pop()
        if isinstance(one, ast.Tuple | ast.List):
            assigned += one.elts
        elif isinstance(one, ast.Starred):
            assigned.append(one.value)
        else:
            yield one


def set_from_outside(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that set an attribute of another object."""
    for node in ast.walk(tree):
        for target in targets(node):
            if isinstance(target, ast.Attribute):
                is_own = isinstance(target.value, ast.Name) and target.value.id == "self"
                if not is_own and not FACTS.fullmatch(ast.unparse(target)):
                    yield target
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "object.__setattr__"):
            yield node


def test_modules_that_build_a_node_set_no_attributes_of_its_parts() -> None:
    assert [
        f"{where(path, found)}: {ast.unparse(found)}"
        for path, tree in sources().items()
        if path.startswith(MAKERS)
        for found in set_from_outside(tree)
    ] == []


@pytest.mark.parametrize(
    "line",
    ["part.limits = 1", "a, part.key = 1, 2", "part.count += 1", "self.part.x = 1", "setattr(part, n, 1)"],
)
def test_attributes_set_from_outside_are_found(line: str) -> None:
    assert list(set_from_outside(ast.parse(line)))


def test_a_table_of_moves_is_compared_with_one_of_the_tests() -> None:
    tables = {
        (f"ottla.{path.removesuffix('.py').replace('/', '.')}", name)
        for path, tree in sources().items()
        for node in ast.walk(tree)
        for target in targets(node)
        if isinstance(target, ast.Name) and re.fullmatch(r"(?!MAX_)([A-Z]+_)*MOVES", name := target.id)
    }
    imported = {
        (node.module, alias.name)
        for path in (ROOT / "tests" / "unit").rglob("test_*.py")
        if "MOVES" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert len(tables) > 8 and tables - imported == set()


def test_few_files_are_at_the_top_of_node() -> None:
    assert len([path for path in sources() if re.fullmatch(r"node/\w+\.py", path)]) <= 10


def folders(place: str) -> set[str]:
    return {path.parent.name for path in (ROOT / place).glob("*/*.py")}


def test_the_tests_of_node_are_in_folders_of_the_same_names() -> None:
    # `embedded` needs sockets and threads; tests/integration/test_embedded.py and others test it.
    assert folders("tests/unit/node") == folders("node") - {"embedded"}


def test_the_tree_of_style_names_each_folder_of_node() -> None:
    tree = re.search(r"## 2\. The tree\n\n```\n(.*?)```", (ROOT / "STYLE.md").read_text(), re.S)

    assert tree is not None
    assert set(re.findall(r"^node/(\w+) ", tree[1], re.M)) == folders("node")


OF_NAMED_TUPLES = ("_replace", "_fields", "_asdict", "_make")


def private_names(path: Path) -> Iterator[str]:
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


def test_tests_of_node_use_no_private_names() -> None:
    assert [
        name for path in sorted((ROOT / "tests/unit/node").rglob("*.py")) for name in private_names(path)
    ] == []


# Tests of other kinds that use private names of the product, because nothing public shows what they check.
USE_PRIVATE_NAMES = {
    "tests/fuzz/rest_targets.py": "a connection without a socket",
    "tests/fuzz/state_targets.py": "each kind of message",
    "tests/property/test_connection_walk.py": "no request waits for memory at the end",
    "tests/property/test_controller_model.py": "the controller's view of absent brokers",
    "tests/property/test_dead_letters_promise.py": "mutants that leave out a step",
    "tests/property/test_offset_log_scan.py": "all offsets at once",
}


def test_random_tests_use_private_names_in_few_places() -> None:
    found = {
        str(path.relative_to(ROOT))
        for kind in ("fuzz", "property")
        for path in sorted((ROOT / "tests" / kind).rglob("*.py"))
        for _ in private_names(path)
    }

    assert found == set(USE_PRIVATE_NAMES)


@pytest.mark.parametrize("kind", ["unit/node", "fuzz", "property", "integration", "simulation"])
def test_tests_replace_parts_of_a_node_by_named_classes(kind: str) -> None:
    assert [
        path.name
        for path in sorted((ROOT / "tests" / kind).rglob("*.py"))
        if "SimpleNamespace(" in path.read_text()
    ] == []


# Tests that wait for a thread or a process which gives no signal when it is done.
POLLS = {
    "tests/unit/node/audit/test_audit_log.py",  # lines that a thread writes
    "tests/unit/node/cli/test_record_worker.py",  # processes that end
}


def test_unit_tests_do_not_sleep() -> None:
    assert {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests/unit").rglob("*.py")
        if re.search(r"\btime\.sleep\(", path.read_text())
    } == POLLS
