"""The broker settings of Apache Kafka 4.3 that have no effect here, or none yet.

A node logs a warning for each at its start and goes on, so that a `server.properties` of Apache Kafka works
unchanged. Settings that restrict clients are the exception: a node that ignored them would be open although
its operator believes it to be closed, so it does not start.
"""

from typing import Final

NOT_HONOURED: Final = frozenset(
    """
    alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds background.threads client.quota.callback.class
    config.providers controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    controller.quorum.append.linger.ms
    controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
    controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
    controller.quorum.fetch.timeout.ms controller.socket.timeout.ms cordoned.log.dirs
    create.topic.policy.class.name delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
    delegation.token.max.lifetime.ms delegation.token.secret.key
    delete.records.purgatory.purge.interval.requests early.start.listeners
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.coordinator.threads group.share.persister.class.name
    group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
    group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
    group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
    group.streams.num.standby.replicas group.streams.session.timeout.ms internal.metadata.delete.delay.millis
    internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
    kafka.metrics.polling.interval.secs kafka.metrics.reporters
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
    metadata.max.retention.bytes metadata.max.retention.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms num.io.threads num.network.threads
    num.replica.alter.log.dirs.threads offsets.load.buffer.size principal.builder.class
    producer.purgatory.purge.interval.requests queued.max.requests remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
    remote.log.index.file.cache.ttl.ms remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
    remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
    remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
    remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
    remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
    remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
    remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
    remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
    remote.log.reader.max.pending.tasks remote.log.reader.threads remote.log.storage.manager.class.name
    remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
    remote.log.storage.system.enable replica.socket.receive.buffer.bytes sasl.client.callback.handler.class
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
    sasl.server.callback.handler.class security.providers server.max.startup.time.ms
    share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
    share.coordinator.load.buffer.size share.coordinator.threads share.fetch.purgatory.purge.interval.requests
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms socket.receive.buffer.bytes
    ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm transaction.state.log.load.buffer.size
    unstable.feature.versions.enable
    """.split()  # noqa: SIM905 - a table of names reads better without 270 pairs of quotes
)

# Settings that restrict clients, each with the values that add no restriction to a node's defaults.
_RESTRICTIONS: Final[dict[str, frozenset[str]]] = {
    "allow.everyone.if.no.acl.found": frozenset({"true"}),
    "alter.config.policy.class.name": frozenset(),
    "client.quota.callback.class": frozenset(),
    "config.providers": frozenset(),
    "connections.max.reauth.ms": frozenset({"0"}),
    "create.topic.policy.class.name": frozenset(),
    "delegation.token.secret.key": frozenset(),
    "principal.builder.class": frozenset(),
    "security.providers": frozenset(),
    "ssl.cipher.suites": frozenset(),
    "ssl.client.auth": frozenset({"none"}),
    "ssl.enabled.protocols": frozenset({"tlsv1.2,tlsv1.3", "tlsv1.3,tlsv1.2"}),
    "ssl.engine.factory.class": frozenset(),
    "ssl.keymanager.algorithm": frozenset({"sunx509", "pkix"}),
    "ssl.protocol": frozenset({"tls", "tlsv1.2", "tlsv1.3"}),
    "ssl.provider": frozenset(),
    "ssl.trustmanager.algorithm": frozenset({"pkix", "sunx509"}),
    "ssl.principal.mapping.rules": frozenset({"default"}),
    "super.users": frozenset(),
}


def restricts(name: str, value: str) -> bool:
    """Return True if the setting would restrict clients, if it were honoured.

    `name` is the node's setting, without the prefix of a listener or a SASL mechanism. A blank value
    restricts nothing. Any setting of SASL restricts: it promises that clients log in.
    """
    if not value.strip():
        return False
    if name.startswith("sasl."):
        return True
    allowed = _RESTRICTIONS.get(name)
    return allowed is not None and "".join(value.split()).lower() not in allowed
