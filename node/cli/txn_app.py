"""`ottla txn ...`: the commands and their words; `txn_commands` does what they say."""

from typing import Annotated

import typer

from ottla.node.cli.command_options import LOCAL, Bootstrap, Output, Timeout, client_of, run
from ottla.node.cli.failure import EXIT_USAGE, CommandError

txn = typer.Typer(no_args_is_help=True, help="Transactions: open and hanging ones, and their producers.")

Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC[:P,...]", help="only this; may be repeated")
]


@txn.command("list")
def txn_list(
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE,...", help="only in these, as ongoing,empty")
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="N", min=0, max=2**63 - 1, help="only this; may be repeated"),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option("--longer-than", metavar="PnDTnHnMnS", help="only begun so long ago, as PT15M"),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option("--match", metavar="RE", help="only ids that this, in ASCII, matches whole"),
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """List the transactional ids of all brokers, and of what is open its age and time-out.

    A time-out of none is that of two-phase commit: only its producer ends it, or `ottla txn abort`.
    """
    import ottla.node.cli.group_commands as words
    import ottla.node.cli.txn_commands as commands

    options = commands.ListOptions(
        states=words.parse_words(state, commands.STATES, "state of a transaction"),
        producer_ids=producer_id or (),
        longer_than_ms=None if longer_than is None else _duration_ms(longer_than),
        pattern=match,
        as_json=output == "json",
    )
    run(lambda: commands.list_all(client_of(bootstrap, timeout), options))


@txn.command("describe")
def txn_describe(
    ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Show the state of transactional ids, and which partitions have something open of them."""
    import ottla.node.cli.txn_commands as commands

    run(lambda: commands.describe(client_of(bootstrap, timeout), ids, output == "json"))


@txn.command("producers")
def txn_producers(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC[:P,...]...")],
    broker: Annotated[
        int | None, typer.Option("--broker", metavar="N", help="as this replica has it, not the leader")
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Show the producers that the logs of a topic know, and what they have open.

    Example: ottla txn producers orders:0,1
    """
    import ottla.node.cli.group_commands as words
    import ottla.node.cli.txn_commands as commands

    named = words.parse_topics(topics)
    run(lambda: commands.producers(client_of(bootstrap, timeout), named, broker, output == "json"))


@txn.command("abort")
def txn_abort(
    transactional_id: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC:P", help="the log that has it open")
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", metavar="N", min=0, help="where it begins there")
    ] = None,
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Abort what a transactional id has open, and fence its producer; or a hanging transaction in one log.

    A hanging one has no coordinator any more: `ottla txn find-hanging` shows its log and where it begins.

    Examples:

        ottla txn abort billing-1

        ottla txn abort --topic orders:0 --start-offset 1042
    """
    import ottla.node.cli.group_commands as words
    import ottla.node.cli.txn_commands as commands

    if transactional_id and topic is None and start_offset is None:
        run(lambda: commands.abort(client_of(bootstrap, timeout), transactional_id))
    elif transactional_id is None and topic is not None and start_offset is not None:
        named = words.parse_topics([topic])
        run(lambda: commands.abort_in_log(client_of(bootstrap, timeout), named, start_offset))
    else:
        raise CommandError("Which? Give an ID, or --topic TOPIC:P with --start-offset.", EXIT_USAGE)


@txn.command("find-hanging")
def txn_find_hanging(
    topic: Topics = None,
    broker: Annotated[
        int | None, typer.Option("--broker", metavar="N", help="in all replicas of this broker")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="in all topics")] = False,
    longer_than: Annotated[
        str,
        typer.Option(
            "--longer-than",
            metavar="PnDTnHnMnS",
            help="its last record is older; nothing below transaction.max.timeout.ms makes sense",
        ),
    ] = "PT15M",
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Find transactions that a log has open and no coordinator knows of; ends with 1 if there are any.

    Also if there is a partition that nobody leads, where it cannot be known.

    Who reads what is committed waits at them for ever. `ottla txn abort` ends them.
    """
    import ottla.node.cli.group_commands as words
    import ottla.node.cli.txn_commands as commands

    if bool(topic) + (broker is not None) + every != 1:
        raise CommandError("Where? Give one of --topic, --broker and --all.", EXIT_USAGE)
    options = commands.HangingOptions(
        topics=words.parse_topics(topic) if topic else None,
        broker_id=broker,
        longer_than_ms=_duration_ms(longer_than),
        as_json=output == "json",
    )
    run(lambda: commands.find_hanging(client_of(bootstrap, timeout), options))


def _duration_ms(text: str) -> int:
    from ottla.node.client.moments import parse_duration

    try:
        return max(0, parse_duration(text))
    except ValueError as error:
        raise CommandError(f"{error}.", EXIT_USAGE) from None
