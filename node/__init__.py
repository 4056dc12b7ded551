"""node: the process that speaks Kafka: sockets, request handlers, replicas, configuration, command line.

The map, bottom-up; a module imports only from lines above its own (a folder's line stands for all its modules):
"""
