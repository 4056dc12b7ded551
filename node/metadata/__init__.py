"""ottla.node.metadata: the cluster's metadata on this node, and the registration of this broker. Bottom-up:

command_parts         splits a change of many topics into several commands to the controller
controller_runtime    runs the controller while this node leads the metadata quorum
encoded_answers       caches encoded responses of Metadata and ApiVersions until the metadata change
metadata_feed         serves committed metadata to nodes without a vote, from a voter's memory
metadata_observer     fetches the metadata from a voter
metadata_publisher    applies a new image to this node's configuration and replicas
suspected_brokers     tracks brokers whose connections ended while the metadata still name them as leaders
quorum_contact        records when a leader of the metadata quorum last answered this node
topic_creation        makes the commands that create internal and auto-created topics
command_sender        sends commands to the controller on another node
member_quorum         votes while this node has a vote, and fetches the metadata while it has none
metadata_runtime      submits commands, and publishes committed images on this node
assignments_manager   reports to the controller in which log directory each replica of this node lies
broker_lifecycle      registers this broker and sends its heartbeats
controller_lifecycle  the lifecycle of a node that is only a controller
balancer              balances the cluster while this node is its controller
producer_ids          hands out producer ids from blocks that the controller allocates
"""
