"""`ottla user ...`: the commands and their options; `user_commands` runs them."""

from typing import Annotated

import typer

from ottla.node.cli.command_options import (
    Bootstrap,
    CheckOnly,
    CommandConfig,
    Output,
    Timeout,
    client_of,
    result_of,
    run,
)

user = typer.Typer(no_args_is_help=True, help="List, create and delete SCRAM users; set their passwords.")

User = Annotated[str, typer.Argument(metavar="USER")]
Users = Annotated[list[str], typer.Argument(metavar="USER...")]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="take the password from this file, or from standard input (-), instead of asking for it",
    ),
]
Generate = Annotated[bool, typer.Option("--generate", help="generate a random password and print it once")]


@user.command("list")
def user_list(
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """List the SCRAM users with their mechanisms; passwords and salts are never shown."""
    import ottla.node.cli.user_commands as commands

    run(lambda: commands.list_all(client_of(bootstrap, command_config, timeout), output == "json"))


@user.command("create")
def user_create(
    name: User,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            "--mechanism",
            metavar="MECHANISM",
            help="SCRAM-SHA-512 or SCRAM-SHA-256; repeatable (default SCRAM-SHA-512)",
        ),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            metavar="N",
            help="rounds of hashing, 4096 to 16384: more rounds slow down guessing",
        ),
    ] = 4096,
    password_file: PasswordFile = None,
    generate: Generate = False,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="do not fail if the user exists, and keep its password")
    ] = False,
    dry_run: CheckOnly = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Create a SCRAM user, or add a mechanism to one. The password is asked for twice.

    The keys are derived here: the password itself never leaves this machine.

    Examples:

        ottla user create anna

        ottla user create robot --generate --output json

        ottla user create anna --mechanism SCRAM-SHA-256 --password-file anna.password
    """
    import ottla.node.cli.user_commands as commands
    from ottla.node.cli.password_input import take_password

    mechanisms = commands.mechanisms_of(mechanism or ["SCRAM-SHA-512"])
    commands.check_new_user(name, iterations)
    client = client_of(bootstrap, command_config, timeout)
    wanted = result_of(
        lambda: commands.plan_creation(client, name, mechanisms, iterations, if_not_exists=if_not_exists)
    )
    if dry_run or not wanted:
        commands.print_plan(name, wanted, "create", as_json=output == "json")
        return
    password = take_password(name, file=password_file, generate=generate)
    run(
        lambda: commands.set_password(
            client.renewed(),
            name,
            wanted,
            password,
            "create",
            shows_it=generate,
            as_json=output == "json",
        )
    )


@user.command("password")
def user_password(
    name: User,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            "--mechanism",
            metavar="MECHANISM",
            help="only for this mechanism; repeatable (default: all that the user has)",
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", metavar="N", help="rounds of hashing, 4096 to 16384 (default: unchanged)"
        ),
    ] = None,
    password_file: PasswordFile = None,
    generate: Generate = False,
    dry_run: CheckOnly = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Change the password of a SCRAM user. Clients that are logged in stay so until their logins expire.

    Example: ottla user password anna
    """
    import ottla.node.cli.user_commands as commands
    from ottla.node.cli.password_input import take_password

    mechanisms = commands.mechanisms_of(mechanism)
    commands.check_new_user(name, iterations)
    client = client_of(bootstrap, command_config, timeout)
    wanted = result_of(lambda: commands.plan_password(client, name, mechanisms, iterations))
    if dry_run:
        commands.print_plan(name, wanted, "change", as_json=output == "json")
        return
    password = take_password(name, file=password_file, generate=generate)
    run(
        lambda: commands.set_password(
            client.renewed(),
            name,
            wanted,
            password,
            "change",
            shows_it=generate,
            as_json=output == "json",
        )
    )


@user.command("delete")
def user_delete(
    names: Users,
    mechanism: Annotated[
        list[str] | None,
        typer.Option("--mechanism", metavar="MECHANISM", help="delete only this mechanism; repeatable"),
    ] = None,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="do not fail if the user does not exist")
    ] = False,
    dry_run: CheckOnly = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Delete SCRAM users. Their ACLs stay, and clients that are logged in stay so until their logins expire.

    Example: ottla user delete anna
    """
    import ottla.node.cli.user_commands as commands

    mechanisms = commands.mechanisms_of(mechanism)
    run(
        lambda: commands.delete(
            client_of(bootstrap, command_config, timeout),
            list(dict.fromkeys(names)),
            mechanisms,
            if_exists=if_exists,
            dry_run=dry_run,
            as_json=output == "json",
        )
    )
