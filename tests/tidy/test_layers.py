"""Checks the layers of ARCHITECTURE.md: imports point down, and modules follow the map of their package."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "logstore": set(),
    "metadata_raft": {"logstore"},
    "groupcoord": {"logstore"},
    "node": {"logstore", "metadata_raft", "groupcoord"},
    "pipeline": {"logstore", "node"},
    "src/ottla": {"node", "pipeline"},
    "src/pyspark_ottla": {"pipeline"},
}
# The folders of packages, which are imported as `ottla.<folder>`.
FOLDERS = frozenset(package for package in MAY_IMPORT if "/" not in package)
# The pipeline is a client of any Kafka: it may use the protocol, and nothing of the server.
PIPELINE_MAY_HAVE = (
    "logstore.compression",
    "logstore.record",
    "logstore.record_batch",
    "logstore.record_walk",
    "logstore.words",
    "node.secure_client",
    "node.settings.properties_file",  # only the notation of settings files
    "node.wire",
)
# The modules that may use files, sockets, clocks, threads and the process.
DOORS = {
    "logstore/dirty_pages.py",
    "logstore/disk.py",
    "logstore/file_identity.py",
    "logstore/file_space.py",
    "logstore/page_cache.py",
    "logstore/volume.py",
    "metadata_raft/quorum_raft.py",
    "metadata_raft/raft_core.py",
    "metadata_raft/raft_link.py",
    "metadata_raft/raft_member.py",
    "metadata_raft/raft_node.py",
    "metadata_raft/raft_snapshots.py",
    "metadata_raft/raft_check.py",
    "metadata_raft/raft_thread.py",
    "metadata_raft/raft_wire.py",
    "node/clock.py",
    "node/handing_over.py",  # names tasks of the event loop
    "node/memory/memory_limit.py",
    "node/settings/config.py",
    "node/broker.py",
    "node/node_state.py",  # the clock of the loop
    "node/embedded/cluster.py",
    "node/embedded/network.py",
    "node/embedded/secured_access.py",  # a thread for requests of the administrator
    "node/node_facts.py",
    "node/audit/audit_file.py",
    "node/audit/audit_log.py",  # its thread
    "node/kafka_api/dispatch.py",
    "node/kafka_api/audited_changes.py",  # looks later whether the client is still there
    "node/kafka_api/sasl_gate.py",  # the timers of logins
    "src/ottla/__main__.py",
    "node/replica/follower_fetcher.py",
    "node/replica/isr_updates.py",
    "node/replica/replica_manager.py",
    "node/replica/replication.py",
    "node/share/initial_offset.py",  # waits until a new leader knows its log end offset
    "node/share/dead_letter_queue.py",
    "node/share/letter_order.py",
    "node/share/letter_lines.py",  # waits for its turns
    "node/share/delayed_share_fetches.py",
    "node/share/share_partition_manager.py",
    "node/share/share_views.py",  # sends requests to other nodes
    "node/metrics/collector.py",
    "node/metrics/exposition.py",
    "node/metrics/loop_watch.py",
    "node/metrics/pace.py",
    "node/doctor/ask_cluster.py",
    "node/doctor/diagnosis.py",
    "node/doctor/look_at_disk.py",
    "node/doctor/try_endpoint.py",
    "node/rest_api/client_pool.py",
    "node/rest_api/connections.py",  # deadlines
    "node/rest_api/findings.py",  # one search at a time
    "node/rest_api/fair_slots.py",  # waits for turns
    "node/rest_api/standing_logins.py",  # checks logins periodically
    "node/rest_api/loop_turns.py",  # schedules turns of the loop
    "node/rest_api/http_answer.py",  # deadlines
    "node/rest_api/http_request.py",  # deadlines
    "node/rest_api/http_server.py",
    "node/rest_api/read_records.py",  # pages have a deadline, live tails a heartbeat
    "node/rest_api/own_names.py",  # resolves names in a thread
    "node/rest_api/own_process.py",  # the clocks
    "node/rest_api/record_stream.py",  # reads and writes at the same time
    "node/rest_api/route.py",  # the event that ends long responses
    "node/rest_api/server_thread.py",
    "node/rest_api/tls_door.py",
    "node/rest_api/authentication.py",
    "node/rest_api/record_service.py",
    "node/rest_api/v2_instances.py",  # keeps memberships
    "node/rest_api/users.py",  # hashes passwords in a thread
    "node/rest_api/probe_server.py",
    "pipeline/client/connection.py",
    "pipeline/client/dialling.py",
    "pipeline/client/connections.py",
    "pipeline/client/clock.py",
    "pipeline/client/retries.py",
    "pipeline/lake/directory.py",
    "pipeline/mirror/mirror_rounds.py",  # a thread that works while no row arrives
    "pipeline/jobs/runner.py",  # waits for events in threads
    "pipeline/jobs/status_files.py",  # writes temporary files and renames them
    "pipeline/jobs/stop_signals.py",
}
DOOR_FOLDERS = (
    "node/net/",
    "node/work/",
    "node/security/",
    "node/tls/",
    "node/secure_client/",
    "node/secure_setup/",
    "node/log_care/",
    "node/metadata/",
    "node/coordinators/",
    "node/start/",
    "node/process/",
    "node/tools/",
    "node/cli/",
    "node/client/",
    "pipeline/spark/",
)
OF_THE_WORLD = {
    "asyncio",
    "socket",
    "time",
    "threading",
    "subprocess",
    "select",
    "uvloop",
    "signal",
    "random",
    "shutil",
    "tempfile",
}


# Packages with a map; a package within one is a line of that map, and has a map of its own.
PIPELINE_FOLDERS = tuple(
    sorted(str(path.parent.relative_to(ROOT)) for path in (ROOT / "pipeline").glob("*/__init__.py"))
)
# It has one module for each API, which form one level of its map: see `places_in_kafka_api`.
APIS = "node/kafka_api"
# It has one module for the messages of each API; none imports another, except for shared parts.
WITHOUT_MAP = ("node/wire/messages",)
NODE_FOLDERS = tuple(
    sorted(
        folder
        for path in (ROOT / "node").rglob("*/__init__.py")
        if (folder := str(path.parent.relative_to(ROOT))) not in (APIS, *WITHOUT_MAP)
    )
)
# Packages whose maps group their modules in layers with headings.
LAYERED_FOLDERS = tuple(
    sorted(
        folder
        for path in (ROOT / "groupcoord").glob("*/__init__.py")
        if (folder := str(path.parent.relative_to(ROOT))) != "groupcoord/transactions"
    )
)
LAYERS = ("Words", "State", "Decisions")
MAPS = (
    "logstore",
    "logstore/words",
    "metadata_raft",
    "groupcoord",
    *LAYERED_FOLDERS,
    "groupcoord/transactions",
    "node",
    *NODE_FOLDERS,
    "pipeline",
    *PIPELINE_FOLDERS,
)
# The modules that an inner package may import from the package around it.
MAY_SHARE = {"groupcoord/transactions": {"coordinator_effects", "log_scan", "request_token", "topic_regex"}}


def modules(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found, f"{package} has no modules"
    return found


def names_in(folder: str) -> dict[str, Path]:
    """Return the modules and packages directly in a folder, by name."""
    found = {path.stem: path for path in (ROOT / folder).glob("*.py") if path.stem != "__init__"}
    return found | {path.parent.name: path.parent for path in (ROOT / folder).glob("*/__init__.py")}


@cache
def imported(path: Path) -> frozenset[str]:
    """Return what a module imports, named below `ottla`: `node.broker` for `ottla.node.broker`."""
    names: set[str] = set()
    for entry in ast.walk(ast.parse(path.read_text())):
        if isinstance(entry, ast.Import):
            names |= {alias.name for alias in entry.names}
        elif isinstance(entry, ast.ImportFrom):
            assert entry.level == 0, f"{path}: imports are absolute"
            names |= {f"{entry.module}.{alias.name}" for alias in entry.names} | {entry.module or ""}
    bare = {name for name in names if name.split(".")[0] in FOLDERS}
    assert not bare, f"{path} imports {sorted(bare)}, which an installed Ottla does not have"
    return frozenset(name.removeprefix("ottla.") for name in names)


def map_of(package: str) -> list[str]:
    """Return the module names, dotted below the package, in the order of the map in its docstring."""
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    return re.findall(r"^([a-z0-9_.]+)(?:  +\S|$)", text, flags=re.M)


def layers_of(package: str) -> list[tuple[str, str]]:
    """Return the lines of a map with layers, as (layer, module or folder)."""
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    layer = ""
    lines = []
    for heading, name in re.findall(
        rf"^(?:({'|'.join(LAYERS)}):|([a-z0-9_.]+)(?:  +\S.*)?)$", text, flags=re.M
    ):
        layer = heading or layer
        lines += [(layer, name)] if name else []
    return lines


def places_in_groupcoord() -> dict[str, tuple[int, str]]:
    """Return the line of each layered module in the map of `groupcoord`, with the module's folder."""
    lines = layers_of("groupcoord")
    places = {f"groupcoord.{name}": (lines.index((layer, name)), "") for layer, name in lines}
    for folder in LAYERED_FOLDERS:
        name = folder.split("/")[1]
        for layer, module in layers_of(folder):
            places[f"groupcoord.{name}.{module}"] = (lines.index((layer, name)), name)
    return places


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_point_down_only(package: str) -> None:
    for path in modules(package):
        for name in imported(path):
            top = name.split(".")[0]

            assert top not in FOLDERS or top == package or top in MAY_IMPORT[package], (
                f"{path} imports {name}"
            )


