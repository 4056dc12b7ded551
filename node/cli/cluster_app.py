"""`ottla cluster ...`, `ottla quorum ...`, `ottla broker ...`: the commands and their words."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.node.cli.command_options import LOCAL, Bootstrap, Output, Override, Timeout, client_of, run

cluster = typer.Typer(no_args_is_help=True, help="Run several nodes on this machine.")
quorum = typer.Typer(no_args_is_help=True, help="The voters of the metadata quorum.")
broker = typer.Typer(no_args_is_help=True, help="List the brokers of a cluster, and remove one.")

NodeId = Annotated[int, typer.Argument(metavar="ID", min=0, help="which node")]
DirectoryId = Annotated[
    str | None,
    typer.Option("--directory-id", metavar="ID", help="of its metadata log (default: it is asked)"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show what would be done")]


@cluster.command("up")
def cluster_up(
    nodes: Annotated[int, typer.Option(min=1, help="number of nodes, one process each")] = 3,
    base_port: Annotated[
        int, typer.Option(min=1, max=65535, help="the first node's port on 127.0.0.1; the others follow")
    ] = 9092,
    data: Annotated[Path, typer.Option(metavar="DIR", help="each node gets a directory in it")] = Path(
        "ottla-cluster"
    ),
    override: Override = None,
) -> None:
    """Run a cluster on this machine; prints READY with its addresses when it serves.

    Example: ottla cluster up --nodes 3 --base-port 19092 --data /tmp/ottla
    """
    from ottla.node.cli.local_cluster import cluster_up

    cluster_up(nodes, base_port=base_port, data=data, overrides=override or [])


@cluster.command("start-node")
def cluster_start_node(
    data: Annotated[Path, typer.Argument(metavar="DIR", help="the --data of `ottla cluster up`")],
    node_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="which node")],
) -> None:
    """Start one node of such a cluster again, after it was killed or stopped; it runs in the background.

    It ends with `ottla cluster up`, if that still runs; else `kill` stops it.

    Example: ottla cluster start-node /tmp/ottla 1
    """
    from ottla.node.cli.local_cluster import start_node

    start_node(data, node_id)


# ---- the quorum ----------------------------------------------------------------------------------


@quorum.command("status")
def quorum_status(output: Output = "text", bootstrap: Bootstrap = LOCAL, timeout: Timeout = 30.0) -> None:
    """Show who leads the metadata quorum, who votes, who only follows, and how far each is."""
    import ottla.node.cli.quorum_commands as commands

    run(lambda: commands.status(client_of(bootstrap, timeout), output == "json"))


@quorum.command("add")
def quorum_add(
    node_id: NodeId,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint", metavar="HOST:PORT", help="its controller listener (default: it is asked)"
        ),
    ] = None,
    directory_id: DirectoryId = None,
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Give a running node a vote; it has all of the metadata before it counts.

    The node needs a CONTROLLER listener and controller.quorum.bootstrap.servers. A node that is named in its
    own controller.quorum.voters asks for its vote by itself. Keep the number of voters odd.

    Example: ottla quorum add 3
    """
    import ottla.node.cli.quorum_commands as commands

    run(lambda: commands.add(client_of(bootstrap, timeout), node_id, endpoint, directory_id))


@quorum.command("remove")
def quorum_remove(
    node_id: NodeId,
    directory_id: DirectoryId = None,
    bootstrap: Bootstrap = LOCAL,
    timeout: Timeout = 30.0,
) -> None:
    """Take the vote of a node away, whether it runs or not; if it leads, another one leads first.

    A node that lost its disk is removed, and added again when it runs with an empty one.
    """
    import ottla.node.cli.quorum_commands as commands

    run(lambda: commands.remove(client_of(bootstrap, timeout), node_id, directory_id))


@quorum.command("trust-copy")
def quorum_trust_copy(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="its metadata.log.dir, or the first of its log.dirs")
    ],
) -> None:
    """Give a stopped node its vote back whose data directory was moved, where too few voters are left.

    A voter with a copied directory has its vote back by itself while most of the other voters run, or all do.
    Only where they never will, and only if the node never ran after the copy was made: what the cluster
    decided since may be lost. So it is where most nodes are lost and the others come from a backup.

    Example: ottla quorum trust-copy /var/lib/ottla
    """
    import ottla.node.cli.quorum_commands as commands

    if code := commands.trust_copy(directory):
        raise typer.Exit(code)


# ---- brokers -------------------------------------------------------------------------------------


@broker.command("list")
def broker_list(output: Output = "text", bootstrap: Bootstrap = LOCAL, timeout: Timeout = 30.0) -> None:
    """List the brokers, fenced ones too, with what each holds and leads."""
    import ottla.node.cli.broker_commands as commands

    run(lambda: commands.list_all(client_of(bootstrap, timeout), output == "json"))


@broker.command("decommission")
def broker_decommission(
    broker_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="which broker")],
    dry_run: DryRun = False,
    output: Output = "text",
    bootstrap: Bootstrap = LOCAL,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.1, help="give up when nothing moves for this long"
        ),
    ] = 60.0,
) -> None:
    """Move everything away from a broker, wait until it is stopped, and forget it.

    The broker may be dead already. A voter must first be removed from the metadata quorum. After an
    interruption run it again: it goes on where it was.

    Example: ottla broker decommission 3 --dry-run
    """
    import ottla.node.cli.broker_commands as commands

    client = client_of(bootstrap, timeout)
    if dry_run:
        run(lambda: commands.show_plan(client, broker_id, output == "json"))
    else:
        run(lambda: commands.leave(client, broker_id, output == "json"))
