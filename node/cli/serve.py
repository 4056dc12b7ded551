"""`ottla start`: runs a node, or the nodes of a host, with a configuration from the command line."""

import errno
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.broker import Broker
from ottla.node.cli import log_output
from ottla.node.cli.administrator_lines import administrator_lines
from ottla.node.cli.failure import CommandError
from ottla.node.cli.host_nodes import HostNode, nodes_of_host
from ottla.node.cli.host_supervisor import run_host
from ottla.node.process import run_node
from ottla.node.rest_api.server_thread import RestPortError
from ottla.node.secure_setup.node_keys import client_bootstrap, prepare
from ottla.node.settings.cluster_settings import NODES_PER_HOST
from ottla.node.settings.config import (
    BROKER_CONFIG_DEF,
    BrokerConfig,
    gathered_settings,
    is_given,
    is_secured,
    load_config,
)
from ottla.node.settings.listener_settings import host_from_here
from ottla.node.settings.secure_settings import CLIENT_LISTENER, SECURE
from ottla.node.tools.closed_pipe import end_quietly, output_refused

DEFAULT_PORT: Final = 9092
DEFAULT_DATA: Final = Path("ottla-data")
HIDDEN: Final = "[hidden]"

log = logging.getLogger(__name__)


def start(
    config_file: Path | None,
    *,
    port: int | None,
    data: Path | None,
    log_format: str | None,
    overrides: Sequence[str],
    is_secure: bool = False,
    prints_settings: bool = False,
    nodes_per_host: str | None = None,
) -> None:
    """Run a node in the foreground until SIGTERM or Ctrl-C; without a file on port 9092, in ./ottla-data.

    `is_secure` sets `ottla.secure`. With `prints_settings` it only prints the settings of the node.
    """
    texts: list[str] = [f"{SECURE}=true"] if is_secure else []
    if nodes_per_host is not None:
        texts.append(f"{NODES_PER_HOST}={nodes_per_host}")
    if log_format is not None:
        texts.append(f"ottla.log.format={log_format}")
    with _refusals([*texts, *overrides]):
        given = gathered_settings(config_file, overrides=[*texts, *overrides])
        protocol = CLIENT_LISTENER if is_secured(given) else "PLAINTEXT"
        if is_secure and protocol != CLIENT_LISTENER:
            raise CommandError(f"--secure and {SECURE}=false contradict each other: remove one of them.")
    if port is not None or (config_file is None and not is_given("listeners", overrides)):
        texts.append(f"listeners={protocol}://:{port or DEFAULT_PORT}")
    is_placed = any(is_given(name, overrides) for name in ("log.dirs", "log.dir"))
    if data is not None or (config_file is None and not is_placed):
        texts.append(f"log.dirs={data or DEFAULT_DATA}")
    texts += overrides
    with _refusals(texts):
        nodes = nodes_of_host(config_file, texts)
    if prints_settings:
        with _refusals(texts):
            for own in [node.overrides for node in nodes] or [()]:
                print(settings_text(load_config(config_file, overrides=[*texts, *own])), end="")
    elif nodes:
        _run_host(nodes, texts, config_file)
    else:
        _run(texts, config_file, _print_ready)


def _run_host(nodes: Sequence[HostNode], overrides: Sequence[str], config_file: Path | None) -> None:
    """Run several nodes; an error that keeps one of them from starting is raised before any is started."""
    with _refusals(overrides):
        for node in nodes:
            config = load_config(config_file, overrides=[*overrides, *node.overrides])
            if config.secure_files is not None:
                prepare(config, config.secure_files, datetime.now(UTC))
        names_file = [] if config_file is None else ["--config", str(config_file)]
        commands = [
            (
                node.node_id,
                ["start", *names_file, *_as_options([*overrides, *node.overrides])],
            )
            for node in nodes
        ]
        pid_file = gathered_settings(config_file, overrides=overrides).get("pid.file")
        with _pid_file(Path(pid_file) if pid_file else None):
            run_host(commands, names_nodes=config.ottla_log_format == log_output.TEXT)


def _as_options(overrides: Sequence[str]) -> Iterator[str]:
    for override in overrides:
        yield "--override"
        yield override


