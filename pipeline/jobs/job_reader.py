"""Reads and checks a job file as a whole: all its errors are reported at once, before Spark or Java starts.

No code of the user is run, no cluster is asked, and Spark checks SQL when the job starts.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ottla.pipeline.jobs.flow_reader import FlowReader
from ottla.pipeline.jobs.job import Flow, Job, JobFile
from ottla.pipeline.jobs.problems import JobFileError, Problem, Problems
from ottla.pipeline.jobs.registry import TASKS
from ottla.pipeline.jobs.tree_values import SourceLocation, TreeValues, Value
from ottla.pipeline.jobs.yaml_tree import YamlError, read_tree
from ottla.pipeline.query import (
    OUTPUT_MODES,
    AvailableNow,
    OutputMode,
    ProcessingTime,
    QuerySettings,
    Trigger,
    parse_interval_ms,
)
from ottla.pipeline.words import OptionError

FILE_KEYS: Final = (
    "name",
    "storage",
    "status",
    "master",
    "onFailure",
    "stopTimeout",
    "configuration",
    "jobs",
)
JOB_KEYS: Final = ("source", "sources", "transform", "sink", "trigger", "outputMode", "checkpoint")
# Each is a query that runs all the time, with threads of its own in the driver.
MAX_JOBS: Final = 100
DEFAULT_MASTER: Final = "local[*]"
DEFAULT_STOP_TIMEOUT_MS: Final = 60_000
# Part of file names, transactional ids and names of queries.
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def read_job_file(
    path: Path, environment: Mapping[str, str] = os.environ, python_path: Sequence[str] | None = None
) -> JobFile:
    """Return the file's jobs, ready to run; JobFileError with all errors.

    `environment` has the values of `${NAME}`; Python functions are looked up beside the file, then in
    `python_path` (default: this process's).
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise JobFileError(
            path, [Problem(line=1, key="", reason=f"cannot be read: {error.strerror}")]
        ) from None
    try:
        tree = read_tree(content)
    except YamlError as error:
        raise JobFileError(path, [Problem(line=error.line, key="", reason=error.reason)]) from None
    problems = Problems()
    reader = _Reader(
        path, TreeValues(problems, environment), sys.path if python_path is None else python_path
    )
    read = reader.read(Value(tree=tree, location=SourceLocation(line=tree.line, key="")), problems)
    problems.raise_if_any(path)
    assert read is not None
    return read


class _Reader:
    """Reads the file's own keys and each job's settings; FlowReader reads the work of a job."""

    def __init__(self, path: Path, values: TreeValues, python_path: Sequence[str]) -> None:
        self._path = path
        self._folder = path.resolve().parent
        self._values = values
        self._python_path = python_path

    def read(self, root: Value, problems: Problems) -> JobFile | None:
        members = self._values.known_members(root, FILE_KEYS)
        if members is None:
            return None
        for key in ("name", "storage", "jobs"):
            if key not in members:
                self._values.wrong(root.location.below(key), "is missing")
        name = self._name(members.get("name"))
        storage = self._storage(members.get("storage"))
        configuration = self._configuration(members.get("configuration"))
        status = self._text(members.get("status"))
        master = self._text(members.get("master")) or DEFAULT_MASTER
        failure = members.get("onFailure")
        on_failure = None if failure is None else self._values.choice(failure, ("continue", "stop"))
        stop_timeout_ms = self._interval_ms(members.get("stopTimeout"), DEFAULT_STOP_TIMEOUT_MS)
        jobs = self._jobs(members.get("jobs"), name or "", storage or "", configuration)
        if problems.found:
            return None
        assert name is not None and storage is not None
        return JobFile(
            path=self._path,
            name=name,
            storage=storage,
            status_folder=self._folder / status if status else local_folder(storage),
            master=master,
            configuration=configuration,
            stops_with_first_failure=on_failure == "stop",
            stop_timeout_ms=stop_timeout_ms,
            jobs=tuple(jobs),
            secrets=frozenset(problems.secrets),
        )

    # ---- the file's own keys ------------------------------------------------------------------------

    def _text(self, value: Value | None) -> str | None:
        text = None if value is None else self._values.text(value)
        if value is not None and text is not None and not text.strip():
            self._values.wrong(value.location, "is empty")
        return text

    def _name(self, value: Value | None) -> str | None:
        text = self._text(value)
        if value is not None and text:
            self._check_name(value.location, text)
        return text

    def _check_name(self, location: SourceLocation, name: str) -> None:
        if not _NAME.fullmatch(name):
            self._values.wrong(
                location,
                "must be a name of at most 100 letters, digits, _, - and dots, not beginning with a dot",
            )

    def _storage(self, value: Value | None) -> str | None:
        """Return a URI as it is, and a path relative to the file's folder."""
        text = self._text(value)
        if not text:
            return None
        return text if "://" in text or text.startswith("file:") else str(self._folder / text)

    def _configuration(self, value: Value | None) -> dict[str, str]:
        options = None if value is None else self._values.options(value)
        if value is None or options is None:
            return {}
        for name, line in options.lines.items():
            if not name.startswith("spark."):
                self._values.wrong(
                    value.location.below(name, line), "is not a Spark setting; these begin with spark."
                )
        return dict(options.values)

    def _interval_ms(self, value: Value | None, otherwise: int) -> int:
        text = self._text(value)
        if value is None or text is None:
            return otherwise
        try:
            return parse_interval_ms(text, value.location.key)
        except OptionError as error:
            self._values.wrong(value.location, error.problem)
            return otherwise

    # ---- jobs ---------------------------------------------------------------------------------------

    def _jobs(
        self, value: Value | None, file_name: str, storage: str, configuration: Mapping[str, str]
    ) -> list[Job]:
        members = None if value is None else self._values.members(value)
        if value is None or members is None:
            return []
        if not members:
            self._values.wrong(value.location, "is empty")
        if len(members) > MAX_JOBS:
            self._values.wrong(value.location, f"has {len(members)} jobs; at most {MAX_JOBS} are allowed")
            return []
        flows = FlowReader(
            self._values, folder=self._folder, configuration=configuration, python_path=self._python_path
        )
        read = [self._job(name, one, file_name, storage, flows) for name, one in members.items()]
        jobs = [one for one in read if one is not None]
        self._refuse_shared(value.location, jobs)
        return jobs

    def _job(self, name: str, value: Value, file_name: str, storage: str, flows: FlowReader) -> Job | None:
        self._check_name(value.location, name)
        members = self._values.known_members(value, (*JOB_KEYS, *TASKS))
        if members is None:
            return None
        trigger = self._trigger(members.get("trigger"))
        output_mode = self._output_mode(members.get("outputMode"))
        checkpoint = self._storage(members.get("checkpoint")) or f"{storage.rstrip('/')}/{name}/checkpoint"
        full_name = f"{file_name}.{name}"
        work = flows.read(value.location, members, full_name, output_mode)
        if work is None:
            return None
        query = QuerySettings(name=full_name, checkpoint=checkpoint, trigger=trigger, output_mode=output_mode)
        return Job(name=name, work=work, query=query, line=value.location.line)

    def _trigger(self, value: Value | None) -> Trigger:
        members = (
            None if value is None else self._values.known_members(value, ("processingTime", "availableNow"))
        )
        if value is None or members is None:
            return ProcessingTime()
        if len(members) != 1:
            self._values.wrong(value.location, "must have exactly one of processingTime, availableNow")
        elif "availableNow" in members:
            if self._values.boolean(members["availableNow"]) is False:
                self._values.wrong(members["availableNow"].location, "must be true if it is given")
            return AvailableNow()
        return ProcessingTime(interval_ms=self._interval_ms(members.get("processingTime"), 0))

    def _output_mode(self, value: Value | None) -> OutputMode:
        given = None if value is None else self._values.choice(value, OUTPUT_MODES)
        match given:
            case "complete" | "update":
                return given
            case _:
                return "append"

    def _refuse_shared(self, location: SourceLocation, jobs: Sequence[Job]) -> None:
        """Reject jobs that share a checkpoint or transactional id: they would spoil each other's progress."""
        checkpoints: dict[str, str] = {}
        transactions: dict[str, str] = {}
        for job in jobs:
            options = job.work.sink.options if isinstance(job.work, Flow) else job.work.options
            given = {name.lower(): value for name, value in options.items()}
            where = location.below(job.name, job.line)
            shared = [("checkpoint", job.query.checkpoint, checkpoints)]
            if "transactional.id" in given:
                shared.append(("transactional.id", given["transactional.id"], transactions))
            for key, value, owners in shared:
                owner = owners.setdefault(value, job.name)
                if owner != job.name:
                    self._values.wrong(
                        where.below(key), f"is already used by the job {owner}; each job needs its own"
                    )


def local_folder(storage: str) -> Path | None:
    """Return the folder of a path or a `file:` URI; None for other storages."""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", storage):
        return Path(storage)
    parts = urlsplit(storage)
    return Path(unquote(parts.path)) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None
