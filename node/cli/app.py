"""`ottla`: the command line. This module and the modules `*_app` define the commands and their options.

The code of a command is imported when it runs, so that `--help` is fast and a node loads nothing that only a
client needs. Other packages add commands of their own (`added_commands`).
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ottla.logstore.words.errors import KafkaError
from ottla.node.cli.acl_app import acl
from ottla.node.cli.added_commands import WithAddedCommands
from ottla.node.cli.broker_app import broker
from ottla.node.cli.client_metrics_app import client_metrics
from ottla.node.cli.cluster_app import cluster, quorum
from ottla.node.cli.command_options import (
    LOCAL,
    Bootstrap,
    CommandConfig,
    Name,
    Names,
    Output,
    Override,
    Timeout,
    client_of,
    pairs_of,
    run,
)
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, CommandError, explain
from ottla.node.cli.group_app import group
from ottla.node.cli.perf_app import perf
from ottla.node.cli.profile_app import profile
from ottla.node.cli.profile_option import forget_command
from ottla.node.cli.quota_app import quota
from ottla.node.cli.record_options import (
    ACKS,
    Acknowledge,
    Acks,
    Append,
    AsGroup,
    AsShareGroup,
    Count,
    CreateTopic,
    Deliveries,
    EmptyAsNull,
    Format,
    From,
    Header,
    Headers,
    Idempotent,
    IdleTimeout,
    InputFormat,
    Isolation,
    Keys,
    KeySeparator,
    Offsets,
    OnlyPartition,
    OutputFile,
    Partitions,
    Quiet,
    Raw,
    RejectCode,
    Separator,
    Timestamp,
    Timestamps,
    ToPartition,
    UntilEnd,
    WithCompression,
    Worker,
)
from ottla.node.cli.secure_app import secure as secure_app
from ottla.node.cli.shell_completion import (
    INSTALL,
    PROGRAM,
    SHOW,
    Shell,
    answer_shells,
    install_completion,
    own_shell,
    show_completion,
)
from ottla.node.cli.topic_app import topic
from ottla.node.cli.txn_app import txn
from ottla.node.cli.user_app import user
from ottla.node.client.refusal import Refused
from ottla.node.tools.closed_pipe import end_quietly, is_of_output, output_refused

if TYPE_CHECKING:  # imported late, with the client
    from ottla.node.cli.record_commands import PrintOptions
    from ottla.node.client.cluster_client import Client


app = typer.Typer(
    name="ottla",
    cls=WithAddedCommands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="An event-streaming node for any Kafka client, and tools to work with Kafka clusters.\n\n"
    "Every command except start, hand-over, cluster, secure and rest also works with Apache Kafka.",
)
log = typer.Typer(no_args_is_help=True, help="Inspect the files of a log.")
app.add_typer(cluster, name="cluster")
app.add_typer(quorum, name="quorum")
app.add_typer(broker, name="broker")
app.add_typer(topic, name="topic")
app.add_typer(group, name="group")
app.add_typer(txn, name="txn")
app.add_typer(client_metrics, name="client-metrics")
app.add_typer(user, name="user")
app.add_typer(acl, name="acl")
app.add_typer(quota, name="quota")
app.add_typer(secure_app, name="secure")
app.add_typer(profile, name="profile")
app.add_typer(perf, name="perf")
app.add_typer(log, name="log")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"ottla {version('ottla')}")
        raise typer.Exit


@app.callback()
def ottla(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit"),
    ] = False,
    install: Annotated[
        Shell | None,
        typer.Option(
            INSTALL,
            callback=install_completion,
            is_eager=True,
            help="install tab completion of ottla for bash, zsh or fish (default: your shell)",
        ),
    ] = None,
    show: Annotated[
        Shell | None,
        typer.Option(
            SHOW,
            callback=show_completion,
            is_eager=True,
            help="print the completion script, without installing it",
        ),
    ] = None,
) -> None:
    """The options of `ottla` itself."""


@app.command()
def start(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a properties file like Kafka's server.properties")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=1, max=65535, help="listen on this port on all addresses (default 9092)"
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="store data in this directory (default ./ottla-data)")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="format of the node's own log: text or json")
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            metavar="USER",
            help="first user of a new cluster, as SCRAM-SHA-512=[name=NAME,password=PASSWORD]; repeatable",
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="use TLS, logins and ACLs: create certificates and an administrator next to the data, and "
            "print the path of the administrator's client settings",
        ),
    ] = False,
    nodes_per_host: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto",
            help="on a host of a cluster: run this many nodes, one process each; auto: one per core",
        ),
    ] = None,
    print_settings: Annotated[
        bool, typer.Option("--print-settings", help="print the settings of the node, and do not start it")
    ] = False,
    override: Override = None,
) -> None:
    """Run a node in the foreground; Ctrl-C or SIGTERM stops it cleanly.

    Examples:

        ottla start --port 9092 --data /var/lib/ottla --override log.retention.hours=24

        ottla start --secure
    """
    from ottla.node.cli.serve import start

    overrides = list(override or [])
    if add_scram:
        overrides.append(f"ottla.add.scram={';'.join(add_scram)}")
    start(
        config,
        port=port,
        data=data,
        log_format=log_format,
        overrides=overrides,
        is_secure=secure,
        prints_settings=print_settings,
        nodes_per_host=nodes_per_host,
    )


@app.command("hand-over")
def hand_over(
    pid: Annotated[int, typer.Option(min=1, metavar="PID", help="the process id of the node")],
    node_id: Annotated[
        int,
        typer.Option(
            "--node-id", envvar="OTTLA_NODE_ID", min=0, metavar="ID", help="the node.id of the node"
        ),
    ],
    linger: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="after the handover, wait this long for clients to find the new leaders",
        ),
    ] = 0.0,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Move leadership away from a node on this host; the node keeps running until you stop it.

    SIGTERM does this too. Use the command to do it earlier, for example in a preStop hook.

    Example: ottla hand-over --pid 1 --node-id 2
    """
    import ottla.node.cli.hand_over as commands

    client, as_json = client_of(bootstrap, command_config, timeout), output == "json"
    run(lambda: commands.hand_over(client, node_id, pid, linger, as_json))


