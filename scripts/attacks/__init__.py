"""The attacks of `scripts/attack`: what one hostile client sends, and what it may cost a node.

secured_access  how clients of secured nodes are let in, as whom
nodes         a node or three as processes: their CPU, memory and metrics
attack        an attack: its name, what it sends, its limits in CPU seconds and MiB
hostile       hostile frames, built and sent without the code under test where that matters
good_client   a client that behaves, in a process of its own: what it saw
trial         attacks on running nodes: what each cost, and which limits it missed
long_ids      attacks with ids of kilobytes, in every API that takes one
metrics_bomb  attacks with names that make an exposition of metrics large
slow_patterns  attacks with regular expressions that take long
adding_up     attacks whose memory adds up over many connections
giant_requests  attacks with as many elements as one request may have, in every API that takes many
record_bombs  attacks with batches of some kB that open into millions of records
quota_floods  attacks of clients that have quotas
request_floods  attacks with small requests that do not wait for their answers
share_floods  attacks of members of share groups, and of strangers that write their states
probes        /healthz asked again and again, by a process of its own
kubelet       probes beside an attack
poisoned_batches  attacks with batches that no client could read past
closed_doors  attacks on what is for nodes and administrators: commands, the quorum's port, last connections
rest_floods   attacks of one address that wants all of the REST API or of the probes
tls_floods    attacks of strangers on listeners with TLS; a thousand connections a second that fail
login_floods  attacks with passwords, proofs and tokens in masses, at listeners and at the REST API
rights_floods  attacks of users without rights, and of what there is very much of
security_attacks  the table of those, and the others as they meet secured nodes
all_attacks   the table of all attacks
report        a row for each
"""
