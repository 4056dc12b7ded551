"""`ottla acl ...`: the commands and their options; `acl_words` parses them, `acl_commands` runs them."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

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
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from ottla.node.cli.acl_words import Selection

acl = typer.Typer(no_args_is_help=True, help="Control who may do what: list, create, delete and check ACLs.")

Words = list[str] | None
# The second names are those of kafka-acls.
Topics = Annotated[
    Words, typer.Option("--topic", metavar="TOPIC", help="a topic with its partitions; repeatable; * is all")
]
Groups = Annotated[
    Words, typer.Option("--group", metavar="GROUP", help="a consumer group; repeatable; * is all")
]
TransactionalIds = Annotated[
    Words,
    typer.Option(
        "--transactional-id", metavar="ID", help="the id of a transactional producer; repeatable; * is all"
    ),
]
Cluster = Annotated[bool, typer.Option("--cluster", help="the cluster itself")]
DelegationTokens = Annotated[
    Words, typer.Option("--delegation-token", metavar="ID", help="a delegation token; repeatable; * is all")
]
UserPrincipals = Annotated[
    Words,
    typer.Option(
        "--user-principal",
        metavar="PRINCIPAL",
        help="a user as a resource, for its delegation tokens; repeatable; * is all",
    ),
]
Operations = Annotated[
    Words,
    typer.Option(
        "--operation",
        metavar="OPERATION,...",
        help="read, write, create, delete, alter, describe, cluster_action, describe_configs, alter_configs, "
        "idempotent_write, two_phase_commit, create_tokens, describe_tokens, all; repeatable",
    ),
]
FilterPattern = Annotated[
    Literal["any", "match", "literal", "prefixed"] | None,
    typer.Option(
        "--pattern-type",
        "--resource-pattern-type",
        help="literal, prefixed: only ACLs of this type with exactly this name; any: of either type with "
        "exactly this name; match: all that apply to a resource of this name",
    ),
]
Principals = Annotated[
    Words, typer.Option("--principal", metavar="PRINCIPAL", help="such as User:anna; repeatable")
]
Hosts = Annotated[
    Words,
    typer.Option("--host", metavar="ADDRESS", help="only clients from this address; repeatable (default *)"),
]
FilterHosts = Annotated[
    Words, typer.Option("--host", metavar="ADDRESS", help="only ACLs with this address; repeatable")
]
Permission = Annotated[
    Literal["allow", "deny"] | None, typer.Option("--permission", help="only ACLs that allow, or that deny")
]


@acl.command("list")
def acl_list(
    principal: Principals = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    delegation_token: DelegationTokens = None,
    user_principal: UserPrincipals = None,
    pattern_type: FilterPattern = None,
    operation: Operations = None,
    host: FilterHosts = None,
    permission: Permission = None,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """List ACLs.

    Examples:

        ottla acl list --principal User:anna

        ottla acl list --topic orders --pattern-type match
    """
    import ottla.node.cli.acl_commands as commands

    selection = _selection(
        principal,
        topic,
        group,
        transactional_id,
        cluster,
        delegation_token,
        user_principal,
        pattern_type or "any",
        operation,
        host,
        permission,
    )
    run(
        lambda: commands.list_all(
            client_of(bootstrap, command_config, timeout), selection, as_json=output == "json"
        )
    )


@acl.command("create")
def acl_create(
    allow: Annotated[
        Words,
        typer.Option(
            "--allow",
            "--allow-principal",
            metavar="PRINCIPAL",
            help="allow this principal, such as User:anna; User:* is every principal; repeatable",
        ),
    ] = None,
    deny: Annotated[
        Words,
        typer.Option(
            "--deny",
            "--deny-principal",
            metavar="PRINCIPAL",
            help="deny this principal, even if other ACLs allow it; repeatable",
        ),
    ] = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    delegation_token: DelegationTokens = None,
    user_principal: UserPrincipals = None,
    pattern_type: Annotated[
        Literal["literal", "prefixed"],
        typer.Option(
            "--pattern-type",
            "--resource-pattern-type",
            help="prefixed: all names that begin with the given ones",
        ),
    ] = "literal",
    host: Hosts = None,
    producer: Annotated[
        bool, typer.Option("--producer", help="all operations that a producer to these topics needs")
    ] = False,
    consumer: Annotated[
        bool,
        typer.Option("--consumer", help="all operations that a consumer of these topics and groups needs"),
    ] = False,
    idempotent: Annotated[
        bool,
        typer.Option(
            "--idempotent", help="with --producer: idempotent_write on the cluster, for old brokers"
        ),
    ] = False,
    dry_run: CheckOnly = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Create ACLs: allow or deny principals operations on resources.

    Examples:

        ottla acl create --allow User:anna --producer --topic orders

        ottla acl create --allow User:bob --consumer --topic orders- --group team- --pattern-type prefixed

        ottla acl create --allow User:carl --operation describe,alter --cluster
    """
    import ottla.node.cli.acl_commands as commands
    from ottla.node.cli import acl_words as words

    resources = words.resources_of(
        words.parse_pattern_type(pattern_type),
        topics=topic or (),
        groups=group or (),
        transactional_ids=transactional_id or (),
        delegation_tokens=delegation_token or (),
        user_principals=user_principal or (),
        is_cluster=cluster,
    )
    entries = words.new_entries(
        resources,
        allowed=[words.parse_principal(one) for one in allow or ()],
        denied=[words.parse_principal(one) for one in deny or ()],
        operations=words.parse_operations(operation or ()),
        hosts=[words.parse_host(one) for one in host or ("*",)],
        roles=words.Roles(producer, consumer, idempotent),
    )
    run(
        lambda: commands.create(
            client_of(bootstrap, command_config, timeout), entries, dry_run=dry_run, as_json=output == "json"
        )
    )


