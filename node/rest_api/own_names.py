"""By which names a node may be asked over HTTP.

What the resolver calls the machine may take as long to be known as a name server does not answer, so it is
asked for beside: who asks by that name before is refused.
"""

import asyncio
import socket
import threading
from collections.abc import Callable

from ottla.node.settings.config import BrokerConfig


def configured_names(config: BrokerConfig) -> list[str]:
    """Those that are known without asking anybody."""
    names = [socket.gethostname(), *config.ottla_rest_allowed_hosts]
    names += [listener.host for listener in config.advertised_listeners]
    names += [address.host for address in config.ottla_rest_listeners if address.host]
    if config.ottla_rest_advertised_listener is not None:
        names.append(config.ottla_rest_advertised_listener.host)
    return names


def look_up_full_name(told: Callable[[str], object]) -> None:
    """Have `told` called on this loop with the full name of the machine, when it is known."""
    loop = asyncio.get_running_loop()

    def look_up() -> None:
        name = socket.getfqdn()
        try:
            loop.call_soon_threadsafe(told, name)
        except RuntimeError:  # the loop has ended meanwhile
            return

    # A thread of its own, which no end of a process waits for.
    threading.Thread(target=look_up, name="own-name", daemon=True).start()
