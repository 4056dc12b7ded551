"""What programs ask of a cluster over the Kafka protocol: the command line, and the REST API of a node."""