def settings_text(config: BrokerConfig) -> str:
    """Return the settings of a node that are not defaults, without secrets; with those of ottla.secure."""
    shown = sorted(config.static_texts.items())
    return "".join(
        f"{name}={HIDDEN if BROKER_CONFIG_DEF.key(name).sensitive else escape_controls(text)}\n"
        for name, text in shown
    )


def _print_ready(node: Broker) -> None:
    directories = ",".join(str(path) for path in node.config.log_dirs)
    what = "bootstrap" if node.config.is_broker else "controller"
    lines = [f"READY {what}={_bootstrap(node)} rest={_rest(node)} data={directories}"]
    files = node.config.secure_files
    if files is not None and files.client_properties.exists() and node.config.is_broker:
        lines += administrator_lines(files, client_bootstrap(node.config) or _bootstrap(node))
        _warn_without_administrator(node, files.client_properties)
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:  # the reader has ended, and clients do not need this line
        end_quietly()
    except OSError as error:  # a full disk behind the output is no reason not to serve either
        end_quietly()
        log.warning("The READY line could not be written to standard output: %s", output_refused(error))


def _warn_without_administrator(node: Broker, properties: Path) -> None:
    users = {one.name for one in node.config.first_users}
    quorum = node.quorum_services
    known = set() if quorum is None else {key.user for key in quorum.image.scram_credentials}
    if users and not users & known:
        log.warning(
            "The cluster does not have the user in %s, so no client can log in with that file: create the "
            "user with the password in it (`ottla user create`), as a user with that right.",
            properties,
        )


def _run(overrides: Sequence[str], config_file: Path | None, ready: Callable[[Broker], None]) -> None:
    with _refusals(overrides):
        config = load_config(config_file, overrides=overrides)
        log_output.begin(config.ottla_log_format, config.node_id)
        if config.secure_files is not None and prepare(config, config.secure_files, datetime.now(UTC)):
            config = load_config(config_file, overrides=overrides)  # complete with the new files
        try:
            with _pid_file(config.pid_file):
                run_node.run(config, ready=ready)
        finally:
            log_output.end()  # before the error message


@contextmanager
def _refusals(overrides: Sequence[str]) -> Iterator[None]:
    """Turn an error that keeps a node from starting into one sentence."""
    try:
        yield
    except KafkaError as error:
        raise CommandError(escape_controls(error.detail) or error.code.name) from None
    except OSError as error:
        raise CommandError(_reason(error, overrides)) from None


@contextmanager
def _pid_file(path: Path | None) -> Iterator[None]:
    """Keep the process id in `path` while the node runs; it stays after a kill, until the next start."""
    if path is None:
        yield
        return
    path.write_text(f"{os.getpid()}\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _reason(error: OSError, overrides: Sequence[str]) -> str:
    if isinstance(error, RestPortError):
        return str(error)
    named = next((one for one in reversed(overrides) if one.startswith("listeners=")), None)
    address = next(iter(getattr(error, "__notes__", ())), None)
    listeners = f"listeners={address}" if address else named or "an address in listeners"
    if error.errno == errno.EADDRINUSE:
        advice = "choose another port with --port" if named else "choose another port there"
        return f"Cannot listen on {listeners}: another process uses that port; {advice}."
    if error.errno == errno.EACCES and error.filename is None:
        return f"Cannot listen on {listeners}: no permission for that port; choose one above 1023."
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"Cannot listen on {listeners}: this machine does not have that address; use one of its own."
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}. Choose another data directory with --data."


def _bootstrap(node: Broker) -> str:
    listener = node.listeners[0]  # The actual port, not the 0 that may be in the configuration.
    return _address(listener.host, listener.port)


def _rest(node: Broker) -> str:
    """Return the URLs of the REST API, separated by commas; `-` if the node has none."""
    urls = (one._replace(host=host_from_here(one.host)).url for one in node.rest.addresses)
    return ",".join(urls) or "-"


def _address(host: str, port: int) -> str:
    host = host_from_here(host)
    return f"{f'[{host}]' if ':' in host else host}:{port}"