# ---- records -------------------------------------------------------------------------------------


@app.command()
def produce(
    name: Name,
    key_separator: KeySeparator = None,
    input_format: InputFormat = "lines",
    header: Header = None,
    partition: ToPartition = None,
    timestamp: Timestamp = None,
    empty_as_null: EmptyAsNull = False,
    acks: Acks = "all",
    compression: WithCompression = "none",
    idempotent: Idempotent = None,
    create_topic: CreateTopic = False,
    quiet: Quiet = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Send the lines of standard input to a topic, one record per line, and print where they were written.

    At a terminal the offset of each line is printed; otherwise the number of records of each partition and
    their first and last offset, once at the end.

    With --input json each line is an object as `ottla consume --output json` prints it, with "value" and
    optionally "key", "headers", "partition" and "timestamp". Use "key_base64" and "value_base64" for bytes
    that are not text.

    `ottla topic copy` copies a topic.

    Example: printf 'anna:2 apples\\n' | ottla produce orders --key-separator :
    """
    import ottla.node.cli.record_commands as commands

    if key_separator == "":
        raise CommandError("--key-separator must not be empty.", EXIT_USAGE)
    if idempotent and acks != "all":
        raise CommandError(f"--idempotent needs --acks all, not --acks {acks}.", EXIT_USAGE)
    options = commands.ProduceOptions(
        topic=name,
        key_separator=key_separator,
        is_json=input_format == "json",
        headers=tuple(pairs_of(header)),
        partition=partition,
        timestamp=timestamp,
        empty_as_null=empty_as_null,
        acks=ACKS[acks],
        compression=compression,
        idempotent=acks == "all" if idempotent is None else idempotent,
        may_create=create_topic,
        is_quiet=quiet,
        as_json=output == "json",
    )
    run(lambda: commands.produce(client_of(bootstrap, command_config, timeout), options))


@app.command()
def consume(
    topics: Names,
    group: AsGroup = None,
    partition: OnlyPartition = None,
    begin: From = None,
    share: AsShareGroup = None,
    acknowledge: Acknowledge = None,
    worker: Worker = None,
    reject_code: RejectCode = None,
    idle: IdleTimeout = None,
    count: Count = None,
    until_end: UntilEnd = False,
    keys: Keys = False,
    headers: Headers = False,
    partitions: Partitions = False,
    offsets: Offsets = False,
    timestamps: Timestamps = False,
    deliveries: Deliveries = False,
    separator: Separator = "\t",
    template: Format = None,
    output: Output = "text",
    output_file: OutputFile = None,
    append: Append = False,
    raw: Raw = False,
    isolation: Isolation = "read_uncommitted",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Print the records of topics, one per line.

    Consumers with the same --group share the partitions; offsets are committed every five seconds and at the
    end. On a terminal, control characters in records are escaped (\\x1b); files and pipes get the bytes
    unchanged.

    With --share, any number of consumers share the records of a partition. A record is accepted once it is
    printed; records that are held when the command ends are released. A released record is delivered again,
    to any member, up to the delivery limit of the group (5 by default). A new share group starts at the end
    of the log; `ottla group config GROUP --set share.auto.offset.reset=earliest` changes that.

    --exec starts its command without a shell. The value is on its standard input, and in a file whose name
    replaces {}. OTTLA_TOPIC, OTTLA_PARTITION, OTTLA_OFFSET, OTTLA_TIMESTAMP, OTTLA_DELIVERY_COUNT and, if it
    is text of at most 64 KiB, OTTLA_KEY are in its environment; OTTLA_VALUE_IS_NULL marks a null value. Exit
    code 0 accepts the record, 65 (--reject-exit-code) rejects it, any other releases it. The record stays
    locked while the command runs.

    Examples:

        ottla consume orders --from -10 --keys --offsets -n 10

        ottla consume orders --group billing --output json

        ottla consume orders --share workers --exec 'resize-image {}'

        ottla consume orders --from @2026-01-31T12:00:00Z --until-end -f '%p/%o %k=%s\\n'
    """
    import ottla.node.cli.record_commands as commands

    if group == "":
        raise CommandError("The name after --group must not be empty.", EXIT_USAGE)
    if group is not None and partition:
        raise CommandError(
            "--partition cannot be used with --group: the group assigns partitions to its members.",
            EXIT_USAGE,
        )
    show = {
        "deliveries": deliveries,
        "partitions": partitions,
        "offsets": offsets,
        "timestamps": timestamps,
        "headers": headers,
        "keys": keys,
    }
    printing = commands.PrintOptions(
        shown=frozenset(name for name, shown in show.items() if shown),
        separator=separator,
        template=template,
        is_json=output == "json",
        is_raw=raw,
        file=output_file,
        appends=append,
    )
    if append and output_file is None:
        raise CommandError("--append needs --output-file FILE.", EXIT_USAGE)
    if share is not None:
        refused = {
            "--group": group is not None,
            "--partition": bool(partition),
            "--from": begin is not None,
            "--until-end": until_end,
            "--isolation": isolation == "read_committed",
        }
        _consume_shared(
            share,
            tuple(topics),
            [name for name, is_given in refused.items() if is_given],
            acknowledge=acknowledge,
            worker=worker,
            reject_code=reject_code,
            count=count,
            idle=idle,
            printing=printing,
            client=lambda: client_of(bootstrap, command_config, timeout),
        )
        return
    only_shared = {
        "--acknowledge": acknowledge is not None,
        "--exec": worker is not None,
        "--reject-exit-code": reject_code is not None,
        "--idle-timeout": idle is not None,
        "--deliveries": deliveries,
    }
    for name, is_given in only_shared.items():
        if is_given:
            raise CommandError(f"{name} needs --share GROUP.", EXIT_USAGE)
    options = commands.ConsumeOptions(
        topics=tuple(topics),
        group=group,
        partitions=tuple(partition or ()),
        begin=begin or "beginning",
        count=count,
        until_end=until_end,
        read_committed=isolation == "read_committed",
    )
    formatter = commands.formatter_of(printing)
    with commands.open_output(printing) as file:
        run(lambda: commands.consume(client_of(bootstrap, command_config, timeout), options, formatter, file))


def _consume_shared(
    group: str,
    topics: tuple[str, ...],
    refused: list[str],
    *,
    acknowledge: str | None,
    worker: str | None,
    reject_code: int | None,
    count: int | None,
    idle: float | None,
    printing: "PrintOptions",
    client: "Callable[[], Client]",
) -> None:
    """Check that the options of `ottla consume --share` fit together, then consume."""
    import ottla.node.cli.share_commands as commands
    from ottla.node.cli.record_commands import formatter_of, open_output
    from ottla.node.cli.record_worker import REJECT_EXIT_CODE, RecordWorker
    from ottla.node.wire.acknowledge_type import AcknowledgeType

    if group == "":
        raise CommandError("The name after --share must not be empty.", EXIT_USAGE)
    if refused:
        raise CommandError(
            f"{refused[0]} cannot be used with --share: the share group decides where its members read. "
            f"`ottla group config {group}` shows its settings, `ottla group reset` sets its start offsets.",
            EXIT_USAGE,
        )
    if worker is not None and acknowledge is not None:
        raise CommandError(
            "--acknowledge cannot be used with --exec: the exit code acknowledges the record.", EXIT_USAGE
        )
    if reject_code is not None and worker is None:
        raise CommandError("--reject-exit-code needs --exec COMMAND.", EXIT_USAGE)
    options = commands.ShareOptions(
        topics=topics,
        group=group,
        acknowledge=AcknowledgeType[(acknowledge or "accept").upper()],
        worker=None if worker is None else RecordWorker(worker, reject_code or REJECT_EXIT_CODE),
        count=count,
        idle_s=idle,
    )
    formatter = formatter_of(printing)
    with open_output(printing) as file:
        run(lambda: commands.consume(client(), options, formatter, file))


@app.command("rest")
def rest(
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE"],
        typer.Argument(metavar="METHOD", case_sensitive=False, help="GET, POST, PUT, PATCH or DELETE"),
    ],
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="the path and query of the request, as in /v3/clusters")
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data", "-d", metavar="JSON|@FILE|-", help="the body: as given, of a file, or standard input"
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="send this header; repeatable"),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            envvar="OTTLA_REST",
            metavar="URL",
            help="the REST API of a node (default: rest.url of the command config or profile, or "
            "http://localhost:8082)",
        ),
    ] = None,
    output: Annotated[
        Literal["text", "json"],
        typer.Option("--output", help="text: the body; json: an object with the status and the body"),
    ] = "text",
    command_config: CommandConfig = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.1, help="wait at most this long for each part of the answer"
        ),
    ] = 30.0,
) -> None:
    """Send a request to the REST API of a node, and print the body of the answer.

    The user and password, token or certificate of the command config or profile log in; they are sent over
    https, or to this machine. On a terminal JSON is indented. The exit code is 1 unless the status is 2xx.
    `/openapi.html` of a node describes all requests.

    Examples:

        ottla rest GET /v3/clusters

        ottla rest POST /v1/topics/orders/trim --data '{"to_end": true, "dry_run": true}'
    """
    import ottla.node.cli.rest_command as commands
    from ottla.node.cli.command_config import rest_connection_of

    connection = rest_connection_of(url, command_config)
    request = commands.request_of(method, path, data, header or [], timeout)
    run(lambda: commands.ask(connection, request, as_json=output == "json"))


