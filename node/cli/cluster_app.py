"""`ottla cluster ...` and `ottla quorum ...`: the commands and their options."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ottla.node.cli.command_options import (
    Bootstrap,
    CommandConfig,
    Output,
    Override,
    Timeout,
    client_of,
    run,
)

cluster = typer.Typer(
    no_args_is_help=True,
    help="Show the health of a cluster, balance it, or run several nodes on this machine.",
)
quorum = typer.Typer(no_args_is_help=True, help="Show and change the voters of the metadata quorum.")

NodeId = Annotated[int, typer.Argument(metavar="ID", min=0, help="the id of the node")]
DirectoryId = Annotated[
    str | None,
    typer.Option(
        "--directory-id", metavar="ID", help="directory id of its metadata log (default: ask the node)"
    ),
]


@cluster.command("health")
def cluster_health(
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show if a cluster is healthy, and the partitions with problems; the exit code is 1 if it is not.

    `ottla doctor` looks for causes.
    """
    import ottla.node.cli.health_commands as commands

    run(lambda: commands.health(client_of(bootstrap, command_config, timeout), output == "json"))


@cluster.command("info")
def cluster_info(
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show the id of a cluster, its controller, its brokers, and the number of topics and partitions."""
    import ottla.node.cli.health_commands as commands

    run(lambda: commands.info(client_of(bootstrap, command_config, timeout), output == "json"))


@cluster.command("up")
def cluster_up(
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="number of nodes, one process each")] = 3,
    base_port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="port of the first node on 127.0.0.1; the others take the next ones",
        ),
    ] = 9092,
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="directory for the data; each node gets a subdirectory")
    ] = Path("ottla-cluster"),
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="use TLS, logins and ACLs; print the path of the administrator's client settings",
        ),
    ] = False,
    override: Override = None,
) -> None:
    """Run a cluster on this machine; print READY with its addresses once it serves clients.

    Example: ottla cluster up --nodes 3 --base-port 19092 --data /tmp/ottla
    """
    from ottla.node.cli.local_cluster import cluster_up

    cluster_up(nodes, base_port=base_port, data=data, overrides=override or [], is_secure=secure)


@cluster.command("start-node")
def cluster_start_node(
    data: Annotated[Path, typer.Argument(metavar="DIR", help="the --data of `ottla cluster up`")],
    node_id: NodeId,
    output: Output = "text",
) -> None:
    """Restart one node of a local cluster in the background, after it was killed or stopped.

    The node stops together with `ottla cluster up` if that is still running; otherwise stop it with `kill`.

    Example: ottla cluster start-node /tmp/ottla 1
    """
    from ottla.node.cli.local_cluster import start_node

    start_node(data, node_id, as_json=output == "json")


@cluster.command("balance")
def cluster_balance(
    plan: Annotated[bool, typer.Option("--plan", help="show what would move (the default)")] = False,
    execute: Annotated[
        bool,
        typer.Option("--execute", help="carry out the plan, some partitions at a time, and wait for the end"),
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="show what moves now")] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="start no more moves, and cancel all reassignments under way")
    ] = False,
    wait: Annotated[bool, typer.Option(help="with --execute: wait until nothing is left to move")] = True,
    every: Annotated[bool, typer.Option("--all", help="with --plan: show all moves")] = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Give all brokers their share of partitions, bytes and leaders.

    Goals, in this order: racks, disks, replicas, bytes in, leaders. The controller does the work, so it
    continues when this command ends or the controller fails. ottla.balance.max.bytes.per.second limits the
    copying.

    Example: ottla cluster balance --plan
    """
    import ottla.node.cli.balance_commands as commands

    if plan + execute + status + cancel > 1:
        raise typer.BadParameter("--plan, --execute, --status and --cancel exclude each other")
    client, as_json = partial(client_of, bootstrap, command_config, timeout), output == "json"
    if execute:
        run(lambda: commands.execute(client(), waits=wait, as_json=as_json))
    elif status:
        run(lambda: commands.status(client(), as_json=as_json))
    elif cancel:
        run(lambda: commands.cancel(client(), as_json=as_json))
    else:
        run(lambda: commands.plan(client(), shows_all=every, as_json=as_json))


# ---- the quorum ----------------------------------------------------------------------------------


@quorum.command("status")
def quorum_status(
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Show the leader, the voters and the observers of the metadata quorum, with the progress of each."""
    import ottla.node.cli.quorum_commands as commands

    run(lambda: commands.status(client_of(bootstrap, command_config, timeout), output == "json"))


@quorum.command("add")
def quorum_add(
    node_id: NodeId,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint", metavar="HOST:PORT", help="its controller listener (default: ask the node)"
        ),
    ] = None,
    directory_id: DirectoryId = None,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Make a running node a voter, once it has caught up with the metadata.

    The node needs a CONTROLLER listener and controller.quorum.bootstrap.servers. A node listed in its own
    controller.quorum.voters becomes a voter without this command. Keep the number of voters odd.

    Example: ottla quorum add 3
    """
    import ottla.node.cli.quorum_commands as commands

    client, as_json = client_of(bootstrap, command_config, timeout), output == "json"
    run(lambda: commands.add(client, node_id, endpoint, directory_id, as_json))


@quorum.command("remove")
def quorum_remove(
    node_id: NodeId,
    directory_id: DirectoryId = None,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Remove a voter from the metadata quorum, running or not; a leader hands over leadership first.

    If a voter has lost its disk, remove it, start it with an empty disk, and add it again.
    """
    import ottla.node.cli.quorum_commands as commands

    client, as_json = client_of(bootstrap, command_config, timeout), output == "json"
    run(lambda: commands.remove(client, node_id, directory_id, as_json))


@quorum.command("trust-copy")
def quorum_trust_copy(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="metadata.log.dir of the node, or the first of its log.dirs")
    ],
    output: Output = "text",
) -> None:
    """Let a stopped voter vote again from a copied data directory, when too few other voters are left.

    A voter whose directory was copied normally regains its vote by itself, while most of the other voters
    run. Use this command only if they are lost for good, for example when you restore a cluster from backups,
    and only if the node never ran after the copy was made. Metadata changes made since then may be lost.

    Example: ottla quorum trust-copy /var/lib/ottla
    """
    import ottla.node.cli.quorum_commands as commands

    if code := commands.trust_copy(directory, output == "json"):
        raise typer.Exit(code)
