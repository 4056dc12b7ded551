"""node: the process that speaks Kafka: sockets, request handlers, replicas, configuration, command line.

The map, bottom-up; a module imports only from lines above its own (a folder's line stands for its modules):

clock                 what time it is
loggers               the loggers of the process and their levels
properties_file       Java's properties files
listener_settings     `listeners`, `advertised.listeners` and their relatives
settings_not_honoured  settings of Apache Kafka that have no effect here
setting               how the tables of settings are written
cluster_settings      the table of settings of a node among others: quorum, replication, peers
group_settings        the table of settings of groups and their offsets, and what they must be to each other
transaction_settings  the table of settings of transactions
metrics_settings      the table of settings of metrics
rest_settings         the table of settings of the REST API, and the addresses in them
group_config_def      the settings of single groups, and what holds of them
memory_limit          how much memory the process may have
memory_budget         one budget of it for all that clients make a node hold
memory_uses           how much of its memory each part uses
broker_settings       the table of broker settings
config                file, environment and command line into one frozen BrokerConfig
counters              what the hot path counts: of topics, of requests
wire                  bytes of the Kafka protocol and the objects that they stand for
net                   listeners and connections; the client side of a connection
replica               partitions: leader or follower, high watermark, waiting requests, fetch sessions
runtime               the doors between pure cores and the loop: metadata, groups, timers, care of the logs
node_state            what changes of a node while it runs
services              the finished parts of a node, as handlers, metrics and the REST API use them
kafka_api             one handler per API, and the dispatch from frames to them
node_view             a node as probes, metrics and the REST API see it
node_facts            what only the process of a node knows, asked across threads
client                what programs ask of a cluster: the command line, and the REST API
console               the files of the web console
metrics               what a node tells a Prometheus
rest_api              the REST API of a node, in a thread of its own
start                 how the parts of a node are made, each finished when it is handed on
broker                a node with all of its parts: the order in which it starts, and how it stops
process               the process of one node: signals, the collector of garbage, open files
embedded_network      the network among the nodes of an embedded cluster, which can be cut
embedded              a cluster inside the process of its user, with nodes that can be killed, paused, cut off
pytest_plugin         the fixture `ottla_cluster` for test suites of others
tools                 reading tools: log, wire, the state that internal logs stand for
doctor                what is wrong with a node or a cluster, in sentences
cli                   the command `ottla`
"""