@app.command("completion")
def completion(
    shell: Annotated[Shell | None, typer.Argument(metavar="[bash|zsh|fish]", help="default: $SHELL")] = None,
    install: Annotated[
        bool, typer.Option("--install", help="write the script where the shell finds it")
    ] = False,
) -> None:
    """Print the completion script of a shell, or install it.

    Examples:

        source <(ottla completion bash)

        ottla completion --install
    """
    name = shell or own_shell()
    if install:
        install_completion(name)
    else:
        show_completion(name)


@log.command(
    "dump",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
def log_dump(context: typer.Context) -> None:
    """Print the contents of log files: batches, records, indexes, snapshots, checkpoints."""
    from ottla.node.tools.dump_log import main as dump

    raise typer.Exit(dump(context.args, program="ottla log dump"))


# ---- doctor ----------------------------------------------------------------------------------------


@app.command()
def doctor(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            envvar="OTTLA_BOOTSTRAP",
            metavar="HOST:PORT,...",
            help=f"examine this cluster (default {LOCAL}, unless --config is given)",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="examine the node with this properties file, on this machine"),
    ] = None,
    override: Override = None,
    command_config: CommandConfig = None,
    output: Output = "text",
    as_json: Annotated[bool, typer.Option("--json", hidden=True, help="as --output json")] = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.1, help="wait at most this long for each answer"),
    ] = 3.0,
) -> None:
    """Diagnose a cluster, or a node on its own machine: print one sentence for each problem.

    The doctor examines listeners, advertised addresses, the metadata quorum, disks, clocks, versions and
    limits. It changes nothing. The exit code is 1 if it finds a problem.

    Examples:

        ottla doctor --bootstrap broker-1:9092,broker-2:9092

        ottla doctor --config /etc/ottla/server.properties
    """
    from ottla.node.cli.command_config import connection_of
    from ottla.node.cli.doctor_command import doctor

    examines_node = config is not None or bool(override)
    command = connection_of(bootstrap, command_config, examines_node=examines_node)
    given = command.bootstrap or (None if examines_node else LOCAL)
    run(
        lambda: doctor(
            given,
            config,
            override or [],
            command=command,
            timeout_s=timeout,
            as_json=as_json or output == "json",
        )
    )


