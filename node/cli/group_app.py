"""`ottla group ...`: the commands and their words; `group_commands` does what they say."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.node.cli.command_options import (
    LOCAL,
    Bootstrap,
    CheckOnly,
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

group = typer.Typer(no_args_is_help=True, help="Consumer groups: members, offsets and lag.")

Group = Annotated[str, typer.Argument(metavar="GROUP")]
Groups = Annotated[list[str] | None, typer.Argument(metavar="GROUP...")]
# The second name is that of kafka-consumer-groups.
Every = Annotated[bool, typer.Option("--all", "--all-groups", help="all groups of consumers")]


@group.command("list")
def group_list(
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE,...", help="only in these, as stable,empty")
    ] = None,
    group_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE,...", help="only of these, as classic,consumer")
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """List the groups of all brokers."""
    import ottla.node.cli.group_commands as commands

    states = commands.parse_words(state, commands.STATES, "state of a group")
    types = commands.parse_words(group_type, commands.TYPES, "type of a group")
    run(lambda: commands.list_all(client_of(bootstrap, timeout), states, types, output == "json"))


@group.command("describe")
def group_describe(
    groups: Groups = None,
    every: Every = False,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="with the last rebalances: why, and for how long")
    ] = False,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Show the state of groups, and for each partition what is committed and who reads it."""
    import ottla.node.cli.group_commands as commands

    names = _names(groups, every)
    run(
        lambda: commands.describe(
            client_of(bootstrap, timeout), names, every=every, timeline=timeline, as_json=output == "json"
        )
    )


@group.command("members")
def group_members(
    name: Group,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="with the partitions of each")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """List the members of a group."""
    import ottla.node.cli.group_commands as commands

    run(lambda: commands.members(client_of(bootstrap, timeout), name, verbose, output == "json"))


@group.command("lag")
def group_lag(
    groups: Groups = None,
    every: Every = False,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC[:P,...]", help="only this; may be repeated")
    ] = None,
    watch: Annotated[
        float | None, typer.Option("--watch", metavar="SECONDS", min=0.1, help="repeat every so many seconds")
    ] = None,
    max_lag: Annotated[
        int | None,
        typer.Option("--max-lag", metavar="RECORDS", min=0, help="end with exit code 1 beyond this"),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option("--max-seconds", metavar="SECONDS", min=0, help="end with exit code 1 beyond this"),
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Show how far groups are behind, in records and in seconds.

    The seconds are the age of the oldest record that is not committed, by this machine's clock. A limit holds
    for all partitions of a group together; what was never committed has no lag.

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
    run(lambda: commands.lag(client_of(bootstrap, timeout), options))


@group.command("reset")
def group_reset(
    groups: Groups = None,
    every: Every = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="to the first record")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="to the end of the log")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="to the committed offset, or the end if there is none")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="by this many records; negative: back")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime", metavar="DATE", help="as 2026-01-31T12:00:00.000, in UTC or with +01:00"
        ),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="PnDTnHnMnS", help="to this long ago, as PT15M")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="CSV", help="lines of [group,]topic,partition,offset"),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC[:P,...]", help="may be repeated")
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="all that the group has committed")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="do it; without this it is only shown")] = False,
    export: Annotated[bool, typer.Option("--export", help="print lines for --from-file")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Set where groups go on; shown only, unless --execute is given.

    Their members must be stopped; with --all a group that has some, or nothing to reset, is passed over and
    named, and the exit code is 1. An offset that the log does not have becomes its first or its end, with a
    warning; so does a time after the last record.

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
        wanted = "the file says which" if from_file is not None else "give --topic or --all-topics"
        raise CommandError(f"Of which topics? Here {wanted}.", EXIT_USAGE)
    options = commands.ResetOptions(
        group_ids=tuple(names),
        every=every,
        topics=commands.parse_topics(topic) if topic else None,
        execute=execute,
        export=export,
        as_json=output == "json",
    )
    run(lambda: commands.reset(client_of(bootstrap, timeout), target, options))


def _target(groups: list[str], choices: "dict[str, bool | int | str | Path | None]") -> "Target":
    """Where to, by the one option that was given."""
    import ottla.node.cli.group_commands as commands
    from ottla.node.client import group_reset
    from ottla.node.client.group_offsets import Edge, ShiftBy, ToOffset
    from ottla.node.client.moments import parse_duration, parse_moment

    given = [(name, value) for name, value in choices.items() if value is not None]
    if len(given) != 1:
        raise CommandError(f"Where to? Give one of {', '.join(choices)}.", EXIT_USAGE)
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
                return Edge(name.removeprefix("--to-"))
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
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Show or change the settings of a group, which need not exist yet.

    Example: ottla group config billing --set consumer.session.timeout.ms=50000
    """
    import ottla.node.cli.config_commands as commands
    from ottla.node.client.topic_admin import config_of_group

    settings, of = dict(pairs_of(change)), config_of_group(name)
    client = client_of(bootstrap, timeout)
    if settings or reset:
        run(
            lambda: commands.change_config(
                client, of, settings, reset or [], dry_run=dry_run, as_json=output == "json"
            )
        )
    else:
        run(lambda: commands.show_config(client, of, everything, documentation, output == "json"))


@group.command("delete")
def group_delete(
    groups: Groups = None,
    every: Every = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="no error if it does not exist")] = False,
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Delete groups without members, and all that they committed."""
    import ottla.node.cli.group_commands as commands

    names = _names(groups, every)
    run(lambda: commands.delete(client_of(bootstrap, timeout), names, every=every, if_exists=if_exists))


@group.command("delete-offsets")
def group_delete_offsets(
    name: Group,
    topic: Annotated[list[str], typer.Option("--topic", metavar="TOPIC[:P,...]", help="may be repeated")],
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Forget what a group committed for topics that none of its members reads.

    Example: ottla group delete-offsets billing --topic orders:0,1
    """
    import ottla.node.cli.group_commands as commands

    topics = commands.parse_topics(topic)
    run(lambda: commands.delete_offsets(client_of(bootstrap, timeout), name, topics))


def _names(groups: list[str] | None, every: bool) -> list[str]:
    if bool(groups) == every:
        raise CommandError("Name groups, or give --all.", EXIT_USAGE)
    return groups or []
