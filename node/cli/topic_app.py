"""`ottla topic ...`: the commands and their options; `topic_commands` runs them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ottla.node.cli.command_options import (
    Bootstrap,
    CheckOnly,
    CommandConfig,
    DryRun,
    Name,
    Names,
    Output,
    ResetConfig,
    SetConfig,
    Setting,
    ShowDefaults,
    ShowDocumentation,
    Timeout,
    client_of,
    other_client,
    pairs_of,
    run,
)
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.profile_option import complete_profiles
from ottla.node.cli.record_options import OnlyPartition, WithCompression

OptionalNames = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...")]
topic = typer.Typer(no_args_is_help=True, help="Create, inspect and change topics.")


@topic.command("create")
def topic_create(
    topics: Names,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", metavar="N", min=-1, help="-1: the cluster's default")
    ] = -1,
    replicas: Annotated[
        int, typer.Option("--replicas", "-r", metavar="N", min=-1, help="-1: the cluster's default")
    ] = -1,
    config: Setting = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="do not fail if the topic exists")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check only")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Create topics.

    Example: ottla topic create orders --partitions 6 -c cleanup.policy=compact
    """
    import ottla.node.cli.topic_commands as commands

    settings = dict(pairs_of(config))
    run(
        lambda: commands.create(
            client_of(bootstrap, command_config, timeout),
            topics,
            partitions,
            replicas,
            settings,
            if_not_exists,
            dry_run,
            output == "json",
        )
    )


@topic.command("list")
def topic_list(
    internal: Annotated[bool, typer.Option("--internal", help="also show internal topics")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """List topics with their partitions and replicas."""
    import ottla.node.cli.topic_commands as commands

    run(lambda: commands.list_all(client_of(bootstrap, command_config, timeout), internal, output == "json"))


@topic.command("describe")
def topic_describe(
    topics: OptionalNames = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="only partitions with replicas that are not in sync")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="only partitions without a leader")
    ] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show the leader, replicas and offsets of each partition, and the settings that are not defaults.

    With --under-replicated or --unavailable, show those partitions of all topics, or of the topics named.

    Example: ottla topic describe --under-replicated
    """
    import ottla.node.cli.topic_commands as commands

    client, as_json = client_of(bootstrap, command_config, timeout), output == "json"
    if under_replicated or unavailable:
        run(
            lambda: commands.describe_unhealthy(
                client, topics, under_replicated=under_replicated, unavailable=unavailable, as_json=as_json
            )
        )
        return
    if not topics:
        raise CommandError("Name a topic, or use --under-replicated or --unavailable.", EXIT_USAGE)
    run(lambda: commands.describe(client, topics, as_json))


@topic.command("alter")
def topic_alter(
    name: Name,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", metavar="N", min=1, help="the new number of partitions")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check only")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Add partitions to a topic; records with a key may then go to a different partition than before.

    Example: ottla topic alter orders --partitions 12
    """
    import ottla.node.cli.topic_commands as commands

    as_json = output == "json"
    client = client_of(bootstrap, command_config, timeout)
    run(lambda: commands.alter(client, name, partitions, dry_run, as_json))


@topic.command("delete")
def topic_delete(
    topics: Names,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="do not fail if the topic does not exist")
    ] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Delete topics and all their records."""
    import ottla.node.cli.topic_commands as commands

    as_json = output == "json"
    run(lambda: commands.delete(client_of(bootstrap, command_config, timeout), topics, if_exists, as_json))


@topic.command("trim")
def topic_trim(
    name: Name,
    before_offset: Annotated[
        str | None,
        typer.Option("--before-offset", metavar="N|end", help="delete the records before this offset"),
    ] = None,
    before_timestamp: Annotated[
        str | None,
        typer.Option(
            "--before-timestamp",
            metavar="DATE|MS",
            help="delete the records before the first one that is not older than this",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="only this partition; repeatable"),
    ] = None,
    dry_run: DryRun = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Delete the oldest records of a topic: partitions begin at a later offset afterwards.

    Deleted records cannot be brought back.

    Examples:

        ottla topic trim orders --before-timestamp 2026-01-31T12:00:00Z --dry-run

        ottla topic trim orders --partition 0 --before-offset 1042
    """
    import ottla.node.cli.trim_command as commands

    if (before_offset is None) == (before_timestamp is None):
        raise CommandError("Give either --before-offset or --before-timestamp.", EXIT_USAGE)
    options = commands.TrimOptions(
        topic=name,
        partitions=partition or (),
        before_offset=None if before_offset is None else commands.parse_offset(before_offset),
        before_ms=None if before_timestamp is None else commands.parse_timestamp(before_timestamp),
        dry_run=dry_run,
        as_json=output == "json",
    )
    run(lambda: commands.trim(client_of(bootstrap, command_config, timeout), options))