# ---- the process -----------------------------------------------------------------------------------


def main() -> int:
    """Run `ottla` with the arguments of the process; return the exit code."""
    try:
        code = _invoke()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # the reader of the pipe has ended
        return end_quietly()
    except CommandError as error:
        return _print_error(str(error), error.exit_code)
    except Refused as error:
        return _print_refusal(error)
    except KafkaError as error:
        return _print_error(explain(error), 1)
    except BaseExceptionGroup as group:
        return _print_error_group(group)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except OSError as error:
        if not is_of_output(error):
            raise
        end_quietly()
        return _print_error(output_refused(error), EXIT_FAILURE)
    except Exception as error:
        show = getattr(error, "show", None)  # an error of click: bad usage
        if show is None:
            raise
        show()
        return int(getattr(error, "exit_code", EXIT_USAGE))


def _invoke() -> object:
    answer_shells()
    try:
        return app(prog_name=PROGRAM, standalone_mode=False)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # click turns it into exit code 1
            raise end.__context__ from None
        raise
    finally:
        forget_command()


def _print_error_group(group: BaseExceptionGroup[BaseException]) -> int:
    """Print the first error that has a message, and return its exit code; raise the group if none has one."""
    for error in group.exceptions:
        if isinstance(error, KafkaError):
            return _print_error(explain(error), 1)
        if isinstance(error, CommandError):
            return _print_error(str(error), error.exit_code)
        if isinstance(error, Refused):
            return _print_refusal(error)
        if isinstance(error, OSError) and is_of_output(error):
            end_quietly()
            return _print_error(output_refused(error), EXIT_FAILURE)
    raise group


def _print_refusal(error: Refused) -> int:
    from ottla.logstore.words.escaped_text import escape_controls  # it may contain names that users chose

    return _print_error(escape_controls(str(error)), EXIT_FAILURE)


def _print_error(sentence: str, code: int) -> int:
    print(f"ottla: {sentence}", file=sys.stderr)
    return code
