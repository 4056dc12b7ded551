"""metadata_raft: the cluster's metadata, decided by commands, stored as records in the log of a quorum.

The map, bottom-up; a module imports only from lines above its own:

module_absent          hides an optional module, so that libraries do not import it
records                TopicRecord, PartitionRecord, ConfigRecord ... in Kafka's own schemas
metadata_version       metadata.version: the versions in which records are written
cluster_features       the features that this release supports, with their levels
record_codec           encodes and decodes records and their batches
persistent_map         an immutable mapping; a changed one shares its memory
acl                    access control entries, their filters and enums
acl_set                decides by access control entries whether an operation is allowed
scram                  SCRAM mechanisms, and the keys that verify a password
image                  MetadataImage: the immutable metadata at an offset
delta                  applies records: image, records -> next image
image_changes          finds the differences between two images
commands               CreateTopics, DeleteTopics, AlterConfigs, RegisterBroker ... and their replies
command_codec          encodes and decodes commands and replies
decision               Decision(records, reply)
request_control        carries out each command once, even if it is retried
controller_config      the settings and limits of the controller
leader_spread          chooses leaders so that brokers lead evenly
replica_placement      chooses the brokers of a new partition
eligible_replicas      replicas outside the ISR that may lead (KIP-966)
leader_election        chooses the leader of a partition
partition_change       builds the record that changes a partition to a target state
partition_control      decides first states, manual assignments, leaders when a broker starts or fails
broker_sessions        the sessions of brokers (soft state)
feature_control        decides finalized features
cluster_control        decides registration, heartbeats, fencing and shutdown of brokers
isr_control            decides AlterPartition
election_control       elects preferred leaders, and leaders uncleanly
due_elections          schedules elections that no command requests (soft state)
reassignment_control   begins, cancels and lists reassignments
balance_plan           plans moves so that brokers have equal shares
drain_plan             plans the moves away from a broker to decommission
mutation_charge        charges a command to the quota of its client (soft state)
configuration_control  decides settings of topics, brokers, groups and client metrics
topic_control          creates and deletes topics, adds partitions
acl_control            creates and deletes access control entries
client_quota_control   decides client quotas
scram_control          decides SCRAM credentials of users
producer_id_control    allocates blocks of producer ids
voters                 Voter, VoterSet: the voters with their directories
voter_control          decides changes of the voters
command_access         checks the rights that commands need
controller             command -> Decision; replay(batch)
control_records        LeaderChangeMessage and the other control records of KRaft
snapshot               encodes and decodes an image as a snapshot
quorum                 the Quorum protocol: append, commit, resign
quorum_memory          a quorum of one in memory, for tests
raft_entry             the entries of the replicated log: Kafka's batches with Raft index and term
quorum_state           the file with the term and the vote
raft_journal           the replicated log: in memory, and on disk in Kafka's format
raft_snapshots         stores, serves and receives snapshots (door)
raft_check             checks the files of a running voter for damage (door)
raft_messages          the messages between voters
raft_node              the engine, pysyncobj, and the only file that knows its private names (door)
raft_promises          handles a voter whose disk was restored: when it may not vote, when it may again
raft_replication       the leader's side: sends entries and snapshots, tracks the progress of peers
raft_follower          the follower's side: takes entries and snapshots from the leader
raft_election          PreVote, and the rule which votes count
raft_guard             checks received messages, and orders those that are sent
raft_member            one voter, driven by its cycle
peer_certificate       checks that a certificate was issued for a node
raft_handshake         the handshake by which voters authenticate each other
link_troubles          the reasons of missing links, and when to log them
raft_wire              one connection of a link: frames, with limits (door)
raft_pending_links         limits the connections that are not authenticated yet
raft_link              the links between voters (door)
raft_core              a voter on its own event loop, which makes images of commits (door)
raft_thread            a thread with an event loop (door)
quorum_raft            the replicated quorum for a node (door)
"""
