"""`ottla doctor`: prints each problem in a sentence; the exit code is 1 if there is any."""

from collections.abc import Sequence
from pathlib import Path

from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.cli.answers import print_json
from ottla.node.cli.command_config import CommandConfig
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError
from ottla.node.cli.host_nodes import HostNode, nodes_of_host
from ottla.node.client.cluster_client import parse_bootstrap
from ottla.node.doctor.diagnosis import diagnose_cluster, diagnose_node
from ottla.node.doctor.finding import Finding, Severity, as_record, by_severity, problem
from ottla.node.settings.config import load_config


async def doctor(
    bootstrap: str | None,
    config: Path | None,
    overrides: Sequence[str],
    *,
    command: CommandConfig,
    timeout_s: float,
    as_json: bool,
) -> int:
    """Examine the cluster, the nodes of a configuration, or both."""
    found: list[Finding] = []
    if config is not None or overrides:
        written = [] if config is None else [config]
        nodes: list[HostNode] = []
        try:
            nodes = nodes_of_host(config, overrides, as_on_disk=True)
        except CommandError as error:
            found.append(problem("setting", str(error)))
        for own in [one.overrides for one in nodes] or [()]:
            node = load_config(config, overrides=[*overrides, *own])
            found += await diagnose_node(node, timeout_s=timeout_s, written=written)
        found = list(dict.fromkeys(found))  # nodes of one host have many findings in common
    if bootstrap is not None:
        try:
            addresses = parse_bootstrap(bootstrap)
        except ValueError as error:
            raise CommandError(str(error), EXIT_USAGE) from None
        found += await diagnose_cluster(addresses, timeout_s=timeout_s, security=command.security)
    problems = sum(one.severity is Severity.PROBLEM for one in found)
    found = by_severity(found)
    if as_json:
        print_json({"is_healthy": problems == 0, "findings": [as_record(one) for one in found]})
    else:
        for one in found:
            print(f"{one.severity.value}  {one.subject}: {escape_controls(one.sentence)}")
        print("nothing is wrong" if problems == 0 else f"{problems} problem{'' if problems == 1 else 's'}")
    return EXIT_FAILURE if problems else 0
