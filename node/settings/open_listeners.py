"""Finds the listeners that a node opens and advertises, and the TLS and logins of each, from its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ottla.logstore.words.config_def import ConfigValue
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF, listener_setting
from ottla.node.settings.invalid_setting import invalid
from ottla.node.settings.listener_settings import ANYWHERE, Listener, parse_listeners, parse_protocol_map
from ottla.node.settings.sasl_settings import (
    SASL_LISTENER_SETTINGS,
    ListenerSasl,
    NodeLogin,
    controller_login,
    listener_sasl,
    mechanism_setting,
    node_login,
)
from ottla.node.settings.security_settings import (
    LISTENER_SETTINGS,
    REQUIRED,
    ListenerSecurity,
    listener_security,
)
from ottla.node.settings.setting import Typed


class OpenListeners(NamedTuple):
    """The listeners of a node, those for clients, for controllers and for other brokers."""

    all: tuple[Listener, ...]
    of_clients: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    advertised_controllers: tuple[Listener, ...]
    of_controllers: tuple[Listener, ...]  # in the order of controller.listener.names
    controllers: tuple[str, ...]  # controller.listener.names, in upper case
    first_controller: Listener | None  # that nodes dial; this node itself may not open it
    inter_broker: str  # the name; on a node that is only a controller, its first controller listener


def open_listeners(typed: Typed) -> OpenListeners:
    """Return the listeners of a node with these settings, by attribute; INVALID_CONFIG if they contradict."""
    protocols = parse_protocol_map(typed["listener_security_protocol_map"])
    controllers = tuple(name.strip().upper() for name in typed["controller_listener_names"])
    spare = _spare(protocols, controllers)
    every = parse_listeners(typed["listeners"], "listeners", spare)
    all_advertised = parse_listeners(typed["advertised_listeners"] or (), "advertised.listeners", spare)
    by_name = {one.name: one for one in every}
    of_controllers = tuple(by_name[one] for one in dict.fromkeys(controllers) if one in by_name)
    if is_only_controller(typed):
        # Brokers and tools reach it where the other controllers do.
        of_clients, advertised = of_controllers, all_advertised
        _check_all_are_of_controllers(every, controllers)
        inter_broker = of_controllers[0].name
    else:
        of_clients, advertised = _without(every, controllers), _without(all_advertised, controllers)
        if not of_clients:
            raise invalid("listeners", "all listeners are controller listeners; add one for clients.")
        inter_broker = _inter_broker_listener(typed, of_clients)
    _check_advertised(every, _without(of_clients, controllers), all_advertised)
    return OpenListeners(
        all=every,
        of_clients=of_clients,
        advertised=advertised,
        advertised_controllers=tuple(one for one in all_advertised if one.name in controllers),
        of_controllers=of_controllers,
        controllers=controllers,
        first_controller=_first_controller(controllers, every, protocols),
        inter_broker=inter_broker,
    )


def is_only_controller(typed: Typed) -> bool:
    """Return True if the settings make a node a controller, and not a broker."""
    return set(typed["process_roles"]) == {"controller"}


class SecuredListeners(NamedTuple):
    """The TLS and logins of a node's listeners and of its connections to others; fields of BrokerConfig."""

    listener_security: Mapping[str, ListenerSecurity]
    listener_sasl: Mapping[str, ListenerSasl]
    controller_security: ListenerSecurity | None
    controller_sasl: Mapping[str, ListenerSasl]
    controller_login: NodeLogin | None
    peer_security: ListenerSecurity | None
    peer_login: NodeLogin | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about its logins."""
        of_both = (*self.listener_sasl.values(), *self.controller_sasl.values())
        return tuple(one.warning for one in of_both if one.warning)


def secured_listeners(
    found: OpenListeners,
    for_controllers: Sequence[Listener],
    typed: Typed,
    values: Mapping[str, ConfigValue],
    texts: Mapping[str, str],
    own_keystore: str | None,
) -> SecuredListeners:
    """Return the TLS and logins of the settings; `own_keystore` is the one that `ottla.secure` makes."""
    first = found.first_controller
    controller_sasl, login = _of_controllers(
        first, for_controllers, typed["sasl_mechanism_controller_protocol"], values, texts
    )
    of_sasl, peer_login = controller_sasl, login
    if not is_only_controller(typed):
        of_sasl = _sasl(found.of_clients, values, texts)
        mechanism = typed["sasl_mechanism_inter_broker_protocol"]
        peer_login = _peer_login(found.inter_broker, of_sasl, mechanism)
    security = _security(found, values, texts)
    if own_keystore is not None:
        security = _bound_to_ids(security, own_keystore)
    return SecuredListeners(
        listener_security=security,
        listener_sasl=of_sasl,
        controller_security=None if first is None else security.get(first.name),
        controller_sasl=controller_sasl,
        controller_login=login,
        peer_security=_peer_security(found.inter_broker, found.of_clients, security),
        peer_login=peer_login,
    )


def _spare(protocols: Mapping[str, str], controllers: Sequence[str]) -> dict[str, str]:
    """Return the protocol map with PLAINTEXT for controller listeners that have no entry."""
    return {**dict.fromkeys(controllers, "PLAINTEXT"), **protocols}


def _without(listeners: tuple[Listener, ...], controllers: Sequence[str]) -> tuple[Listener, ...]:
    return tuple(listener for listener in listeners if listener.name not in controllers)


def _check_all_are_of_controllers(listeners: Sequence[Listener], controllers: Sequence[str]) -> None:
    """Raise INVALID_CONFIG unless a node that is only a controller has nothing but controller listeners."""
    if not controllers:
        raise invalid("controller.listener.names", "a controller needs it, such as CONTROLLER.")
    for other in _without(tuple(listeners), controllers):
        raise invalid(
            "listeners",
            f"with process.roles=controller it must contain only listeners in controller.listener.names, and "
            f"{other.name} is not one of them.",
        )


def _check_advertised(
    listeners: Sequence[Listener], of_clients: Sequence[Listener], advertised: Sequence[Listener]
) -> None:
    """Raise INVALID_CONFIG if no client could connect to an address that the node would advertise.

    As in Apache Kafka, a client listener on 0.0.0.0 needs an advertised address, and one without a host
    advertises the name of the machine.
    """
    names = {listener.name for listener in listeners}
    for listener in advertised:
        if listener.name not in names:
            raise invalid("advertised.listeners", f"{listener.name} is not in listeners.")
        if listener.host in ANYWHERE:
            raise invalid(
                "advertised.listeners", f"{listener.name} has no address that clients can connect to."
            )
    named = {listener.name for listener in advertised}
    for listener in of_clients:
        if listener.host and listener.host in ANYWHERE and listener.name not in named:
            raise invalid(
                "advertised.listeners",
                f"{listener.name} listens on {listener.host}, an address to which no client can connect: add "
                f"the address of this machine, such as {listener.name}://HOST:{listener.port}.",
            )


def _first_controller(
    controllers: Sequence[str], listeners: Sequence[Listener], protocols: Mapping[str, str]
) -> Listener | None:
    """Return the controller listener that nodes dial: the first name that this node has, else the first."""
    found = next((one for name in controllers for one in listeners if one.name == name), None)
    if found is not None or not controllers:
        return found
    name = controllers[0]
    return Listener(name=name, host="", port=0, security_protocol=protocols.get(name, "PLAINTEXT"))


def _inter_broker_listener(typed: Typed, listeners: Sequence[Listener]) -> str:
    name: str | None = typed["inter_broker_listener_name"]
    if name is None:
        protocol = typed["security_inter_broker_protocol"]
        found = [listener.name for listener in listeners if listener.security_protocol == protocol]
        if not found:
            raise invalid(
                "security.inter.broker.protocol",
                f"no listener uses {protocol}. Add one for the brokers, or name one of the others in "
                "inter.broker.listener.name.",
            )
        return protocol if protocol in found else found[0]
    if name.upper() not in (listener.name for listener in listeners):
        raise invalid("inter.broker.listener.name", f"{name} is not in listeners.")
    return name.upper()


def _security(
    found: OpenListeners, values: Mapping[str, ConfigValue], texts: Mapping[str, str]
) -> dict[str, ListenerSecurity]:
    """Return the TLS of each listener that has it.

    A node that is only a broker opens no controller listener, but has its settings, to dial controllers.
    """
    listeners, first = found.all, found.first_controller
    if first is not None and first not in listeners:
        listeners = (*listeners, first)
    overrides: dict[str, dict[str, ConfigValue]] = {one.name: {} for one in listeners}
    for name, text in texts.items():
        place = listener_setting(name)
        if place is not None and place[1] in LISTENER_SETTINGS and place[0] in overrides:
            overrides[place[0]][place[1]] = BROKER_CONFIG_DEF.parse(name, text)
    for name in found.controllers:  # controllers and their peers always show each other certificates
        overrides.setdefault(name, {})["ssl.client.auth"] = REQUIRED
    return {
        one.name: listener_security(
            one,
            values,
            overrides[one.name],
            is_between_nodes=one.name == found.inter_broker or one.name in found.controllers,
            has_logins=one.has_sasl,
        )
        for one in listeners
        if one.has_tls
    }


def _bound_to_ids(security: Mapping[str, ListenerSecurity], own_keystore: str) -> dict[str, ListenerSecurity]:
    """Require the id of a node in certificates, not only its host, where `ottla.secure` made the keystore."""
    return {
        name: replace(one, needs_node_id=one.is_between_nodes and one.keystore.location == own_keystore)
        for name, one in security.items()
    }


def _peer_security(
    inter_broker: str, listeners: Sequence[Listener], security: Mapping[str, ListenerSecurity]
) -> ListenerSecurity | None:
    """Return the TLS by which this node connects to nodes that have TLS.

    While a cluster changes to TLS node by node, nodes without it on their inter-broker listener must reach
    those with it: they use the keys of their first listener with TLS and a truststore.
    """
    own = [security[one.name] for one in listeners if one.name in security]
    own.sort(key=lambda one: one.listener != inter_broker)
    return next((one for one in own if one.truststore is not None), None)


def _of_controllers(
    first: Listener | None,
    listeners: Sequence[Listener],
    mechanism: str,
    values: Mapping[str, ConfigValue],
    texts: Mapping[str, str],
) -> tuple[dict[str, ListenerSasl], NodeLogin | None]:
    """Return the SASL of controller listeners, and the user of this node at the first of them.

    The user is None if the first has no SASL: a password for other listeners must not be sent there.
    """
    dialled = [] if first is None or first in listeners else [first]
    found = _sasl([*listeners, *dialled], values, texts)
    names = {one.name for one in listeners}
    logins = {name: controller_login(one, mechanism, is_open=name in names) for name, one in found.items()}
    return found, None if first is None else logins.get(first.name)


def _peer_login(inter_broker: str, of_sasl: Mapping[str, ListenerSasl], mechanism: str) -> NodeLogin | None:
    """Return the user of this node at other nodes; INVALID_CONFIG if it needs one and has none.

    While a cluster changes to logins node by node, nodes without SASL on their inter-broker listener use the
    user of another listener.
    """
    if inter_broker in of_sasl:
        return node_login(of_sasl[inter_broker], mechanism)
    found = (one.mechanisms.get(mechanism) for one in of_sasl.values())
    return next((one.node_login for one in found if one is not None and one.node_login is not None), None)


def _sasl(
    listeners: Sequence[Listener], values: Mapping[str, ConfigValue], texts: Mapping[str, str]
) -> dict[str, ListenerSasl]:
    """Return the SASL of each listener that has it."""
    overrides: dict[str, dict[str, ConfigValue]] = {one.name: {} for one in listeners}
    of_mechanisms: dict[str, dict[tuple[str, str], ConfigValue]] = {one.name: {} for one in listeners}
    for name, text in texts.items():
        place, of_listener = mechanism_setting(name), listener_setting(name)
        if place is not None and place.listener in of_mechanisms:
            value = BROKER_CONFIG_DEF.parse(name, text)
            of_mechanisms[place.listener][place.mechanism, place.setting] = value
        elif (
            of_listener is not None
            and of_listener[0] in overrides
            and of_listener[1] in SASL_LISTENER_SETTINGS
        ):
            overrides[of_listener[0]][of_listener[1]] = BROKER_CONFIG_DEF.parse(name, text)
    return {
        one.name: listener_sasl(one, values, overrides[one.name], of_mechanisms[one.name])
        for one in listeners
        if one.has_sasl
    }
