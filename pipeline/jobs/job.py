"""A job file that was read: its jobs, with their sources, steps and sinks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.pipeline.query import QuerySettings

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A format with its options; `is_static` marks a source that is a table, which each batch reads again."""

    format: str
    options: Options = field(repr=False)
    is_static: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep:
    """A query over the existing views; its rows become a view, too, if they are given a name."""

    query: str
    view: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStep:
    """A function that takes the frame of the step before it and returns another.

    The function of the first step takes the only source, or all of several sources by their names.
    """

    module: str
    function: str
    arguments: Options
    view: str | None = None


Step = SqlStep | PythonStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Rows from sources, which are views by their names, through steps into a sink."""

    sources: Mapping[str, Endpoint]
    steps: tuple[Step, ...]
    sink: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A job without sources, steps and sink of its own, such as a mirror or a load."""

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
    """A file without errors. `secrets` are values that no message may contain."""

    path: Path
    name: str
    storage: str
    status_folder: Path | None  # None if the storage is not a local folder and no folder was named
    master: str
    configuration: Mapping[str, str]
    stops_with_first_failure: bool
    stop_timeout_ms: int
    jobs: tuple[Job, ...]
    secrets: frozenset[str] = field(repr=False)
