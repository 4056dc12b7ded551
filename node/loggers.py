"""Describes the loggers of this process, and changes their levels while the node runs.

Levels have Kafka's names. A level applies to a logger and the loggers below it (`ottla.node.replica` for
`ottla.node.replica.isr`), until the process ends or the level is removed, as with Apache Kafka. Nodes that
share a process share its loggers.
"""

import logging
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

ROOT: Final = "root"
OURS: Final = "ottla"
PARTS: Final = tuple(
    f"{OURS}.{part}" for part in ("audit", "groupcoord", "logstore", "metadata_raft", "node")
)
# Loggers that Apache Kafka has under these names.
KAFKAS: Final = {"kafka.authorizer.logger": f"{OURS}.audit"}
TRACE: Final = 5  # below Python's DEBUG: nothing is logged there
# Kafka's names, the most severe first.
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def levels() -> dict[str, str]:
    """Return the effective level of each logger, by name."""
    names = {name for name in (OURS, *PARTS, *logging.root.manager.loggerDict) if _is_ours(name)}
    return {name: level_name(_logger(name).getEffectiveLevel()) for name in sorted({ROOT, *KAFKAS, *names})}


def level_name(level: int) -> str:
    """Return Kafka's name of a level of Python's logging."""
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")


def check_change(name: str, level: str | None) -> None:
    """Raise INVALID_CONFIG or INVALID_REQUEST unless the level may be set, or with None be removed."""
    if name not in levels():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name[:200]} does not exist!")
    if level is None and name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )
    if level is not None and level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level[:200]} as it is not a supported log level."
            f" Valid log levels are {', '.join(sorted(LEVELS))}",
        )


def change(name: str, level: str | None) -> None:
    """Set a level that `check_change` accepts; with None the logger has the level of the one above it."""
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else KAFKAS.get(name, name))


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == OURS
