"""`ottla`: the command line. This page has the commands and their words; what they do is imported when it
is needed, so that `--help` answers at once and a node carries nothing that only a client needs.
"""

import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from logstore.errors import KafkaError
from node.cli.failure import EXIT_INTERRUPTED, EXIT_TERMINATED, EXIT_USAGE, CommandError, explain

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

app = typer.Typer(
    name="ottla",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="An event-streaming node that any Kafka client can use, and the tools to work with it.\n\n"
    "All commands but start and cluster also work against Apache Kafka.",
)
cluster = typer.Typer(no_args_is_help=True, help="Run several nodes on this machine.")
topic = typer.Typer(no_args_is_help=True, help="Create, look at and change topics.")
log = typer.Typer(no_args_is_help=True, help="Look into the files of a log.")
app.add_typer(cluster, name="cluster")
app.add_typer(topic, name="topic")
app.add_typer(log, name="log")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"ottla {version('ottla')}")
        raise typer.Exit


@app.callback()
def ottla(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print it and exit")
    ] = False,
) -> None:
    """What all commands share."""


Override = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="NAME=VALUE", help="a broker setting; may be repeated"),
]
Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap", "-b", envvar="OTTLA_BOOTSTRAP", metavar="HOST:PORT,...", help="nodes to ask first"
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="give up after this")]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC...")]
Name = Annotated[str, typer.Argument(metavar="TOPIC")]
Output = Annotated[Literal["text", "json"], typer.Option("--output", help="how to print")]
Setting = Annotated[
    list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="a topic setting; repeatable")
]
LOCAL = "localhost:9092"


@app.command()
def start(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a server.properties of Kafka's kind")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="listen here, on all addresses (default 9092)")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="keep the logs here (default ./ottla-data)")
    ] = None,
    override: Override = None,
) -> None:
    """Run one node in the foreground; Ctrl-C or SIGTERM stops it cleanly.

    Example: ottla start --port 9092 --data /var/lib/ottla --override log.retention.hours=24
    """
    from node.cli.serve import start

    start(config, port=port, data=data, overrides=override or [])


@cluster.command("up")
def cluster_up(
    nodes: Annotated[int, typer.Option(min=1, help="how many, one process each")] = 3,
    base_port: Annotated[
        int, typer.Option(min=1, max=65535, help="the first node's port on 127.0.0.1; the others follow")
    ] = 9092,
    data: Annotated[Path, typer.Option(metavar="DIR", help="each node gets a directory in it")] = Path(
        "ottla-data"
    ),
    override: Override = None,
) -> None:
    """Run a cluster on this machine; prints READY with its addresses when it serves.

    Example: ottla cluster up --nodes 3 --base-port 19092 --data /tmp/ottla
    """
    from node.cli.local_cluster import cluster_up

    cluster_up(nodes, base_port=base_port, data=data, overrides=override or [])


@cluster.command("start-node")
def cluster_start_node(
    data: Annotated[Path, typer.Argument(metavar="DIR", help="the --data of `ottla cluster up`")],
    node_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="which node")],
) -> None:
    """Start one node of such a cluster again, after it was killed or stopped; it runs in the background.

    Example: ottla cluster start-node /tmp/ottla 1
    """
    from node.cli.local_cluster import start_node

    start_node(data, node_id)


# ---- topics --------------------------------------------------------------------------------------


@topic.command("create")
def topic_create(
    topics: Names,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=-1, help="-1: the cluster's default")
    ] = -1,
    replicas: Annotated[int, typer.Option("--replicas", "-r", min=-1, help="-1: the cluster's default")] = -1,
    config: Setting = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="no error if it is there")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check only")] = False,
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Create topics.

    Example: ottla topic create orders --partitions 6 -c cleanup.policy=compact
    """
    import node.cli.topic_commands as commands

    settings = _pairs(config)
    run(
        lambda: commands.create(
            _client(bootstrap, timeout), topics, partitions, replicas, settings, if_not_exists, dry_run
        )
    )


@topic.command("list")
def topic_list(
    internal: Annotated[bool, typer.Option("--internal", help="show internal topics too")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """List topics with their partitions and replicas."""
    import node.cli.topic_commands as commands

    run(lambda: commands.list_all(_client(bootstrap, timeout), internal, output == "json"))


@topic.command("describe")
def topic_describe(
    topics: Names,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Show leaders, replicas, first and next offset of each partition, and settings that are not default."""
    import node.cli.topic_commands as commands

    run(lambda: commands.describe(_client(bootstrap, timeout), topics, output == "json"))


