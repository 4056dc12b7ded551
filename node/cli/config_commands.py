"""Shows and changes settings: `ottla topic config`, `group config`, `broker config` and `client-metrics`."""

from collections.abc import Mapping, Sequence

from ottla.node.cli.answers import print_json
from ottla.node.cli.failure import CommandError
from ottla.node.client import topic_admin
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import BROKER, describe_resources
from ottla.node.client.topic_admin import ConfigResource
from ottla.node.wire.messages.describe_configs import DescribeConfigsResourceResult


async def configure(
    client: Client,
    resource: ConfigResource,
    settings: Mapping[str, str],
    resets: Sequence[str],
    *,
    everything: bool,
    with_documentation: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Change settings of a resource, or print them if none is to be changed."""
    if settings or resets:
        return await _change(client, resource, settings, resets, dry_run=dry_run, as_json=as_json)
    return await _show(client, resource, everything, with_documentation, as_json)


async def _change(
    client: Client,
    resource: ConfigResource,
    settings: Mapping[str, str],
    resets: Sequence[str],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    async with client:
        await _check_resets(client, resource, resets)
        await topic_admin.alter_configs(
            client, resource, settings=settings, resets=resets, only_check=dry_run
        )
    if as_json:
        values: dict[str, str | None] = {**settings, **dict.fromkeys(resets)}
        changes = [{"name": key, "value": value, "changed": not dry_run} for key, value in values.items()]
        print_json(changes)
        return 0
    word = "would change" if dry_run else "changed"
    for key, value in settings.items():
        print(f"{word} {key} to {value}")
    for key in resets:
        print(f"{word} {key} to its default")
    return 0


async def _settings_of(
    client: Client, resource: ConfigResource, *, with_documentation: bool = False
) -> Sequence[DescribeConfigsResourceResult]:
    """Return the settings of a resource; only a broker itself knows its own."""
    if resource.kind == BROKER:
        found = await describe_resources(client, [resource], with_documentation=with_documentation)
        return found[resource]
    return await topic_admin.describe_configs(client, resource, with_documentation=with_documentation)


async def _check_resets(client: Client, resource: ConfigResource, resets: Sequence[str]) -> None:
    """Raise CommandError for an unknown setting: servers accept any reset, to remove settings of the past."""
    if not resets:
        return
    known = {one.name for one in await _settings_of(client, resource)}
    for name in resets:
        if name not in known:
            raise CommandError(f"Unknown {resource.noun} config name: {name}.")


async def delete_subscription(client: Client, name: str, *, dry_run: bool, as_json: bool) -> int:
    """Reset all settings of a subscription, which deletes it."""
    resource = topic_admin.config_of_subscription(name)
    async with client:
        described = await topic_admin.describe_configs(client, resource)
        own = [one.name for one in described if topic_admin.SOURCES.get(one.config_source) == resource.noun]
        if not own:
            raise CommandError(f"There is no subscription {name}. `ottla client-metrics list` lists them.")
        await topic_admin.alter_configs(client, resource, settings={}, resets=own, only_check=dry_run)
    if as_json:
        print_json({"name": name, "deleted": not dry_run})
    else:
        print(f"{'would delete' if dry_run else 'deleted'} {name}")
    return 0


async def list_subscriptions(client: Client, *, as_json: bool) -> int:
    """Print the subscriptions to client metrics with their settings."""
    found: dict[str, dict[str, str | None]] = {}
    async with client:
        for name in await topic_admin.list_subscriptions(client):
            described = await topic_admin.describe_configs(client, topic_admin.config_of_subscription(name))
            found[name] = {one.name: one.value for one in described}
    if as_json:
        print_json([{"name": name, "config": values} for name, values in found.items()])
        return 0
    for name, values in found.items():
        words = f"{name}  every {values['interval.ms']} ms  {values['metrics'] or 'no metrics'}"
        print(f"{words}  of {values['match']}" if values["match"] else words)
    return 0


async def _show(
    client: Client, resource: ConfigResource, everything: bool, with_documentation: bool, as_json: bool
) -> int:
    async with client:
        found = await _settings_of(client, resource, with_documentation=with_documentation)
    # A dynamic default of all brokers counts as a broker's own setting.
    own = ("broker", "cluster") if resource.kind == BROKER else (resource.noun,)
    shown = [one for one in found if everything or topic_admin.SOURCES.get(one.config_source) in own]
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "value": one.value,
                    "source": topic_admin.SOURCES.get(one.config_source, "unknown"),
                    **({"documentation": one.documentation} if with_documentation else {}),
                }
                for one in shown
            ]
        )
        return 0
    if not shown:
        name = resource.name
        if resource.kind == BROKER:
            name = f"broker {name}" if name else "the cluster"
        print(f"{name} overrides no settings; --all shows the defaults")
        return 0
    for one in shown:
        source = topic_admin.SOURCES.get(one.config_source, "unknown")
        print(
            f"{one.name}={'' if one.value is None else one.value}" + (f"  ({source})" if everything else "")
        )
        if with_documentation and one.documentation:
            print(f"    {one.documentation}")
    return 0
