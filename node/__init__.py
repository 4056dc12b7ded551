"""node: the process that speaks Kafka: sockets, request handlers, replicas, configuration, command line.

The map, bottom-up; a module imports only from lines above its own (a folder's line stands for its modules):

clock          the wall clock of the process
loggers        the loggers of the process and their levels
handing_over   how work is handed to a thread, a task, or another node
memory         how much memory a node may have, and what takes it
tls            keys, certificates and cipher suites, as both ends of TLS use them
wire           bytes of the Kafka protocol and the objects that they stand for
settings       the settings of a node, from file, environment and command line
counters       what the hot path counts: of topics, of requests
quota          how much clients may ask of a node, measured as Kafka measures it
secure_client  how a client proves who it is, and checks whom it speaks to
audit          who was refused, failed to log in or changed the cluster: a logger and a file
authorization  what a client may do with topics, groups, transactions, the cluster
net            listeners and connections; the client side of a connection
work           work that would hold up the loop: in turns, or beside it
security       who may do what
client_metrics  metrics that clients push: subscriptions, and what is shown of them
replica        partitions: leader or follower, high watermark, waiting requests, fetch sessions
log_care       the care of the logs that no request asks for: flushes, compaction, scrubbing, repair
metadata       the metadata of the cluster on this node, and this broker's place in it
coordinators   the coordinators of groups, transactions and share groups on this node
share          partitions as share groups read them: what is held by whom, and what is done with
node_state     the state of a node that all of its parts share
services       the finished parts of a node, as handlers, metrics and the REST API use them
node_view      the parts of a node that exist so far, for probes, metrics and the REST API
node_facts     reads the state of a node for the REST API, across threads
kafka_api      one handler per API, and the dispatch from frames to them
client         what programs ask of a cluster: the command line, and the REST API
console        the files of the web console
metrics        what a node tells a Prometheus
doctor         what is wrong with a node or a cluster, in sentences
rest_api       the REST API of a node, in a thread of its own
start          how the parts of a node are made, each finished when it is handed on
broker         a node with all of its parts: the order in which it starts, and how it stops
process        the process of one node: signals, the collector of garbage, open files
secure_setup   the keys, certificates and the administrator of a cluster that is secured by one flag
embedded       a cluster inside the process of its user, with nodes that can be killed, paused, cut off
tools          reading tools: log, wire, the state that internal logs stand for
cli            the command `ottla`
"""
