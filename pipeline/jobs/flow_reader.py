"""Reads the work of a job from a file's tree: its sources, steps and sink, or its task."""

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from ottla.pipeline.jobs import job, spark_formats
from ottla.pipeline.jobs.kinds import SinkKind, SourceKind
from ottla.pipeline.jobs.option_checks import check_options
from ottla.pipeline.jobs.problems import unknown
from ottla.pipeline.jobs.python_functions import FunctionError, check_function, parse_function
from ottla.pipeline.jobs.registry import SINKS, SOURCES, TASKS
from ottla.pipeline.jobs.tree_values import SourceLocation, TreeValues, Value
from ottla.pipeline.query import OutputMode

K = TypeVar("K", SourceKind, SinkKind)

SINGLE_SOURCE: Final = "source"
STEP_KEYS: Final = ("sql", "sqlFile", "python", "as", "arguments")
MAX_SQL_BYTES: Final = 256 * 1024
_VIEW: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_JAR_SETTINGS: Final = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


class FlowReader:
    """Reads the work of the jobs of one file. Errors become problems in `values`."""

    def __init__(
        self,
        values: TreeValues,
        *,
        folder: Path,
        configuration: Mapping[str, str],
        python_path: Sequence[str],
    ) -> None:
        self._values = values
        self._folder = folder
        self._has_jars = any(configuration.get(name) for name in _JAR_SETTINGS)
        self._python_path = [str(folder), *python_path]

    def read(
        self, location: SourceLocation, members: dict[str, Value], full_name: str, output_mode: OutputMode
    ) -> job.Flow | job.Task | None:
        """Return the work of a job, which has exactly one of `sink` and the tasks.

        Returns None if a part of it cannot be read; other errors only become problems.
        """
        given = [name for name in ("sink", *TASKS) if name in members]
        if len(given) != 1:
            names = ", ".join(("sink", *TASKS))
            self._values.wrong(
                location,
                f"has {' and '.join(given)}; only one is allowed" if given else f"needs one of {names}",
            )
        if not given:
            return None
        sources = self._sources(location, members, is_flow="sink" in given)
        steps = self._steps(members.get("transform"))
        if given[0] != "sink":
            self._reject_flow_values(members, given[0])
            return self._task(members[given[0]], given[0], full_name)
        sink = self._sink(members["sink"], full_name, output_mode)
        if sources is None or steps is None or sink is None:
            return None
        if len(sources) > 1 and not steps:
            self._values.wrong(location, "has several sources, but no transform that combines them")
        return job.Flow(sources=sources, steps=steps, sink=sink)

    # ---- sources ------------------------------------------------------------------------------------

    def _sources(
        self, location: SourceLocation, members: dict[str, Value], *, is_flow: bool
    ) -> dict[str, job.Endpoint] | None:
        one, many = members.get("source"), members.get("sources")
        if one is not None and many is not None:
            self._values.wrong(
                many.location,
                "cannot be used together with source; in SQL a single source is called `source`",
            )
        if one is not None:
            source = self._source(one)
            named = None if source is None else {SINGLE_SOURCE: source}
        elif many is not None:
            named = self._named_sources(many)
        else:
            if is_flow:
                self._values.wrong(location, "needs source or sources")
            return None
        if named and all(source.is_static for source in named.values()):
            self._values.wrong(location, "has no source that is a stream; remove `static` from one")
        return named

    def _named_sources(self, value: Value) -> dict[str, job.Endpoint] | None:
        members = self._values.members(value)
        if not members:
            if members is not None:
                self._values.wrong(value.location, "is empty")
            return None
        for name, one in members.items():
            self._check_view(one.location, name)
        read = {name: self._source(one) for name, one in members.items()}
        found = {name: source for name, source in read.items() if source is not None}
        return found if len(found) == len(read) else None

    def _source(self, value: Value) -> job.Endpoint | None:
        members = self._values.members(value)
        if members is None:
            return None
        kind = self._kind(value, members, SOURCES, spark_formats.source_of_a_jar)
        static = members.pop("static", None)
        is_static = static is not None and bool(self._values.boolean(static))
        options = self._values.options(value, members)
        if kind is None or options is None:
            return None
        opened, check = (
            (kind[1].table, kind[1].check_table_options)
            if is_static
            else (kind[1].stream, kind[1].check_stream_options)
        )
        if opened is None or check is None:
            self._values.wrong(
                value.location, f"cannot be used as a {'static table' if is_static else 'stream'}"
            )
            return None
        check_options(self._values, value.location, options, check)
        return job.Endpoint(format=kind[0], options=options.values, is_static=is_static)

    # ---- sinks and tasks ----------------------------------------------------------------------------

    def _sink(self, value: Value, full_name: str, output_mode: OutputMode) -> job.Endpoint | None:
        members = self._values.members(value)
        if members is None:
            return None
        kind = self._kind(value, members, SINKS, spark_formats.unchecked_sink)
        options = self._values.options(value, members)
        if kind is None or options is None:
            return None
        if output_mode not in kind[1].output_modes:
            modes = ", ".join(kind[1].output_modes)
            self._values.wrong(value.location, f"supports the outputMode {modes}, but not {output_mode}")
        check_options(
            self._values,
            value.location,
            options,
            lambda given: kind[1].check_options(kind[1].complete(given, full_name)),
        )
        return job.Endpoint(format=kind[0], options=kind[1].complete(options.values, full_name))

    def _task(self, value: Value, name: str, full_name: str) -> job.Task | None:
        kind = TASKS[name]()
        options = self._values.options(value)
        if options is None:
            return None
        check_options(
            self._values,
            value.location,
            options,
            lambda given: kind.check_options(kind.complete(given, full_name)),
        )
        return job.Task(kind=name, options=kind.complete(options.values, full_name))

    def _reject_flow_values(self, members: Mapping[str, Value], task: str) -> None:
        for name in ("source", "sources", "transform", "outputMode"):
            if name in members:
                self._values.wrong(members[name].location, f"has no effect for {task}")

    def _kind(
        self,
        value: Value,
        members: dict[str, Value],
        known: Mapping[str, Callable[[], K]],
        of_a_jar: Callable[[str], K],
    ) -> tuple[str, K] | None:
        """Return the format's name and kind.

        The format is removed from the members; the rest are its options.
        """
        if "format" not in members:
            reason = "is missing" if not members else "is missing; it must say what the options are for"
            self._values.wrong(value.location.below("format"), reason)
            return None
        written = members.pop("format")
        name = self._values.text(written)
        if name is None:
            return None
        if name not in known:
            if self._has_jars:
                return name, of_a_jar(name)
            self._values.wrong(written.location, unknown(name, known))
            return None
        kind = known[name]()
        if kind.jar and not self._has_jars and not _has_jar(kind.jar):
            self._values.wrong(
                written.location, f"needs a jar: add {kind.jar} by spark.jars in configuration"
            )
        return name, kind

    # ---- steps --------------------------------------------------------------------------------------

    def _steps(self, value: Value | None) -> tuple[job.Step, ...] | None:
        if value is None:
            return ()
        items = self._values.items(value)
        if items is None:
            return None
        read = [self._step(item) for item in items]
        found = tuple(step for step in read if step is not None)
        return found if len(found) == len(read) else None

    def _step(self, value: Value) -> job.Step | None:
        members = self._values.known_members(value, STEP_KEYS)
        if members is None:
            return None
        given = [name for name in ("sql", "sqlFile", "python") if name in members]
        if len(given) != 1:
            self._values.wrong(value.location, "must have exactly one of sql, sqlFile, python")
            return None
        view = None
        if "as" in members:
            view = self._values.text(members["as"])
            self._check_view(members["as"].location, view)
        if given[0] == "python":
            return self._python_step(members, view)
        if "arguments" in members:
            self._values.wrong(members["arguments"].location, "can only be used with python")
        query = self._values.text(members[given[0]])
        if query is not None and given[0] == "sqlFile":
            query = self._sql_of_file(members["sqlFile"].location, query)
        elif query is not None and not query.strip():
            self._values.wrong(members["sql"].location, "is empty")
        return None if query is None else job.SqlStep(query=query, view=view)

    def _python_step(self, members: dict[str, Value], view: str | None) -> job.Step | None:
        written = members["python"]
        text = self._values.text(written)
        arguments = self._values.options(members["arguments"]) if "arguments" in members else None
        if text is None:
            return None
        try:
            module, function = parse_function(text)
            check_function(module, function, self._python_path)
        except FunctionError as error:
            self._values.wrong(written.location, str(error))
            return None
        given = {} if arguments is None else arguments.values
        return job.PythonStep(module=module, function=function, arguments=given, view=view)

    def _sql_of_file(self, location: SourceLocation, name: str) -> str | None:
        path = self._folder / name
        try:
            content = path.read_bytes()
            if len(content) > MAX_SQL_BYTES:
                self._values.wrong(
                    location, f"is {path} with {len(content)} bytes; at most {MAX_SQL_BYTES} are allowed"
                )
                return None
            text = content.decode()
        except OSError as error:
            self._values.wrong(location, f"is {path}, which cannot be read: {error.strerror}")
            return None
        except ValueError:
            self._values.wrong(location, f"is {path}, which is not UTF-8 text")
            return None
        if not text.strip():
            self._values.wrong(location, f"is {path}, which is empty")
        return text

    def _check_view(self, location: SourceLocation, name: str | None) -> None:
        if name is not None and not _VIEW.fullmatch(name):
            self._values.wrong(
                location, "must be a name for SQL: letters, digits and _, not beginning with a digit"
            )


def _has_jar(beginning: str) -> bool:
    """Return True if Spark itself has the jar in its folder."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return False
    return any((Path(spec.origin).parent / "jars").glob(f"{beginning}*.jar"))
