"""`ottla quota ...`: the commands and their options; `quota_commands` runs them."""

from typing import Annotated

import typer

from ottla.node.cli.command_options import (
    Bootstrap,
    CheckOnly,
    CommandConfig,
    Output,
    Timeout,
    client_of,
    pairs_of,
    run,
)
from ottla.node.cli.failure import EXIT_USAGE, CommandError

quota = typer.Typer(no_args_is_help=True, help="Limit clients: list, set and delete quotas.")

User = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="a user, named without the User: of its principal"),
]
UserDefault = Annotated[bool, typer.Option("--user-default", help="each user that has no quota of its own")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="a client id")]
ClientIdDefault = Annotated[
    bool, typer.Option("--client-id-default", help="each client id that has no quota of its own")
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="an address of clients")]
IpDefault = Annotated[bool, typer.Option("--ip-default", help="each address that has no quota of its own")]


@quota.command("list")
def quota_list(
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_id_default: ClientIdDefault = False,
    ip: Ip = None,
    ip_default: IpDefault = False,
    effective: Annotated[
        bool,
        typer.Option(
            "--effective", help="show the quotas that apply to such a client, and the entity of each"
        ),
    ] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """List quotas, all or those of a user, a client id or an address.

    For a client, quotas of its user come first, then those of the default user, then those of its client
    id, then those of the default client id. Of a user, a quota with the client id comes before one with the
    default client id, and that before one without.

    Example: ottla quota list --effective --user anna --client-id app-1
    """
    import ottla.node.cli.quota_commands as commands

    words = commands.EntityWords(user, user_default, client_id, client_id_default, ip, ip_default)
    entity = words.entity()
    show = commands.list_effective if effective else commands.list_all
    run(lambda: show(client_of(bootstrap, command_config, timeout), entity, as_json=output == "json"))


@quota.command("set")
def quota_set(
    quotas: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_id_default: ClientIdDefault = False,
    ip: Ip = None,
    ip_default: IpDefault = False,
    dry_run: CheckOnly = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Set quotas of users, client ids or both; or of addresses. Each node enforces them by itself.

    For users and client ids: producer_byte_rate and consumer_byte_rate (bytes a second), request_percentage
    (of the time of a thread), controller_mutation_rate (partitions a second). For addresses:
    connection_creation_rate (connections a second).

    Examples:

        ottla quota set --user anna producer_byte_rate=1048576

        ottla quota set --user-default --client-id app-1 request_percentage=50
    """
    import ottla.node.cli.quota_commands as commands

    words = commands.EntityWords(user, user_default, client_id, client_id_default, ip, ip_default)
    entity = commands.some_entity(words)
    values = commands.parse_quotas(pairs_of(quotas))
    run(
        lambda: commands.set_quotas(
            client_of(bootstrap, command_config, timeout),
            entity,
            values,
            dry_run=dry_run,
            as_json=output == "json",
        )
    )


@quota.command("delete")
def quota_delete(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...")] = None,
    user: User = None,
    user_default: UserDefault = False,
    client_id: ClientId = None,
    client_id_default: ClientIdDefault = False,
    ip: Ip = None,
    ip_default: IpDefault = False,
    dry_run: CheckOnly = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Delete quotas of exactly this user, client id, both, or address: those that are named, or all.

    Example: ottla quota delete --user anna producer_byte_rate
    """
    import ottla.node.cli.quota_commands as commands

    words = commands.EntityWords(user, user_default, client_id, client_id_default, ip, ip_default)
    entity = commands.some_entity(words)
    if names and any("=" in one for one in names):
        raise CommandError("Name quotas to delete without =VALUE, such as producer_byte_rate.", EXIT_USAGE)
    run(
        lambda: commands.delete(
            client_of(bootstrap, command_config, timeout),
            entity,
            names or [],
            dry_run=dry_run,
            as_json=output == "json",
        )
    )
