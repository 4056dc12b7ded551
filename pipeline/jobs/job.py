"""A job file as it was meant: its jobs, what they read, do and write."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.pipeline.query import QuerySettings

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A format with its options; `is_static`: a source that is a table, read anew by each batch."""

    format: str
    options: Options = field(repr=False)
    is_static: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep:
    """A query over the views that there are; its rows get a view, too, when they are given a name."""

    query: str
    view: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStep:
    """A function that takes the frame before it (the first one: all sources, by name) and gives another."""

    module: str
    function: str
    arguments: Options
    view: str | None = None


Step = SqlStep | PythonStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """From sources, which are views by their names, by steps into a sink."""

    sources: Mapping[str, Endpoint]
    steps: tuple[Step, ...]
    sink: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A whole job of a kind of its own, as a mirror is one."""

    kind: str
    options: Options = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One streaming query (or one batch, for some kinds)."""

    name: str
    work: Flow | Task
    query: QuerySettings
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A file that was found right. `secrets` are values that no message may have."""

    path: Path
    name: str
    storage: str
    status_folder: Path | None  # None where the storage is no local folder and none was named
    master: str
    configuration: Mapping[str, str]
    stops_with_first_failure: bool
    stop_timeout_ms: int
    jobs: tuple[Job, ...]
    secrets: frozenset[str] = field(repr=False)
