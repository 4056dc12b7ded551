"""`ottla group ...`: the commands and their options; `group_commands` runs them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.node.cli.command_options import (
    Bootstrap,
    CheckOnly,
    CommandConfig,
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

if TYPE_CHECKING:
    from ottla.node.client.group_offsets import Target

group = typer.Typer(
    no_args_is_help=True,
    help="Inspect and change consumer and share groups: members, offsets, lag.",
)

Group = Annotated[str, typer.Argument(metavar="GROUP")]
Groups = Annotated[list[str] | None, typer.Argument(metavar="GROUP...")]
# The second name is that of kafka-consumer-groups.
Every = Annotated[
    bool,
    typer.Option("--all", "--all-groups", help="all consumer groups; share groups must be named"),
]
EveryShown = Annotated[
    bool, typer.Option("--all", "--all-groups", help="all consumer groups and share groups")
]


@group.command("list")
def group_list(
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="STATE,...", help="only groups in these states, such as stable,empty"
        ),
    ] = None,
    group_type: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE,...", help="only groups of these types, such as consumer,share"),
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """List the groups of the cluster."""
    import ottla.node.cli.group_commands as commands

    states = commands.parse_words(state, commands.STATES, "group state")
    types = commands.parse_words(group_type, commands.TYPES, "group type")
    run(
        lambda: commands.list_all(
            client_of(bootstrap, command_config, timeout), states, types, output == "json"
        )
    )


@group.command("describe")
def group_describe(
    groups: Groups = None,
    every: EveryShown = False,
    timeline: Annotated[
        bool,
        typer.Option("--timeline", help="also show the latest rebalances, with their causes and durations"),
    ] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show the state of groups, and for each partition the committed offset, the lag and the member.

    For a share group: the start offset, before which no record is delivered again, the number of records
    after it that are neither acknowledged nor archived, and the number of members that read the partition.
    While members read, also the records that they hold, those that are available again or delayed, the most
    deliveries of one record, and the time until the next lock expires.
    """
    import ottla.node.cli.group_commands as commands

    names = _names(groups, every)
    run(
        lambda: commands.describe(
            client_of(bootstrap, command_config, timeout),
            names,
            every=every,
            timeline=timeline,
            as_json=output == "json",
        )
    )


@group.command("members")
def group_members(
    name: Group,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="also show the partitions of each member")
    ] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """List the members of a group."""
    import ottla.node.cli.group_commands as commands

    run(
        lambda: commands.members(
            client_of(bootstrap, command_config, timeout), name, verbose, output == "json"
        )
    )


@group.command("lag")
def group_lag(
    groups: Groups = None,
    every: EveryShown = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="TOPIC[:P,...]", help="only this topic or these partitions; repeatable"
        ),
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option("--watch", metavar="SECONDS", min=0.1, help="print again every SECONDS seconds"),
    ] = None,
    max_lag: Annotated[
        int | None,
        typer.Option(
            "--max-lag",
            metavar="RECORDS",
            min=0,
            help="exit with code 1 if a group lags by more records than this",
        ),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-seconds",
            metavar="SECONDS",
            min=0,
            help="exit with code 1 if a group lags by more seconds than this",
        ),
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show the lag of groups, in records and in seconds.

    The lag in seconds is the age of the oldest record not yet committed, by this machine's clock. The limits
    --max-lag and --max-seconds apply to each group as a whole. Partitions without a committed offset have no
    lag. Share groups have a lag in records only.

    Examples:

        ottla group lag billing --watch 5

        ottla group lag billing --max-lag 1000 --max-seconds 60
    """
    import ottla.node.cli.group_commands as commands

    options = commands.LagOptions(
        group_ids=tuple(_names(groups, every)),
        every=every,
        topics=commands.parse_topics(topic or ()),
        watch_s=watch,
        max_records=max_lag,
        max_age_s=max_seconds,
        as_json=output == "json",
    )
    run(lambda: commands.lag(client_of(bootstrap, command_config, timeout), options))


@group.command("reset")
def group_reset(
    groups: Groups = None,
    every: Every = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="to the first offset")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="to the end of the log")] = False,
    to_current: Annotated[
        bool,
        typer.Option(
            "--to-current", help="to the committed offset, or to the end of the log if there is none"
        ),
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N")] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", metavar="N", help="by this many records; a negative number moves back"),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="DATE",
            help="to this time, such as 2026-01-31T12:00:00.000, in UTC or with an offset such as +01:00",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="PnDTnHnMnS", help="to this long ago, for example PT15M"),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            metavar="CSV",
            help="to the offsets in this file; its lines are [group,]topic,partition,offset",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="TOPIC[:P,...]", help="only this topic or these partitions; repeatable"
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="all topics with committed offsets of the group")
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="make the change; without it, the change is only shown")
    ] = False,
    export: Annotated[
        bool, typer.Option("--export", help="print the new offsets as lines for --from-file")
    ] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Reset the committed offsets of groups; without --execute, only show the new offsets.

    Stop the members of the groups first. With --all, groups with members or with nothing to reset are skipped
    and reported, and the exit code is 1. An offset outside the log is replaced by the first offset or the log
    end, with a warning; so is a time after the last record.

    A share group must exist, and its start offsets are set: records after them are delivered again, those
    before them never.

    Examples:

        ottla group reset billing --to-earliest --all-topics

        ottla group reset billing --by-duration PT1H --topic orders --execute
    """
    import ottla.node.cli.group_commands as commands

    names = _names(groups, every)
    target = _target(
        names,
        {
            "--to-earliest": to_earliest or None,
            "--to-latest": to_latest or None,
            "--to-current": to_current or None,
            "--to-offset": to_offset,
            "--shift-by": shift_by,
            "--to-datetime": to_datetime,
            "--by-duration": by_duration,
            "--from-file": from_file,
        },
    )
    if (bool(topic) + all_topics) != (from_file is None):
        if from_file is not None:
            refused = "--from-file names the topics itself; remove --topic and --all-topics."
        else:
            refused = "Name the topics to reset with either --topic or --all-topics."
        raise CommandError(refused, EXIT_USAGE)
    options = commands.ResetOptions(
        group_ids=tuple(names),
        every=every,
        topics=commands.parse_topics(topic) if topic else None,
        execute=execute,
        export=export,
        as_json=output == "json",
    )
    run(lambda: commands.reset(client_of(bootstrap, command_config, timeout), target, options))


