"""`ottla secure ...`: the commands and their options."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.node.cli.command_options import Output
from ottla.node.cli.failure import EXIT_USAGE, CommandError

secure = typer.Typer(
    no_args_is_help=True, help="Create keys, certificates and the administrator of a secured cluster."
)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="the directory of keys and certificates")]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host", metavar="HOST", help="a host name or address by which nodes are reached; repeatable"
    ),
]


@secure.command("init")
def secure_init(
    directory: Directory,
    nodes: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="number of nodes, with ids from 0 on")
    ] = 1,
    host: Hosts = None,
    bootstrap: Annotated[
        str, typer.Option("--bootstrap", "-b", metavar="HOST:PORT,...", help="brokers in client.properties")
    ] = "localhost:9092",
    output: Output = "text",
) -> None:
    """Create an authority, a certificate for each node, a cluster secret and an administrator.

    Existing files stay as they are. `ottla start --secure` does the same for a single node; use this for
    several nodes, before they start for the first time.

    Example: ottla secure init secure --nodes 3 --host kafka-1.example.com --host kafka-2.example.com
    """
    from ottla.node.cli.secure_commands import init

    init(directory, nodes=nodes, hosts=host or [], bootstrap=bootstrap, as_json=output == "json")


@secure.command("certificate")
def secure_certificate(
    directory: Directory,
    node: Annotated[
        int | None, typer.Option("--node", min=0, metavar="ID", help="for the node with this id")
    ] = None,
    client: Annotated[
        str | None, typer.Option("--client", metavar="NAME", help="for a client of an SSL listener")
    ] = None,
    host: Hosts = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="where to write it (default: a file in DIR)"),
    ] = None,
    renew: Annotated[
        bool,
        typer.Option("--renew", help="replace the existing certificate with a new one for its hosts"),
    ] = False,
    output: Output = "text",
) -> None:
    """Issue a certificate for one more node, or for a client, by the authority in DIR.

    The file has the private key and the certificate, as ssl.keystore.location takes it.

    Examples:

        ottla secure certificate secure --node 3 --host kafka-4.example.com

        ottla secure certificate secure --client anna
    """
    from ottla.node.cli.secure_commands import certificate

    if (node is None) == (client is None):
        raise CommandError("Give either --node or --client.", EXIT_USAGE)
    if client is not None and host:
        raise CommandError("--host is only for --node: a client's certificate names no hosts.", EXIT_USAGE)
    certificate(
        directory,
        node_id=node,
        client=client,
        hosts=host or [],
        out=out,
        is_renewal=renew,
        as_json=output == "json",
    )