@acl.command("delete")
def acl_delete(
    principal: Principals = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    delegation_token: DelegationTokens = None,
    user_principal: UserPrincipals = None,
    pattern_type: FilterPattern = None,
    operation: Operations = None,
    host: FilterHosts = None,
    permission: Permission = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", "--force", help="do not ask for confirmation")] = False,
    dry_run: CheckOnly = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Delete the ACLs that the options select; they are shown first, and you are asked.

    Of a named resource, only literal ACLs are deleted unless --pattern-type says otherwise.

    Examples:

        ottla acl delete --principal User:anna --topic orders

        ottla acl delete --principal User:anna --yes
    """
    import ottla.node.cli.acl_commands as commands

    is_named = cluster or any((topic, group, transactional_id, delegation_token, user_principal))
    selection = _selection(
        principal,
        topic,
        group,
        transactional_id,
        cluster,
        delegation_token,
        user_principal,
        # As in kafka-acls: a deletion keeps prefixed ACLs of that name, unless --pattern-type selects them.
        pattern_type or ("literal" if is_named else "any"),
        operation,
        host,
        permission,
    )
    as_json = output == "json"
    if selection.is_everything:
        raise CommandError("Select the ACLs with --principal, --topic or another option.", EXIT_USAGE)
    if as_json and not yes and not dry_run:
        raise CommandError("--output json never asks for confirmation: add --yes or --dry-run.", EXIT_USAGE)
    if not yes and not dry_run and not sys.stdin.isatty():
        raise CommandError(
            "There is no terminal on which to confirm the deletion; --yes deletes without asking.", EXIT_USAGE
        )
    client = client_of(bootstrap, command_config, timeout)
    found = result_of(lambda: commands.find(client, selection, for_deletion=not dry_run))
    if dry_run or not found:
        commands.show(found, as_json=as_json)
        return
    if not yes:
        commands.show(found, as_json=False)
        _confirm()
    run(lambda: commands.delete(client.renewed(), found, as_json=as_json))


@acl.command("check")
def acl_check(
    principal: Annotated[
        list[str], typer.Option("--principal", metavar="PRINCIPAL", help="such as User:anna; repeatable")
    ],
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    delegation_token: DelegationTokens = None,
    user_principal: UserPrincipals = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="the client's address (default: one that no ACL names)"
        ),
    ] = "*",
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Check if principals may perform operations, and show the rule that decides.

    With --operation the exit code is 1 if they may not; without it, all operations are shown.

    Example: ottla acl check --principal User:anna --operation read --topic orders
    """
    import ottla.node.cli.acl_commands as commands
    from ottla.metadata_raft.acl import PatternType
    from ottla.metadata_raft.acl_set import ClientIdentity
    from ottla.node.cli import acl_words as words

    resources = words.resources_of(
        PatternType.LITERAL,
        topics=topic or (),
        groups=group or (),
        transactional_ids=transactional_id or (),
        delegation_tokens=delegation_token or (),
        user_principals=user_principal or (),
        is_cluster=cluster,
    )
    operations = words.parse_operations(operation or ())
    address = words.parse_host(host)
    questions = [
        commands.Question(ClientIdentity(words.parse_principal(one), address), each, resource)
        for one in principal
        for resource, each in words.pair_operations(resources, operations)
    ]
    run(
        lambda: commands.check(
            client_of(bootstrap, command_config, timeout),
            questions,
            must=bool(operations),
            as_json=output == "json",
        )
    )


def _selection(
    principals: Words,
    topics: Words,
    groups: Words,
    transactional_ids: Words,
    is_cluster: bool,
    delegation_tokens: Words,
    user_principals: Words,
    pattern_type: str,
    operations: Words,
    hosts: Words,
    permission: str | None,
) -> "Selection":
    from ottla.node.cli import acl_words as words

    pattern = words.parse_pattern_type(pattern_type)
    return words.Selection(
        resources=words.resources_of(
            pattern,
            topics=topics or (),
            groups=groups or (),
            transactional_ids=transactional_ids or (),
            delegation_tokens=delegation_tokens or (),
            user_principals=user_principals or (),
            is_cluster=is_cluster,
        ),
        principals=[words.parse_principal(one) for one in principals or ()],
        operations=words.parse_operations(operations or ()),
        hosts=[words.parse_host(one) for one in hosts or ()],
        permission=words.parse_permission(permission),
        pattern_type=pattern,
    )


def _confirm() -> None:
    """Ask for confirmation; end the command if the user declines."""
    if not typer.confirm("Delete them?", err=True):
        print("nothing was deleted", file=sys.stderr)
        raise typer.Exit(EXIT_FAILURE)
