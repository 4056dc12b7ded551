"""`ottla client-metrics ...`: the subscriptions to metrics that clients push (KIP-714)."""

from typing import Annotated

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

client_metrics = typer.Typer(
    no_args_is_help=True, help="Make clients push their metrics: list and change subscriptions."
)

Subscription = Annotated[str, typer.Argument(metavar="SUBSCRIPTION")]


@client_metrics.command("list")
def client_metrics_list(
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """List the subscriptions to client metrics."""
    import ottla.node.cli.config_commands as commands

    run(
        lambda: commands.list_subscriptions(
            client_of(bootstrap, command_config, timeout), as_json=output == "json"
        )
    )


@client_metrics.command("config")
def client_metrics_config(
    name: Subscription,
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
    """Show or change a subscription. Its first setting creates it, and resetting its last one deletes it.

    Example: ottla client-metrics config producers --set metrics=org.apache.kafka.producer.
    """
    import ottla.node.cli.config_commands as commands
    from ottla.node.client.topic_admin import config_of_subscription

    settings, resource = dict(pairs_of(change)), config_of_subscription(name)
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


@client_metrics.command("delete")
def client_metrics_delete(
    name: Subscription,
    dry_run: CheckOnly = False,
    output: Output = "text",
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
) -> None:
    """Delete a subscription."""
    import ottla.node.cli.config_commands as commands

    client = client_of(bootstrap, command_config, timeout)
    run(lambda: commands.delete_subscription(client, name, dry_run=dry_run, as_json=output == "json"))
