"""No module of the product or of `scripts` imports itself through others, not even for types.

A module may import another under TYPE_CHECKING only if it loads that one late, at its first use. These are
listed here.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("logstore", "metadata_raft", "groupcoord", "node", "pipeline")
# Modules that load others late in order to start sooner, and those others.
LOADED_LATE: dict[str, set[str]] = {
    "ottla.node.cli.acl_app": {"ottla.node.cli.acl_words"},
    "ottla.node.cli.app": {"ottla.node.cli.record_commands", "ottla.node.client.cluster_client"},
    "ottla.node.cli.command_options": {
        "ottla.node.cli.command_config",
        "ottla.node.client.cluster_client",
    },
    "ottla.node.cli.group_app": {"ottla.node.client.group_offsets"},
    "ottla.node.cli.perf_app": {"ottla.node.cli.perf_commands"},
    "ottla.pytest_plugin": {"ottla.testing"},
    "ottla.node.rest_api.server_thread": {"ottla.node.rest_api.http_server"},
    "ottla.pipeline.jobs.cli": {"ottla.pipeline.jobs.job", "ottla.pipeline.jobs.job_status"},
    "ottla.node.kafka_api.changes": {
        "ottla.node.kafka_api.packed_commit",
        "ottla.node.wire.messages.add_raft_voter",
        "ottla.node.wire.messages.alter_client_quotas",
        "ottla.node.wire.messages.alter_partition_reassignments",
        "ottla.node.wire.messages.alter_replica_log_dirs",
        "ottla.node.wire.messages.alter_share_group_offsets",
        "ottla.node.wire.messages.alter_user_scram_credentials",
        "ottla.node.wire.messages.create_acls",
        "ottla.node.wire.messages.create_partitions",
        "ottla.node.wire.messages.create_topics",
        "ottla.node.wire.messages.delete_acls",
        "ottla.node.wire.messages.delete_groups",
        "ottla.node.wire.messages.delete_records",
        "ottla.node.wire.messages.delete_share_group_offsets",
        "ottla.node.wire.messages.delete_topics",
        "ottla.node.wire.messages.elect_leaders",
        "ottla.node.wire.messages.incremental_alter_configs",
        "ottla.node.wire.messages.offset_commit",
        "ottla.node.wire.messages.offset_delete",
        "ottla.node.wire.messages.remove_raft_voter",
        "ottla.node.wire.messages.unregister_broker",
        "ottla.node.wire.messages.update_features",
        "ottla.node.wire.messages.write_txn_markers",
    },
    "ottla.pipeline.spark.data_source": {
        "ottla.pipeline.spark.batch_reader",
        "ottla.pipeline.spark.batch_writer",
        "ottla.pipeline.spark.stream_reader",
        "ottla.pipeline.spark.stream_writer",
    },
}


@cache
def all_modules() -> Mapping[str, Path]:
    """Return every module by its dotted name: a package is its `__init__`, scripts have no folder."""
    roots = [("ottla.", ROOT, ROOT / package) for package in PACKAGES]
    roots += [("", ROOT / folder, ROOT / folder) for folder in ("src", "scripts")]
    found = {}
    for prefix, root, folder in roots:
        for path in folder.rglob("*.py"):
            name = prefix + ".".join(path.relative_to(root).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def nodes_below(node: ast.AST, *, is_for_types: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield all nodes below one, each with True if it is under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        under = is_for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test))
        yield child, under
        yield from nodes_below(child, is_for_types=under)


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the product's modules that a module imports, each with True if it is for types only."""
    modules = all_modules()
    for entry, is_for_types in nodes_below(ast.parse(path.read_text())):
        if isinstance(entry, ast.Import):
            names = [alias.name for alias in entry.names]
        elif isinstance(entry, ast.ImportFrom) and entry.module:
            longer = [f"{entry.module}.{alias.name}" for alias in entry.names]
            names = [name if name in modules else entry.module for name in longer]
        else:
            continue
        yield from ((name, is_for_types) for name in names if name in modules)


@cache
def graph() -> Mapping[str, frozenset[str]]:
    return {
        module: frozenset(name for name, _ in imports(path)) - {module}
        for module, path in all_modules().items()
    }


def reached_from(module: str) -> set[str]:
    """Return all modules that one imports, directly or through others; itself too if it is in a cycle."""
    found: set[str] = set()
    waiting = list(graph()[module])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(graph()[name])
    return found


def test_no_module_imports_itself_through_others() -> None:
    assert {module for module in graph() if module in reached_from(module)} == set()


def test_only_modules_that_are_loaded_late_are_imported_for_types_only() -> None:
    found = {
        module: {name for name, is_for_types in imports(path) if is_for_types}
        for module, path in all_modules().items()
    }

    assert {module: names for module, names in found.items() if names} == LOADED_LATE
