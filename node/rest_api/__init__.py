"""rest_api: the REST API of a node: Confluent's v3 and v2, and operations for administrators.

It runs in its own thread with its own event loop, and is a client of the cluster over the Kafka protocol, so
a request may go to any node. The map, bottom-up; a module imports only from lines above its own:

json_schema     validates JSON values against schemas
rest_error      errors as answers, and the answers for Kafka's errors
body_room       limits the memory of request bodies in all
answer_room     limits the memory of long answers in all
client_address  the address of a client, also behind a trusted proxy
fair_slots      slots for one kind of work, shared fairly among addresses
loop_turns      turns on the loop for work on very many records
request_turns   turns on the loop for requests as they arrive
known_passwords  a cache of correct passwords, as keyed hashes
login_waits     waits after wrong passwords for a user
sessions        logins to the console
record_service  shared by the routes of records: producers, and slots of pages and tails
client_pool     clients of the cluster, one for each request under way
authentication  finds the caller by a password, a token, a certificate or a session
standing_logins  ends work under way for callers whose login is no longer valid
v2_errors       errors of v2 that v3 does not have
v2_instances    consumers of v2 that run in this node
route           a line of the table of routes; the input and output of its handler
spelling        alternative paths of Confluent's API
resource        the envelope of Confluent's resources: kind, metadata, links
request_guard   rejects requests of foreign sites by Host, origin and type of the body
change_requests  the requests that the audit log records as changes of the cluster
clusters        the cluster as a resource
configs         parts that the settings of topics, brokers and the cluster have in common
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
json_stream     parses concatenated JSON documents of a stream
record_json     records as JSON, in both directions
record_filter   filters of records by a text or a JSON field
record_stream   a stream of records into a topic, with reports
offset_spec     the offsets at which reading starts and ends
record_reader   reads records in rounds, with the offset after each
one_record      one record by its offset
read_records    a page of records, or a live tail
produce_records  produces records to a topic: one, a stream, a batch
group_resources  parts that consumer groups and share groups have in common
consumer_groups  groups, their members and their lag
share_groups    share groups, their consumers and assignments
readiness       the readiness of a node for clients
operation_words  parts that the operations share: partitions, bounded lists
v2_words        media types of v2, and the formats of its records
v2_topics       topics, partitions, brokers and produced records in v2
v2_consumers    consumers in v2
dead_letters    dead letters of share groups, and their redelivery
group_view      a group with its members and lag
groups_overview  all groups, with lag
read_status     reads the facts that decide if a node is ready (door)
node_pulse      the time of the node's last beat, and its state then
probes          /healthz and /readyz
probe_answers   the answers to probes at a port of their own
state_words     state machines as JSON
debug_state     the state machines of this process
own_process     facts that only this process knows (door)
findings        the doctor's findings, cached for a moment
cluster_state   health overview, quorum, log directories
balance         the plan that gives all brokers equal shares
trim            deletes the oldest records of a topic
leaders         drains, transfers, elections
moves           reassignments, decommission, throttles
users           SCRAM users and their passwords
quotas          quotas of users, client ids and addresses
transactions    transactions, and the producers of a log
topics_overview  all topics with size and retention, their groups and producers
console_login   logins to the console
group_operations  resets, deletion and timeline of groups
metrics_routes  metrics for Prometheus; rates of this node and of all
history         the last hour of the cluster, of brokers, topics and groups
openapi         the OpenAPI document, made from the table
openapi_page    the OpenAPI document as an HTML page
all_routes      the table of all routes
own_names       the host names that a node accepts
http_answer     sends answers in HTTP
connections     the limit and the deadlines of connections
tls_door        TLS handshakes, before a connection speaks HTTP
http_request    validates HTTP requests and parses them for handlers
http_server     serves the table of routes
server_thread   the sockets, the thread and the loop
probe_server    the port, the thread and the loop of probes
"""
