"""node: the process that speaks Kafka: sockets, request handlers, replicas, configuration, command line.

The map, bottom-up; a module imports only from lines above its own (a folder's line stands for its modules):

clock          the wall clock of the process
loggers        the loggers of the process and their levels
handing_over   the types of calls that hand work to a thread, a task, or another node
memory         the limit of memory of a node, and the shares of its parts
tls            keys, certificates and cipher suites, as both ends of TLS use them
wire           bytes of the Kafka protocol and the objects that they stand for
settings       the settings of a node, from file, environment and command line
counters       the counters of the hot path: of topics, of requests
quota          the quotas of clients, measured as Kafka measures them
secure_client  the client side of TLS and of logins
audit          the audit log: rejected requests, failed logins and changes, in a logger and a file
authorization  the rights of clients on topics, groups, transactions and the cluster
net            listeners and connections; the client side of a connection
work           long work, done in turns of the loop or in threads beside it
security       authentication: principals, credentials, administrators
client_metrics  metrics that clients push: subscriptions, and the metrics that are shown
replica        partitions: leader or follower, high watermark, waiting requests, fetch sessions
log_care       flushes, compaction, scrubbing and repair of logs, in the background
metadata       the metadata of the cluster on this node, and the registration of this broker
coordinators   the coordinators of groups, transactions and share groups on this node
share          partitions as share groups read them: acquired records, their members and outcomes
node_state     the state of a node that all of its parts share
services       the finished parts of a node, as handlers, metrics and the REST API use them
node_view      the parts of a node that exist so far, for probes, metrics and the REST API
node_facts     reads the state of a node for the REST API, across threads
kafka_api      one handler per API, and the dispatch from frames to them
client         a client of the Kafka protocol, for the command line and the REST API
console        the files of the web console
metrics        the metrics of a node, in the text format of Prometheus
doctor         finds the problems of a node or a cluster, and says what to do about each
rest_api       the REST API of a node, in a thread of its own
start          makes the parts of a node, each finished before it is handed on
broker         a node with all of its parts: the order in which it starts, and how it stops
process        the process of one node: signals, garbage collection, open files
secure_setup   the keys, the certificates and the administrator of a cluster that `--secure` sets up
embedded       a cluster inside the process of a test, whose nodes can be killed, paused and cut off
tools          reading tools: log, wire, the state that internal logs stand for
cli            the command `ottla`
"""