@topic.command("alter")
def topic_alter(
    name: Name,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="grow to so many")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check only")] = False,
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Add partitions to a topic; keys may then go to other partitions than before.

    Example: ottla topic alter orders --partitions 12
    """
    import node.cli.topic_commands as commands

    run(lambda: commands.alter(_client(bootstrap, timeout), name, partitions, dry_run))


@topic.command("delete")
def topic_delete(
    topics: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="no error if it is not there")] = False,
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Delete topics and all their records."""
    import node.cli.topic_commands as commands

    run(lambda: commands.delete(_client(bootstrap, timeout), topics, if_exists))


@topic.command("config")
def topic_config(
    name: Name,
    change: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="set; may be repeated")
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", metavar="NAME", help="back to the default; may be repeated")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="show defaults too")] = False,
    documentation: Annotated[bool, typer.Option("--documentation", help="say what each one means")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check changes only")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Show or change the settings of a topic.

    Example: ottla topic config orders --set retention.ms=86400000 --reset segment.bytes
    """
    import node.cli.topic_commands as commands

    settings = _pairs(change)
    client = _client(bootstrap, timeout)
    if settings or reset:
        run(lambda: commands.change_config(client, name, settings, reset or [], dry_run))
    else:
        run(lambda: commands.show_config(client, name, everything, documentation, output == "json"))


# ---- records -------------------------------------------------------------------------------------


@app.command()
def produce(
    name: Name,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="key and value of a line stand around this")
    ] = None,
    input_format: Annotated[
        Literal["lines", "json"], typer.Option("--input", help="one record a line: plain, or a JSON object")
    ] = "lines",
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="on every record")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="instead of by key")
    ] = None,
    timestamp: Annotated[
        int | None, typer.Option("--timestamp", metavar="MS", help="of every record, ms since 1970")
    ] = None,
    empty_as_null: Annotated[
        bool, typer.Option("--empty-as-null", "-Z", help="an empty key or value becomes null")
    ] = False,
    acks: Annotated[Literal["all", "1", "0"], typer.Option("--acks", help="who must have it")] = "all",
    compression: Annotated[Compression, typer.Option("--compression", "-z")] = "none",
    idempotent: Annotated[
        bool, typer.Option("--idempotent/--no-idempotent", help="no duplicates on retries (needs acks=all)")
    ] = True,
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Send the lines of standard input to a topic, one record a line.

    A line of --input json is an object with "value" and perhaps "key", "headers", "partition", "timestamp",
    as `ottla consume --output json` prints it; "key_base64" and "value_base64" carry any bytes.

    Examples:

        printf 'anna:2 apples\\n' | ottla produce orders --key-separator :

        ottla consume orders --until-end --output json | ottla produce copy --input json
    """
    import node.cli.record_commands as commands

    options = commands.ProduceOptions(
        topic=name,
        key_separator=key_separator,
        is_json=input_format == "json",
        headers=tuple(pair for pair in _pairs(header).items()),
        partition=partition,
        timestamp=timestamp,
        empty_as_null=empty_as_null,
        acks={"all": -1, "1": 1, "0": 0}[acks],
        compression=compression,
        idempotent=idempotent and acks == "all",
    )
    run(lambda: commands.produce(_client(bootstrap, timeout), options))


@app.command()
def consume(
    topics: Names,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="join this group; its commits say where to begin")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="only these; may be repeated")
    ] = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from", "-o", metavar="PLACE", help="beginning, end, an offset, -N before the end, @ms or @date"
        ),
    ] = "beginning",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="stop after so many")] = None,
    until_end: Annotated[
        bool,
        typer.Option("--until-end", "--exit-at-end", "-e", help="stop where the log ended at the start"),
    ] = False,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="print keys")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="print headers")] = False,
    partitions: Annotated[bool, typer.Option("--partitions", help="print partitions")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="print offsets")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="print timestamps")] = False,
    separator: Annotated[str, typer.Option("--separator", help="between what is printed")] = "\t",
    template: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="%t topic, %p partition, %o offset, %T ms, %k key, %s value, %h headers, \\n",
        ),
    ] = None,
    output: Output = "text",
    isolation: Annotated[
        Literal["read_uncommitted", "read_committed"], typer.Option("--isolation", help="of transactions")
    ] = "read_uncommitted",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Print the records of topics, one a line.

    Members of a --group share the partitions; progress is committed every five seconds and at the end.

    Examples:

        ottla consume orders --from -10 --keys --offsets -n 10

        ottla consume orders --group billing --output json

        ottla consume orders --from @2026-01-31T12:00:00Z --until-end -f '%p/%o %k=%s\\n'
    """
    import node.cli.record_commands as commands

    if group is not None and partition:
        raise CommandError("A group deals out the partitions itself; leave --partition out.", EXIT_USAGE)
    show = {
        "partitions": partitions,
        "offsets": offsets,
        "timestamps": timestamps,
        "headers": headers,
        "keys": keys,
    }
    options = commands.ConsumeOptions(
        topics=tuple(topics),
        group=group,
        partitions=tuple(partition or ()),
        begin=begin,
        count=count,
        until_end=until_end,
        shown=frozenset(name for name, shown in show.items() if shown),
        separator=separator,
        template=template,
        is_json=output == "json",
        read_committed=isolation == "read_committed",
    )
    run(lambda: commands.consume(_client(bootstrap, timeout), options))


@log.command(
    "dump",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
def log_dump(context: typer.Context) -> None:
    """Print what the files of a log hold: batches, records, indexes, snapshots, checkpoints."""
    from node.tools.dump_log import main as dump

    raise typer.Exit(dump(context.args, program="ottla log dump"))


# ---- the process -----------------------------------------------------------------------------------


def run(command: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Run a command to its exit code."""
    import asyncio
    import signal

    import uvloop

    async def until_terminated() -> int:
        task = asyncio.current_task()
        assert task is not None
        # As after Ctrl-C: what was done is committed, and the group is left.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await command()

    try:
        code = uvloop.run(until_terminated())
        sys.stdout.flush()
    except asyncio.CancelledError:
        code = EXIT_TERMINATED
    except BrokenPipeError:
        # Whoever read has seen enough. Python would complain when it flushes at exit: let it flush nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    if code:
        raise typer.Exit(code)


def _client(bootstrap: str, timeout: float) -> Any:
    from node.cli.client import Client, parse_bootstrap

    try:
        return Client(parse_bootstrap(bootstrap), timeout_s=timeout)
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def _pairs(texts: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise CommandError(f"{text!r} is not NAME=VALUE.", EXIT_USAGE)
        pairs[name] = value
    return pairs


def main() -> int:
    """Run `ottla` with the process's arguments; the exit code."""
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except CommandError as error:
        return _complain(str(error), error.exit_code)
    except KafkaError as error:
        return _complain(explain(error), 1)
    except BaseExceptionGroup as group:
        return _complain_of_group(group)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:
        show = getattr(error, "show", None)  # click's own: bad usage
        if show is None:
            raise
        show()
        return int(getattr(error, "exit_code", EXIT_USAGE))


def _complain_of_group(group: BaseExceptionGroup[BaseException]) -> int:
    """What a task group reports: the first error that has words."""
    for error in group.exceptions:
        if isinstance(error, KafkaError):
            return _complain(explain(error), 1)
        if isinstance(error, CommandError):
            return _complain(str(error), error.exit_code)
    raise group


def _complain(sentence: str, code: int) -> int:
    print(f"ottla: {sentence}", file=sys.stderr)
    return code
