"""Log lines that a client could cause with each request are bounded: by `ClientLines`, or as listed here."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = (
    "authorization",
    "client_metrics",
    "coordinators",
    "kafka_api",
    "net",
    "quota",
    "rest_api",
    "security",
    "share",
)
LEVELS: Final = {"info", "warning", "error", "critical", "exception", "log"}
LOGGERS: Final = {"log", "logger", "logging"}

# Each function that logs without `ClientLines`, and the event that bounds its lines.
BOUNDED: Final = {
    "client_metrics/subscriptions.py:update": "a change of settings",
    "client_metrics/subscriptions.py:_expression": "an expression is cached, also an invalid one",
    "coordinators/coordinator_runtime.py:_load_one": "a load of a partition",
    "coordinators/coordinator_shard.py:_decide": "a bug, after which the partition is reloaded",
    "coordinators/coordinator_shard.py:_drop": "a failure of the log, after which it is reloaded",
    "coordinators/group_shard.py:_deliver_result": "each line costs MAX_REGEX_CPU_S of a thread",
    "coordinators/marker_sender.py:_report_fenced": "WriteTxnMarkers of an administrator",
    "coordinators/marker_sender.py:_failed": "the first failure of a leader",
    "coordinators/marker_sender.py:_settle": "one for each transaction",
    "coordinators/shard_loader.py:log_left_out": "a load of a partition",
    "coordinators/share_state_shard.py:_prune": "a round of pruning",
    "kafka_api/config_resources.py:_alter_loggers": "a change that needs ALTER_CONFIGS",
    "net/client_lines.py:log": "the bound itself",
    "net/client_lines.py:_log_counts": "the bound itself",
    "rest_api/probe_server.py:start": "a start",
    "rest_api/probe_server.py:_run": "the end of the probes",
    "rest_api/record_service.py:_send": "a bug, after which another producer starts",
    "rest_api/server_thread.py:bind": "a start",
    "rest_api/server_thread.py:_run": "the end of the REST API",
    "rest_api/v2_instances.py:_keep": "a bug, which ends the consumer",
    "security/jwks_fetcher.py:fetch": "a problem that differs from the last",
    "security/security_reload.py:_log_problems": "a problem that differs from the last",
    "security/security_reload.py:_refuse": "a problem that differs from the last",
    "security/security_reload.py:look": "a file that has changed",
    "security/token_verifiers.py:_begin": "a change of settings, or a problem that differs from the last",
    "security/trust_file.py:look": "a file that has changed, or a problem that differs from the last",
    "security/sasl/failed_logins.py:_note": "one a minute for each address that fails a hundred times",
    "share/dead_letter_queue.py:_persist": "an attempt, with growing pauses between",
    "share/dead_letter_queue.py:_read_piece": "a failure of the disk",
    "share/repeated_line.py:log": "one a minute of each kind, or for each share-partition",
    "share/share_group_settings.py:__call__": "one a minute for all groups",
}


def logging_functions() -> Iterator[str]:
    """Yield each function that writes lines to a logger directly."""
    for folder in FOLDERS:
        for path in sorted((ROOT / "node" / folder).rglob("*.py")):
            name = path.relative_to(ROOT / "node").as_posix()
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and _logs(function):
                    yield f"{name}:{function.name}"


def _logs(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for node in _own_nodes(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            value = node.func.value
            name = value.attr.lstrip("_") if isinstance(value, ast.Attribute) else getattr(value, "id", "")
            if name in LOGGERS:
                return True
    return False


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of nested functions."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _own_nodes(child)


def test_log_lines_that_clients_cause_are_bounded() -> None:
    assert sorted(set(logging_functions())) == sorted(BOUNDED)
