"""The host names that a node accepts in HTTP requests.

The resolver may take long for the machine's full name if a name server does not answer, so a thread looks it
up; requests by that name are rejected until it is known.
"""

import asyncio
import socket
import threading
from collections.abc import Callable

from ottla.node.settings.config import BrokerConfig


def configured_names(config: BrokerConfig) -> list[str]:
    """Return the names that are known without a resolver."""
    names = [socket.gethostname(), *config.ottla_rest_allowed_hosts]
    names += [listener.host for listener in config.advertised_listeners]
    names += [address.host for address in config.ottla_rest_listeners if address.host]
    if config.ottla_rest_advertised_listener is not None:
        names.append(config.ottla_rest_advertised_listener.host)
    return names


def look_up_full_name(receive: Callable[[str], object]) -> None:
    """Call the given function on this loop with the full name of the machine, once it is known."""
    loop = asyncio.get_running_loop()

    def look_up() -> None:
        name = socket.getfqdn()
        try:
            loop.call_soon_threadsafe(receive, name)
        except RuntimeError:  # the loop has ended in the meantime
            return

    # A daemon thread, which does not delay the end of the process.
    threading.Thread(target=look_up, name="own-name", daemon=True).start()
