"""Translates the settings of a node into those of its network, its quotas and its replicas."""

from collections.abc import Callable

from ottla.node.net.connection_quota import ConnectionLimits
from ottla.node.quota.client_quotas import ClientQuotas
from ottla.node.quota.connection_rates import ConnectionRates, RateLimits
from ottla.node.quota.rate import Windows
from ottla.node.replica.follower_fetcher import FetcherSettings
from ottla.node.replica.follower_state import FetchBounds
from ottla.node.security.sasl.failed_logins import FailureAllowance
from ottla.node.settings.config import BrokerConfig


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """Return the limits on the number of connections."""
    return ConnectionLimits(
        max_connections=config.max_connections,
        listener_max_connections=config.listener_max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
    )


def failure_allowance(config: BrokerConfig) -> FailureAllowance:
    """Return the number of logins that may fail before responses to logins are delayed."""
    return FailureAllowance(
        burst=config.ottla_failed_logins_burst,
        per_second=config.ottla_failed_logins_rate,
        exempt=config.ottla_failed_logins_exempt,
    )


def rate_limits(config: BrokerConfig) -> RateLimits:
    """Return the limits on the rate of new connections."""
    return RateLimits(
        max_connection_creation_rate=config.max_connection_creation_rate,
        listener_max_connection_creation_rate=config.listener_max_connection_creation_rate,
    )


def connection_rates(config: BrokerConfig, now_ms: Callable[[], int]) -> ConnectionRates:
    """Return the rates of new connections with their limits; no address has a quota yet."""
    rates = ConnectionRates(_windows(config), now_ms)
    rates.limit(rate_limits(config))
    return rates


def _windows(config: BrokerConfig) -> Windows:
    return Windows(config.quota_window_num, config.quota_window_size_seconds * 1_000)


def client_quotas(config: BrokerConfig, now_ms: Callable[[], int]) -> ClientQuotas:
    """Return the measured quotas of clients; no client has a quota yet."""
    return ClientQuotas(
        _windows(config),
        Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1_000),
        now_ms,
    )


def fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    """Return the settings of the fetchers that copy partitions from their leaders (`replica.*`)."""
    return FetcherSettings(
        bounds=FetchBounds(
            max_bytes=config.replica_fetch_response_max_bytes,
            min_bytes=config.replica_fetch_min_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
            max_wait_ms=config.replica_fetch_wait_max_ms,
        ),
        backoff_ms=config.replica_fetch_backoff_ms,
        socket_timeout_ms=config.replica_socket_timeout_ms,
    )
