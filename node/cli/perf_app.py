"""`ottla perf ...`: the commands and their options; `perf_commands` runs them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.node.cli.command_options import Bootstrap, CommandConfig, Name, Output, Timeout, client_of, run
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.record_options import ACKS, Acks, WithCompression

if TYPE_CHECKING:  # imported late, with the client
    from ottla.node.cli.perf_commands import NewTopic

perf = typer.Typer(no_args_is_help=True, help="Measure how fast a cluster accepts and returns records.")
RecordSize = Annotated[
    int,
    typer.Option("--record-size", metavar="BYTES", min=1, max=64 * 1024 * 1024, help="bytes of each record"),
]
CreateTopic = Annotated[
    bool, typer.Option("--create-topic", help="create the topic, which must be new, and delete it at the end")
]
Partitions = Annotated[
    int,
    typer.Option(
        "--partitions", "-p", metavar="N", min=-1, help="partitions of --create-topic; -1: the default"
    ),
]
Replicas = Annotated[
    int,
    typer.Option(
        "--replicas",
        "-r",
        metavar="N",
        min=-1,
        help="replicas of each partition of --create-topic; -1: the default",
    ),
]


def _new_topic(is_made: bool, partitions: int, replicas: int) -> "NewTopic | None":
    from ottla.node.cli.perf_commands import NewTopic

    if is_made:
        return NewTopic(partitions=partitions, replicas=replicas)
    if partitions != -1 or replicas != -1:
        raise CommandError("--partitions and --replicas need --create-topic.", EXIT_USAGE)
    return None


@perf.command("produce")
def perf_produce(
    name: Name,
    records: Annotated[
        int, typer.Option("--records", "--num-records", "-n", metavar="N", min=1, help="records to send")
    ] = 100_000,
    record_size: RecordSize = 100,
    throughput: Annotated[
        float | None,
        typer.Option(
            "--throughput",
            metavar="N",
            min=0.01,
            help="at most this many records per second (default: no limit)",
        ),
    ] = None,
    payload_file: Annotated[
        Path | None,
        typer.Option(
            "--payload-file", metavar="FILE", help="send random lines of this file instead of random letters"
        ),
    ] = None,
    acks: Acks = "all",
    compression: WithCompression = "none",
    create_topic: CreateTopic = False,
    partitions: Partitions = -1,
    replicas: Replicas = -1,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Send records as fast as one client can, or at a rate, and print throughput and latencies.

    The output is that of kafka-producer-perf-test: a line every five seconds, and one at the end, also after
    Ctrl-C. The latency of a record is the time from its addition to a batch to its acknowledgement.

    Example: ottla perf produce measured --create-topic -n 1000000 --record-size 1000 --throughput 5000
    """
    import ottla.node.cli.perf_commands as commands

    load = commands.ProduceLoad(
        topic=name,
        records=records,
        record_bytes=record_size,
        throughput=throughput,
        payload_file=payload_file,
        acks=ACKS[acks],
        compression=compression,
        creates=_new_topic(create_topic, partitions, replicas),
        as_json=output == "json",
    )
    run(lambda: commands.produce(client_of(bootstrap, command_config, timeout), load))


@perf.command("consume")
def perf_consume(
    name: Name,
    records: Annotated[
        int | None,
        typer.Option(
            "--records",
            "--messages",
            "-n",
            metavar="N",
            min=1,
            help="read at least this many, and wait for more if needed (default: all that exist now)",
        ),
    ] = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            "-o",
            metavar="PLACE",
            help="where to start: beginning, end, an offset, -N, @ms or @date",
        ),
    ] = "beginning",
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Read records as fast as one client can, and print the columns of kafka-consumer-perf-test.

    No group is joined. Ctrl-C prints the figures so far.

    Example: ottla perf consume orders -n 1000000
    """
    import ottla.node.cli.perf_commands as commands

    load = commands.ConsumeLoad(topic=name, records=records, begin=begin, as_json=output == "json")
    run(lambda: commands.consume(client_of(bootstrap, command_config, timeout), load))


@perf.command("latency")
def perf_latency(
    name: Name,
    records: Annotated[
        int, typer.Option("--records", "--num-records", "-n", metavar="N", min=1, help="records to send")
    ] = 1_000,
    record_size: RecordSize = 100,
    acks: Acks = "all",
    create_topic: CreateTopic = False,
    partitions: Partitions = -1,
    replicas: Replicas = -1,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Send one record after the other, read each, and print the latencies.

    The figures are those of kafka-e2e-latency. Ctrl-C prints them so far.

    Example: ottla perf latency measured --create-topic
    """
    import ottla.node.cli.perf_commands as commands

    load = commands.LatencyLoad(
        topic=name,
        records=records,
        record_bytes=record_size,
        acks=ACKS[acks],
        creates=_new_topic(create_topic, partitions, replicas),
        as_json=output == "json",
    )
    run(lambda: commands.latency(client_of(bootstrap, command_config, timeout), load))