@pytest.mark.parametrize("folder", MAPS)
def test_a_module_imports_only_from_lines_above_its_own(folder: str) -> None:
    order = map_of(folder)
    package = folder.replace("/", ".") + "."
    for module, path in names_in(folder).items():
        if path.is_dir():
            continue
        assert module in order, f"{path} has no line in the map of {folder}/__init__.py"
        for name in imported(path):
            other = name.removeprefix(package).split(".")[0]
            if name.startswith(package) and other in order:
                assert order.index(other) < order.index(module), (
                    f"{module} imports {other}, which is below it"
                )


@pytest.mark.parametrize("folder", sorted(MAY_SHARE))
def test_a_package_within_a_package_imports_only_the_allowed_modules_around_it(folder: str) -> None:
    package, _, inner = folder.partition("/")
    for path in modules(folder):
        shared = {name.split(".")[1] for name in imported(path) if name.startswith(package + ".")}

        assert shared - {inner} <= MAY_SHARE[folder], path


def test_the_layers_of_groupcoord_point_down_only() -> None:
    places = places_in_groupcoord()
    for path in modules("groupcoord"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.stem == "__init__" or module.startswith("groupcoord.transactions."):
            continue
        line, folder = places[module]
        for name in imported(path) & places.keys():
            other_line, other_folder = places[name]
            is_neighbour = line == other_line and folder == other_folder
            # An import of a module of a folder also names the folder.
            is_folder = (ROOT / name.replace(".", "/")).is_dir()

            assert other_line < line or is_neighbour or is_folder, (
                f"{module} imports {name}, from a line below"
            )


@pytest.mark.parametrize("folder", LAYERED_FOLDERS)
def test_a_folder_of_groupcoord_is_in_each_of_its_layers(folder: str) -> None:
    name = folder.split("/")[1]

    assert {layer for layer, _ in layers_of(folder)} == {
        layer for layer, line in layers_of("groupcoord") if line == name
    }


def places_in_kafka_api() -> dict[str, int]:
    """Return the level of each module of `node/kafka_api`: words, then all APIs as one, then dispatch."""
    text = ast.get_docstring(ast.parse((ROOT / APIS / "__init__.py").read_text())) or ""
    words, _, dispatch = (
        re.findall(r"^([a-z_]+)  +\S", part, re.M) for part in re.split(r"\n\n[A-Z]", text)[1:]
    )
    apis = {path.stem for path in modules(APIS) if re.search(r"^API\b.*=", path.read_text(), re.M)}
    return {
        **{name: number for number, name in enumerate(words)},
        **dict.fromkeys(apis, len(words)),
        **{name: number for number, name in enumerate(dispatch, len(words) + 1)},
    }


def test_the_layers_of_kafka_api_point_down_only() -> None:
    places = places_in_kafka_api()
    apis = max(Counter(places.values()).items(), key=lambda one: one[1])[0]

    assert places.keys() == names_in(APIS).keys()
    for module, path in names_in(APIS).items():
        for name in imported(path):
            other = name.removeprefix("node.kafka_api.")
            if other in places and name != other:
                are_apis = places[other] == places[module] == apis  # may import each other, not in a cycle
                assert places[other] < places[module] or are_apis, f"{module} imports {other}"


@pytest.mark.parametrize("folder", (*NODE_FOLDERS, APIS, *WITHOUT_MAP, *PIPELINE_FOLDERS))
def test_a_folder_imports_only_from_lines_above_its_own(folder: str) -> None:
    around, _, own = folder.rpartition("/")
    order, package = map_of(around), around.replace("/", ".")
    for path in modules(folder):
        for name in imported(path):
            other = name.removeprefix(package + ".").split(".")[0]
            if name.startswith(package + ".") and other != own:
                assert order.index(other) < order.index(own), f"{path} imports {name}, which is below it"


def test_words_do_not_import_the_log() -> None:
    for path in modules("logstore/words"):
        ours = {name for name in imported(path) if name.split(".")[0] in FOLDERS}

        assert all(f"{name}.".startswith("logstore.words.") for name in ours), f"{path}: {sorted(ours)}"


def test_the_pipeline_imports_only_the_protocol() -> None:
    for path in modules("pipeline"):
        for name in imported(path):
            if name.split(".")[0] in {"logstore", "node"}:
                # `from logstore import schema` names the package, too.
                may_have = any(name == one or name.startswith(one + ".") for one in PIPELINE_MAY_HAVE)
                assert may_have or name in {"logstore", "node"}, f"{path} imports {name}"


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_only_doors_touch_the_world(package: str) -> None:
    for path in modules(package):
        name = str(path.relative_to(ROOT))
        if name in DOORS or name.startswith(DOOR_FOLDERS):
            continue

        touched = {top.split(".")[0] for top in imported(path)} & OF_THE_WORLD
        assert not touched, f"{name} imports {sorted(touched)} but is not a door"


@pytest.mark.parametrize("folder", MAPS)
def test_every_map_line_is_a_module(folder: str) -> None:
    assert set(map_of(folder)) == names_in(folder).keys()
