"""`ottla broker ...`: the commands and their options."""

from typing import Annotated

import typer

from ottla.node.cli.command_options import (
    Bootstrap,
    CheckOnly,
    CommandConfig,
    DryRun,
    Output,
    ResetConfig,
    SetConfig,
    ShowDefaults,
    ShowDocumentation,
    Timeout,
    client_of,
    pairs_of,
    run,
)
from ottla.node.cli.failure import EXIT_USAGE, CommandError

broker = typer.Typer(
    no_args_is_help=True, help="List, inspect, configure, drain and remove the brokers of a cluster."
)

BrokerId = Annotated[int, typer.Argument(metavar="ID", min=0, help="the id of the broker")]
BrokerIds = Annotated[
    list[int] | None, typer.Argument(metavar="[ID]...", min=0, help="ids of brokers (default: all)")
]
Rate = Annotated[int | None, typer.Option("--rate", metavar="BYTES", min=1, help="bytes per second")]


@broker.command("list")
def broker_list(
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """List all brokers, fenced ones included, with the partitions that each holds and leads."""
    import ottla.node.cli.broker_commands as commands

    run(lambda: commands.list_all(client_of(bootstrap, command_config, timeout), output == "json"))


@broker.command("decommission")
def broker_decommission(
    broker_id: BrokerId,
    dry_run: DryRun = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.1, help="give up after this long without progress"
        ),
    ] = 60.0,
) -> None:
    """Move all partitions away from a broker, wait until it is stopped, and remove it from the cluster.

    The broker may already be dead. If it is a voter, first remove it from the metadata quorum. If the command
    is interrupted, run it again: it continues where it stopped.

    Example: ottla broker decommission 3 --dry-run
    """
    import ottla.node.cli.broker_commands as commands

    client = client_of(bootstrap, command_config, timeout)
    if dry_run:
        run(lambda: commands.show_plan(client, broker_id, output == "json"))
    else:
        run(lambda: commands.decommission_broker(client, broker_id, output == "json"))


@broker.command("config")
def broker_config(
    broker_id: Annotated[
        str, typer.Argument(metavar="ID|all", help="a broker, or the settings that all of them share")
    ],
    change: SetConfig = None,
    reset: ResetConfig = None,
    everything: ShowDefaults = False,
    documentation: ShowDocumentation = False,
    dry_run: CheckOnly = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show or change the settings of a running broker; without --all, show only those that were changed.

    Examples:

        ottla broker config 1 --all

        ottla broker config all --set log.retention.ms=86400000
    """
    import ottla.node.cli.config_commands as commands
    from ottla.node.client.config_admin import config_of_all_brokers, config_of_broker

    if broker_id != "all" and not (broker_id.isascii() and broker_id.isdigit()):
        raise CommandError(f"{broker_id!r} is neither the id of a broker nor all.", EXIT_USAGE)
    resource = config_of_all_brokers() if broker_id == "all" else config_of_broker(int(broker_id))
    settings, client = dict(pairs_of(change)), client_of(bootstrap, command_config, timeout)
    run(
        lambda: commands.configure(
            client,
            resource,
            settings,
            reset or [],
            everything=everything,
            with_documentation=documentation,
            dry_run=dry_run,
            as_json=output == "json",
        )
    )


@broker.command("log-dirs")
def broker_log_dirs(
    broker_ids: BrokerIds = None,
    replicas: Annotated[bool, typer.Option("--replicas", help="list the replicas in each directory")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show the log directories of brokers: the space on their disks, and the size of their replicas."""
    import ottla.node.cli.broker_maintenance as commands

    client, as_json = client_of(bootstrap, command_config, timeout), output == "json"
    run(lambda: commands.log_dirs(client, broker_ids, with_replicas=replicas, as_json=as_json))


@broker.command("drain")
def broker_drain(
    broker_id: BrokerId,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Move leadership from a broker to others; its replicas stay where they are.

    Use it before maintenance, and `ottla broker undrain` afterwards. To move the replicas away too, use
    `ottla broker decommission`.
    """
    import ottla.node.cli.broker_maintenance as commands

    run(lambda: commands.drain(client_of(bootstrap, command_config, timeout), broker_id, output == "json"))


@broker.command("undrain")
def broker_undrain(
    broker_id: BrokerId,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Give a broker its share of leaders again, after `ottla broker drain`."""
    import ottla.node.cli.broker_maintenance as commands

    run(lambda: commands.undrain(client_of(bootstrap, command_config, timeout), broker_id, output == "json"))


@broker.command("throttle")
def broker_throttle(
    broker_ids: BrokerIds = None,
    rate: Rate = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="throttle all partitions of this topic; repeatable"),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="remove all limits")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show or limit how fast brokers copy replicas, for example while partitions move.

    A limit applies to the topics that are named, now or earlier.

    Examples:

        ottla broker throttle --rate 20000000 --topic orders

        ottla broker throttle --clear
    """
    import ottla.node.cli.broker_maintenance as commands

    if clear and (rate is not None or topic or broker_ids):
        raise CommandError("--clear removes all limits, and cannot be used with other options.", EXIT_USAGE)
    if rate is None and (topic or broker_ids):
        raise CommandError("Give the limit with --rate BYTES.", EXIT_USAGE)
    client, as_json = client_of(bootstrap, command_config, timeout), output == "json"
    if clear:
        run(lambda: commands.clear_throttles(client, as_json))
    elif rate is not None:
        run(lambda: commands.throttle(client, broker_ids, rate, topic or [], as_json))
    else:
        run(lambda: commands.show_throttles(client, as_json))