def _target(groups: list[str], choices: "dict[str, bool | int | str | Path | None]") -> "Target":
    """Return the target of the one option that was given; CommandError if none or several were."""
    import ottla.node.cli.group_commands as commands
    from ottla.node.client import group_reset
    from ottla.node.client.group_offsets import LogBound, ShiftBy, ToOffset
    from ottla.node.client.moments import parse_duration, parse_moment

    given = [(name, value) for name, value in choices.items() if value is not None]
    if len(given) != 1:
        raise CommandError(f"Give exactly one of {', '.join(choices)}.", EXIT_USAGE)
    name, value = given[0]
    try:
        match name, value:
            case "--to-offset", int(offset):
                return ToOffset(offset)
            case "--shift-by", int(by):
                return ShiftBy(by)
            case "--to-datetime", str(text):
                return group_reset.at_time(parse_moment(text))
            case "--by-duration", str(text):
                return group_reset.before_now(parse_duration(text))
            case "--from-file", Path() as path:
                return commands.read_plan(path, groups)
            case _:
                return LogBound(name.removeprefix("--to-"))
    except ValueError as error:
        raise CommandError(f"{error}.", EXIT_USAGE) from None


@group.command("config")
def group_config(
    name: Group,
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
    """Show or change the settings of a group; the group need not exist yet.

    Examples:

        ottla group config billing --set consumer.session.timeout.ms=50000

        ottla group config workers --set share.auto.offset.reset=earliest
    """
    import ottla.node.cli.config_commands as commands
    from ottla.node.client.topic_admin import config_of_group

    settings, resource = dict(pairs_of(change)), config_of_group(name)
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


@group.command("delete")
def group_delete(
    groups: Groups = None,
    every: Every = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="do not fail if the group does not exist")
    ] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Delete groups that have no members, consumer and share groups, with their offsets."""
    import ottla.node.cli.group_commands as commands

    names = _names(groups, every)
    run(
        lambda: commands.delete(
            client_of(bootstrap, command_config, timeout),
            names,
            every=every,
            if_exists=if_exists,
            as_json=output == "json",
        )
    )


@group.command("delete-offsets")
def group_delete_offsets(
    name: Group,
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic", metavar="TOPIC[:P,...]", help="only this topic or these partitions; repeatable"
        ),
    ],
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Delete the committed offsets of a group for topics that none of its members reads.

    A share group must have no members, and loses whole topics: it starts again like a new group.

    Example: ottla group delete-offsets billing --topic orders:0,1
    """
    import ottla.node.cli.group_commands as commands

    topics = commands.parse_topics(topic)
    client = client_of(bootstrap, command_config, timeout)
    run(lambda: commands.delete_offsets(client, name, topics, as_json=output == "json"))


def _names(groups: list[str] | None, every: bool) -> list[str]:
    if bool(groups) == every:
        raise CommandError("Give either the names of groups or --all.", EXIT_USAGE)
    return groups or []
