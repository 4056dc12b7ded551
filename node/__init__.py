"""node: the process that speaks Kafka: sockets, request handlers, replicas, configuration, command line.

The map, bottom-up; a module imports only from lines above its own (a folder's line stands for all its modules):

wire           bytes of the Kafka protocol and the objects that they stand for
"""
