"""The attacks of `scripts/attack`: requests of one hostile client, and the limits of their cost to a node.

secured_access  the connections and logins of clients of secured nodes
nodes         one node or three as processes: their CPU, memory and metrics
attack        an attack: its name, what it sends, its limits in CPU seconds and MiB
hostile       hostile frames, built and sent without the code under test where that matters
good_client   a well-behaved client in a process of its own, and its measurements
trial         runs attacks on running nodes, measures the cost of each and lists the limits that it exceeded
long_ids      attacks with ids of kilobytes, in every API that takes an id
metrics_bomb  attacks with names that make an exposition of metrics large
slow_patterns  attacks with regular expressions that take long to match
costly_texts  attacks with texts that could make a parser backtrack
json_bombs    attacks with JSON of very many small values, and pages over many partitions
adding_up     attacks whose memory adds up over many connections
giant_requests  attacks with as many elements as one request may have, in every API that takes arrays
record_bombs  attacks with batches of a few kB that decompress into millions of records
quota_floods  attacks by clients that have quotas
request_floods  attacks with small requests, sent without waiting for the responses
share_floods  attacks by members of share groups, and by strangers that write share group state
probes        a process that requests /healthz repeatedly
kubelet       probes of a node during an attack
poisoned_batches  attacks with corrupt batches that consumers could not get past
closed_doors  attacks on commands and connections that are reserved for nodes and administrators
rest_floods   attacks by one address that wants all of the REST API or of the probes' port
tls_floods    attacks by strangers on TLS listeners, with up to a thousand failing connections a second
login_floods  attacks with masses of passwords, proofs and tokens, at listeners and at the REST API
rights_floods  attacks by users without rights, among 50,000 ACLs, and with pushed client metrics
security_attacks  the table of attacks on secured nodes, and the other attacks repeated on secured nodes
all_attacks   the table of all attacks
report        prints a table with a row for each attack
"""
