"""ottla.node.metadata: the metadata of the cluster on this node, and this broker's place in it. Bottom-up:

command_parts         a change of very many topics is sent to the controller in parts
controller_runtime    the controller while this node leads
encoded_answers       encoded answers of Metadata and ApiVersions, kept while the metadata stay as they are
metadata_feed         what a voter gives to the nodes that are none
metadata_observer     the metadata of a node that is no voter
metadata_publisher    from the metadata to the node
suspected_brokers     whose connections have ended while the metadata still name them as leaders
quorum_contact        since when this node has no contact to a leader of the metadata quorum
topic_creation        topics that come into being because somebody needs them
command_sender        commands on their way to the controller on another node
member_quorum         a node of a shared quorum
metadata_runtime      the metadata of this node
assignments_manager   tells the cluster in which log directory each replica of this node lies
broker_lifecycle      this broker in its cluster
controller_lifecycle  the life of a node that is only a controller
balancer              balances the cluster while this node is its controller
producer_ids          producer ids that nobody else has
"""
