"""Judges listeners and advertised addresses."""

from collections.abc import Iterable, Iterator, Sequence

from ottla.node.doctor.endpoint_facts import AdvertisedFacts, EndpointFacts, ListenerFacts, Speaks
from ottla.node.doctor.finding import Finding, note, problem
from ottla.node.settings.listener_settings import is_loopback


def of_bootstrap(
    endpoints: Iterable[EndpointFacts], down: Iterable[tuple[str, int]] = ()
) -> Iterator[Finding]:
    """Yield the problems of the bootstrap addresses, except of brokers that are reported as down anyway."""
    down = list(down)
    for one in endpoints:
        sentence = _problem(one)
        if sentence is not None and not any(_is_at(one, host, port) for host, port in down):
            yield problem("listener", f"{one.name} {sentence}")


def of_listeners(listeners: Iterable[ListenerFacts]) -> Iterator[Finding]:
    """Yield the problems of configured listeners: they must answer if the node runs, or else be free."""
    for one in listeners:
        name, at = f"The listener {one.name}", one.endpoint
        if not one.is_own_address:
            yield problem(
                "listener", f"{name} cannot be opened: this machine does not have the address {at.host}."
            )
        elif one.is_node_running:
            # For a TLS listener, an answer in TLS is enough.
            wanted = Speaks.TLS if one.security_protocol in ("SSL", "SASL_SSL") else Speaks.KAFKA
            sentence = None if at.speaks is wanted else _problem(at)
            if sentence is not None:
                yield problem("listener", f"{name} at {at.name} {sentence}")
        elif at.speaks not in (Speaks.REFUSED, Speaks.UNREACHABLE, Speaks.UNRESOLVED):
            does = "does not answer" if at.speaks is Speaks.SILENT else f"speaks {at.speaks.value}"
            yield problem(
                "listener",
                f"{name} cannot be opened: another process, which {does}, uses port {at.port}; stop it or "
                "choose another port.",
            )


def of_advertised(nodes: Iterable[AdvertisedFacts]) -> Iterator[Finding]:
    """Yield the problems of the addresses that nodes advertise to clients."""
    known: dict[str, int] = {}
    ordered = sorted(nodes)
    # A cluster that runs entirely on this machine, such as a laptop, is meant for local clients only.
    is_of_this_machine = all(_are_loopback(one.endpoint.addresses) for one in ordered)
    for one in ordered:
        at = one.endpoint
        name = f"Node {one.node_id} advertises {at.name}"
        if at.name in known:
            yield problem(
                "address",
                f"{name}, but node {known[at.name]} advertises that address too: correct "
                "advertised.listeners.",
            )
        known.setdefault(at.name, one.node_id)
        if _are_loopback(at.addresses) and not one.is_local:
            yield problem(
                "address",
                f"{name}, a loopback address: clients on other machines would connect to "
                "themselves; correct its advertised.listeners.",
            )
        elif one.is_itself is False:
            yield problem(
                "address", f"{name}, but another node answers there: correct its advertised.listeners."
            )
        elif (sentence := _problem(at)) is not None:
            yield problem("address", f"{name}, which {sentence}")
        elif _are_loopback(at.addresses) and not is_of_this_machine:
            yield note(
                "address", f"{name}, a loopback address: only clients on the same machine can connect."
            )


def _problem(at: EndpointFacts) -> str | None:
    """Return the problem of an address that should speak Kafka's protocol; None if it does."""
    match at.speaks:
        case Speaks.KAFKA:
            return None
        case Speaks.TLS:
            return (
                "requires TLS: set security.protocol=SSL in the file of --command-config, or use a PLAINTEXT "
                "listener."
            )
        case Speaks.DENIED:
            return f"does not serve this client: {at.reason}."
        case Speaks.HTTP:
            return "is a web server, not a Kafka listener: use the Kafka port."
        case Speaks.CONTROLLER:
            return (
                "is the CONTROLLER listener of an Ottla node, which serves only controllers and "
                "brokers: use a listener for clients, see `listeners`."
            )
        case Speaks.OTHER:
            return "does not speak the Kafka protocol: another program listens there."
        case Speaks.SILENT:
            return (
                "accepts connections but does not answer: the node is starting or hanging, or "
                "this is not a Kafka listener for clients."
            )
        case Speaks.REFUSED:
            return "refuses connections: no process listens there. Start the node, or correct the port."
        case Speaks.UNREACHABLE:
            return f"cannot be reached ({at.reason}): check the network and firewalls."
        case Speaks.UNRESOLVED:
            return f"cannot be resolved here ({at.reason}): correct the name, or the DNS."


def _is_at(one: EndpointFacts, host: str, port: int) -> bool:
    """Return True if this is the address that a broker advertises, by name or on this machine."""
    names = {one.host, *one.addresses}
    return one.port == port and (host in names or (is_loopback(host) and _are_loopback(one.addresses)))


def _are_loopback(addresses: Sequence[str]) -> bool:
    return bool(addresses) and all(map(is_loopback, addresses))
