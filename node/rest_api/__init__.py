"""rest_api: the REST API of a node: Confluent's v3, and what operators ask beyond it.

It runs in a thread of its own with its own event loop, and asks the cluster over the Kafka protocol, so that
a request may go to any node. The map, bottom-up; a module imports only from lines above its own:

json_schema     whether a JSON value is what a schema says
rest_error      an answer that is an error, and Kafka's errors as such
body_room       how much memory bodies have together
answer_room     how much memory answers have together
client_address  whose request it is, also behind a proxy
fair_slots      slots for one kind of work, shared fairly among addresses
loop_turns      turns on the loop for work on very many records
request_turns   turns on the loop for what clients send
known_passwords  passwords that were right, by their hashes
login_waits     how long to wait after wrong passwords for a user
sessions        logins to the console
record_service  what the routes of records share: producers, and the slots of live tails
client_pool     clients of the cluster, one for each request under way
authentication  who asks: by a password, a token, a certificate or a session
standing_logins  ends what is under way for callers whose login no longer holds
v2_errors       errors of v2 that v3 has not
v2_instances    consumers of v2 that live in this node
route           a line of the table of routes; what a handler is given, what it gives back
spelling        the ways in which a path may be written
resource        Confluent's words around data: kind, metadata, links
request_guard   who may ask: the Host, the origin, the type of the body
change_requests  which requests change the cluster, as the audit log tells them
clusters        clusters
configs         settings as resources: what those of topics and brokers share
topics          topics
topic_configs   the settings of topics
replicas        replicas of a partition
partitions      partitions and their offsets
reassignments   reassignments under way
brokers         brokers and their replicas
broker_configs  the settings of brokers
group_configs   the settings of groups
acls            access control entries
console         the files of the web console
topic_partitions  the partitions of a topic with offsets and sizes
json_stream     documents out of a stream of bytes
record_json     records as JSON, in both directions
record_filter   which records a reader wants
record_stream   documents in, reports out
offset_spec     where reading begins and ends
record_reader   records in rounds, and the place behind each
one_record      one record by its place
read_records    a page of records, or a live tail
produce_records  records into a topic: one, a stream, a batch
group_resources  groups as resources: what those of consumers and share groups have in common
consumer_groups  groups, their members and their lag
share_groups    share groups, their consumers and what these are assigned
readiness       whether a node may be sent clients
operation_words  words that the operations share: partitions, bounded lists
v2_words        media types of v2, and the formats of its records
v2_topics       topics, partitions and brokers by v2, and records produced to them
v2_consumers    consumers by v2
dead_letters    dead letters of share groups, and how they are delivered again
group_view      a group with its members and lag
groups_overview  all groups, with lag
read_status     the facts that decide whether a node may be sent clients (door)
node_pulse      when the node's loop last turned, and its state then
probes          /healthz and /readyz
probe_answers   the same as bytes, for a port of their own
state_words     state machines as JSON
debug_state     the state machines of this process
own_process     what only this process knows of itself (door)
findings        what the doctor finds of the cluster, kept for a moment
cluster_state   health overview, quorum, log directories
balance         the plan that gives all brokers their share
trim            the oldest records of a topic, deleted
leaders         drains, transfers, elections
moves           reassignments, decommission, throttles
users           SCRAM users and their passwords
quotas          quotas of users, client ids and addresses
transactions    transactions, and the producers of a log
topics_overview  all topics with size and retention, their groups and producers
console_login   logins to the console
group_operations  resets, deletion and timeline of groups
metrics_routes  what a Prometheus scrapes; rates of this node and of all
history         the last hour of the cluster, of brokers, topics and groups
openapi         the OpenAPI document, made from the table
openapi_page    the same as a page for people
all_routes      the table of all routes
own_names       by which names a node may be asked
http_answer     from what handlers give to HTTP
connections     who is connected, and who gives its place to somebody else
tls_door        handshakes of TLS, before a connection is one of HTTP
http_request    from HTTP to what handlers get
http_server     serves the table of routes
server_thread   the sockets, the thread and the loop
probe_server    the port, the thread and the loop of probes
"""