@topic.command("copy")
def topic_copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="the topic that is read")],
    target: Annotated[str, typer.Argument(metavar="TO", help="the topic that is written to")],
    partition: OnlyPartition = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            "-o",
            metavar="PLACE",
            help="where to start: beginning, an offset, -N (newest N records of each partition), @ms, @date",
        ),
    ] = "beginning",
    compression: WithCompression = "none",
    create_topic: Annotated[
        bool,
        typer.Option(
            "--create-topic",
            help="create TO with as many partitions, and the defaults of its cluster, if it does not exist",
        ),
    ] = False,
    to_bootstrap: Annotated[
        str | None,
        typer.Option("--to-bootstrap", metavar="HOST:PORT,...", help="TO is in the cluster of these brokers"),
    ] = None,
    to_profile: Annotated[
        str | None,
        typer.Option(
            "--to-profile",
            metavar="NAME",
            help="TO is in the cluster of this profile",
            autocompletion=complete_profiles,
        ),
    ] = None,
    to_command_config: Annotated[
        Path | None,
        typer.Option(
            "--to-command-config", metavar="FILE", help="TO is in the cluster of this properties file"
        ),
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Copy the records that a topic has now into another topic, of this cluster or another one.

    Each partition is copied into the one of the same number, with keys, headers, timestamps and order.
    Records of aborted transactions are left out, and a partition is copied only up to the first record of an
    open transaction. After an error or Ctrl-C the table shows where to continue each partition:
    `--partition N --from OFFSET`.

    Examples:

        ottla topic copy orders orders-copy --create-topic

        ottla topic copy orders orders --to-profile backup --from @2026-01-31T12:00:00Z
    """
    import ottla.node.cli.copy_command as commands

    options = commands.CopyOptions(
        source=source,
        target=target,
        partitions=partition or (),
        begin=begin,
        compression=compression,
        may_create=create_topic,
        as_json=output == "json",
    )
    client = client_of(bootstrap, command_config, timeout)
    other = other_client(to_bootstrap, to_command_config, to_profile, timeout)
    run(lambda: commands.copy(client, other or client, options))


@topic.command("reassign")
def topic_reassign(
    name: Annotated[str | None, typer.Argument(metavar="[TOPIC]")] = None,
    replicas: Annotated[
        list[str] | None,
        typer.Option(
            "--replicas",
            "-r",
            metavar="[P:]ID,ID,...",
            help="new brokers of all partitions, or of partition P; repeatable",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--json",
            "--reassignment-json-file",
            metavar="FILE",
            help="execute the plan in this file, in the format of kafka-reassign-partitions",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="with --json, show the state of the plan, and remove throttles once nothing moves",
        ),
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="cancel moves that are under way")] = False,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle",
            metavar="BYTES",
            min=1,
            help="with --json, copy at most this many bytes per second to and from each broker",
        ),
    ] = None,
    log_dirs_throttle: Annotated[
        int | None,
        typer.Option(
            "--replica-alter-log-dirs-throttle",
            metavar="BYTES",
            min=1,
            help="with --json, copy at most this many bytes per second between log directories of a broker",
        ),
    ] = None,
    preserve_throttles: Annotated[
        bool, typer.Option("--preserve-throttles", help="with --verify, leave throttles as they are")
    ] = False,
    generate: Annotated[
        bool, typer.Option("--generate", help="print a plan that spreads topics over the brokers of a list")
    ] = False,
    topics_file: Annotated[
        Path | None,
        typer.Option(
            "--topics-to-move-json-file", metavar="FILE", help="with --generate, the topics of the plan"
        ),
    ] = None,
    broker_list: Annotated[
        str | None, typer.Option("--broker-list", metavar="ID,ID,...", help="with --generate, the brokers")
    ] = None,
    ignore_racks: Annotated[
        bool, typer.Option("--disable-rack-aware", help="with --generate, ignore racks")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="wait until the moves are complete")] = True,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 60.0,
) -> None:
    """Move partitions to other brokers; with a topic alone, show the moves under way.

    The first broker in a list is the preferred leader. Plans and their output are those of
    kafka-reassign-partitions: --generate prints the current assignment and a plan, --json executes a plan.

    Examples:

        ottla topic reassign orders --replicas 0,1,2

        ottla topic reassign orders -r 0:2,1 -r 1:1,2 --no-wait

        ottla topic reassign orders --generate --broker-list 1,2,3

        ottla topic reassign --json plan.json --throttle 10000000
    """
    import ottla.node.cli.plan_commands as plans
    import ottla.node.cli.reassign_commands as commands

    as_json = output == "json"
    of_plans = {
        "--verify": verify,
        "--throttle": throttle is not None,
        "--replica-alter-log-dirs-throttle": log_dirs_throttle is not None,
    }
    is_throttled = throttle is not None or log_dirs_throttle is not None
    of_generate = {
        "--topics-to-move-json-file": topics_file is not None,
        "--broker-list": broker_list is not None,
        "--disable-rack-aware": ignore_racks,
    }
    _check_goes_with("--json", plan is not None, of_plans)
    _check_goes_with("--generate", generate, of_generate)
    _check_goes_with("--verify", verify, {"--preserve-throttles": preserve_throttles})
    if sum((generate, plan is not None, bool(replicas))) > 1:
        raise CommandError("Use one of --replicas, --json and --generate.", EXIT_USAGE)
    if verify + cancel + is_throttled > 1:
        raise CommandError("Use one of --verify, --cancel and --throttle.", EXIT_USAGE)
    if generate:
        if (name is None) == (topics_file is None):
            raise CommandError("Name a topic or give --topics-to-move-json-file.", EXIT_USAGE)
        if broker_list is None:
            raise CommandError("--generate needs --broker-list.", EXIT_USAGE)
        topics = [name] if name is not None else plans.read_topics(topics_file or Path())
        brokers = plans.parse_brokers(broker_list)
        client = client_of(bootstrap, command_config, timeout)
        run(lambda: plans.generate(client, topics, brokers, ignores_racks=ignore_racks, as_json=as_json))
        return
    if plan is not None:
        if name is not None:
            raise CommandError("The plan of --json names its topics: leave the topic out.", EXIT_USAGE)
        wanted = plans.read_plan(plan)
        client = client_of(bootstrap, command_config, timeout)
        if verify:
            run(lambda: plans.verify(client, wanted, keeps_throttles=preserve_throttles, as_json=as_json))
        elif cancel:
            run(lambda: plans.cancel(client, wanted, as_json=as_json))
        else:
            run(
                lambda: plans.execute(
                    client,
                    wanted,
                    rate=throttle,
                    log_dirs_rate=log_dirs_throttle,
                    waits=wait,
                    as_json=as_json,
                )
            )
        return
    if name is None:
        raise CommandError("Name a topic, or use --json or --generate.", EXIT_USAGE)
    moves = commands.parse_moves(replicas or [])
    client = client_of(bootstrap, command_config, timeout)
    if cancel:
        run(lambda: commands.cancel(client, name, as_json))
    elif moves:
        run(lambda: commands.reassign(client, name, moves, wait, as_json))
    else:
        run(lambda: commands.show(client, name, as_json))


def _check_goes_with(option: str, is_given: bool, others: Mapping[str, bool]) -> None:
    """Raise CommandError for an option that is given without the one it needs."""
    needing = next((other for other, is_other_given in others.items() if is_other_given), None)
    if needing is not None and not is_given:
        raise CommandError(f"{needing} needs {option}.", EXIT_USAGE)


@topic.command("elect")
def topic_elect(
    topics: Names,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="only this partition; repeatable"),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="where no replica is in sync, elect any live one; this loses records"),
    ] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Elect leaders: return leadership to the preferred replicas, the first of each replica list."""
    import ottla.node.cli.reassign_commands as commands

    run(
        lambda: commands.elect(
            client_of(bootstrap, command_config, timeout), topics, partition or [], unclean, output == "json"
        )
    )


@topic.command("config")
def topic_config(
    name: Name,
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
    """Show or change the settings of a topic.

    Example: ottla topic config orders --set retention.ms=86400000 --reset segment.bytes
    """
    import ottla.node.cli.config_commands as commands
    from ottla.node.client.topic_admin import config_of_topic

    settings, resource = dict(pairs_of(change)), config_of_topic(name)
    client = client_of(bootstrap, command_config, timeout)
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
