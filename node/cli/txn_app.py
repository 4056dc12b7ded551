"""`ottla txn ...`: the commands and their options; `txn_commands` runs them."""

from typing import Annotated

import typer

from ottla.node.cli.command_options import Bootstrap, CommandConfig, Output, Timeout, client_of, run
from ottla.node.cli.failure import EXIT_USAGE, CommandError

txn = typer.Typer(
    no_args_is_help=True, help="Inspect transactions and their producers, and abort open or hanging ones."
)

Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC[:P,...]", help="only this topic or these partitions; repeatable"),
]


@txn.command("list")
def txn_list(
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE,...",
            help="only transactional ids in these states, such as ongoing,empty",
        ),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option(
            "--producer-id",
            metavar="N",
            min=0,
            max=2**63 - 1,
            help="only transactions of this producer id; repeatable",
        ),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than",
            metavar="PnDTnHnMnS",
            help="only transactions open for longer than this, for example PT15M",
        ),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option("--match", metavar="RE", help="only ids that match this RE2 expression as a whole"),
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """List transactional ids with their states, and the age and timeout of open transactions.

    The timeout "none" means two-phase commit: only its producer or `ottla txn abort` ends the transaction.
    """
    import ottla.node.cli.group_commands as words
    import ottla.node.cli.txn_commands as commands

    options = commands.ListOptions(
        states=words.parse_words(state, commands.STATES, "transaction state"),
        producer_ids=producer_id or (),
        longer_than_ms=None if longer_than is None else _duration_ms(longer_than),
        pattern=match,
        as_json=output == "json",
    )
    run(lambda: commands.list_all(client_of(bootstrap, command_config, timeout), options))


@txn.command("describe")
def txn_describe(
    ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show the state of transactional ids, and the partitions of their open transactions."""
    import ottla.node.cli.txn_commands as commands

    run(lambda: commands.describe(client_of(bootstrap, command_config, timeout), ids, output == "json"))


@txn.command("producers")
def txn_producers(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC[:P,...]...")],
    broker: Annotated[
        int | None,
        typer.Option("--broker", metavar="N", help="show the replica of this broker instead of the leader's"),
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show the producers known to the partitions of a topic, and their open transactions.

    Example: ottla txn producers orders:0,1
    """
    import ottla.node.cli.group_commands as words
    import ottla.node.cli.txn_commands as commands

    named = words.parse_topics(topics)
    run(
        lambda: commands.producers(
            client_of(bootstrap, command_config, timeout), named, broker, output == "json"
        )
    )


@txn.command("abort")
def txn_abort(
    transactional_id: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC:P", help="the partition with the hanging transaction"),
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option(
            "--start-offset", metavar="N", min=0, help="the first offset of the transaction in that partition"
        ),
    ] = None,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Abort the open transaction of a transactional id and fence its producer, or abort a hanging one.

    A hanging transaction is not known to any coordinator: `ottla txn find-hanging` shows its partition and
    start offset.

    Examples:

        ottla txn abort billing-1

        ottla txn abort --topic orders:0 --start-offset 1042
    """
    import ottla.node.cli.group_commands as words
    import ottla.node.cli.txn_commands as commands

    client, as_json = client_of(bootstrap, command_config, timeout), output == "json"
    if transactional_id and topic is None and start_offset is None:
        run(lambda: commands.abort(client, transactional_id, as_json=as_json))
    elif transactional_id is None and topic is not None and start_offset is not None:
        named = words.parse_topics([topic])
        run(lambda: commands.abort_in_log(client, named, start_offset, as_json=as_json))
    else:
        raise CommandError(
            "Give either a transactional id, or --topic TOPIC:P with --start-offset.", EXIT_USAGE
        )


@txn.command("find-hanging")
def txn_find_hanging(
    topic: Topics = None,
    broker: Annotated[
        int | None,
        typer.Option("--broker", metavar="N", help="search all partitions with a replica on this broker"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="search all topics")] = False,
    longer_than: Annotated[
        str,
        typer.Option(
            "--longer-than",
            metavar="PnDTnHnMnS",
            help="only transactions without a new record for this long; use at least "
            "transaction.max.timeout.ms",
        ),
    ] = "PT15M",
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Find hanging transactions: open in a partition, but not known to any coordinator.

    Consumers with isolation level read_committed cannot read past them; end them with `ottla txn abort`. The
    exit code is 1 if any is found, or if a partition could not be searched because it has no leader.
    """
    import ottla.node.cli.group_commands as words
    import ottla.node.cli.txn_commands as commands

    if bool(topic) + (broker is not None) + every != 1:
        raise CommandError("Give exactly one of --topic, --broker and --all.", EXIT_USAGE)
    options = commands.HangingOptions(
        topics=words.parse_topics(topic) if topic else None,
        broker_id=broker,
        longer_than_ms=_duration_ms(longer_than),
        as_json=output == "json",
    )
    run(lambda: commands.find_hanging(client_of(bootstrap, command_config, timeout), options))


def _duration_ms(text: str) -> int:
    from ottla.node.client.moments import parse_duration

    try:
        return max(0, parse_duration(text))
    except ValueError as error:
        raise CommandError(f"{error}.", EXIT_USAGE) from None
