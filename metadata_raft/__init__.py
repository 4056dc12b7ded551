"""metadata_raft: the cluster's metadata, decided by commands, kept as records, behind a quorum.

The map, bottom-up; a module imports only from lines above its own:

module_absent          hides a module from those who would import it if it were there
records                TopicRecord, PartitionRecord, ConfigRecord ... in Kafka's own schemas
metadata_version       which records all brokers can read
cluster_features       the features that a node knows
record_codec           records and their batches as bytes
persistent_map         a mapping that never changes; one with changes shares its memory
acl                    access control entries, filters of them, the words and numbers in them
acl_set                who may do what, decided by access control entries
scram                  SCRAM mechanisms, and the keys by which a password is checked
image                  MetadataImage: what brokers see, immutable
delta                  what records change: image, records -> next image
image_changes          what differs between two images
commands               CreateTopics, DeleteTopics, AlterConfigs, RegisterBroker ... and their replies
command_codec          commands and replies as bytes
decision               Decision(records, reply)
request_control        commands that are sent again
controller_config      the settings and limits that a controller obeys
leader_spread          which of those that could lead a partition does, so that leadership stays even
replica_placement      which brokers hold a new partition
eligible_replicas      who may still lead though it is not in sync (KIP-966)
leader_election        who leads a partition
partition_change       from what a partition shall become to the record that makes it so
partition_control      first state, manual assignments, leaders when a broker comes or goes
broker_sessions        which brokers live (soft state)
feature_control        finalized features
cluster_control        brokers: registration, heartbeats, fencing, controlled shutdown
isr_control            AlterPartition
election_control       ElectLeaders, preferred and unclean elections
due_elections          when leaders are elected without that anybody asks (soft state)
reassignment_control   moving partitions to other brokers
balance_plan           how replicas and leaders move so that all brokers have their share
drain_plan             how a broker is emptied before it goes
mutation_charge        what a command takes of the quota of its client (soft state)
configuration_control  settings of topics, brokers, groups
topic_control          create, delete, grow topics
acl_control            create and delete access control entries
client_quota_control   client quotas
scram_control          SCRAM credentials of users
producer_id_control    blocks of producer ids
voter_control          who votes in the quorum
command_access         the rights that commands ask for, judged where they are decided
controller             command -> Decision; replay(batch)
voters                 Voter, VoterSet: who votes, with which disk
control_records        LeaderChangeMessage and the other control records of KRaft
snapshot               image <-> records
quorum                 the Quorum protocol: append, commit, resign
quorum_memory          a quorum of one in memory
raft_entry             one entry of the replicated log: Kafka's batch with Raft index and term inside
quorum_state           the file of the term and the vote
raft_journal           the replicated log: in memory, and on disk in Kafka's format
raft_snapshots         snapshots on disk, served and received (door)
raft_check             what is damaged in the files of a voter that runs (door)
raft_messages          what voters say to each other
raft_node              the engine, pysyncobj, and the only file that knows its seams (door)
raft_promises          a voter whose disk went back: what it must not vote against, how it is whole again
raft_replication       the leader's side: what each peer is sent, what its answers prove
raft_follower          the follower's side: entries and snapshots from the leader
raft_election          PreVote, and whose vote counts
raft_guard             which message is heard, and when one leaves
raft_member            one voter, whole, driven by its cycle
peer_certificate       the node for which a certificate was issued
raft_handshake         how voters prove to each other who they are
link_troubles          why there is no link to a voter, and when that is said again
raft_wire              one connection: frames with a limit (door)
raft_strangers         who must go when too many have not proven themselves
raft_link              the links among voters (door)
raft_core              a voter on its event loop: commits become images (door)
raft_thread            a thread with an event loop (door)
quorum_raft            the replicated quorum as a node sees it (door)
"""
