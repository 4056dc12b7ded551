"""ottla.node.start: how the parts of a node are made, each finished when it is handed on. Bottom-up:

world           what a node stands on: clock, files, chance, and the release that it is of
signals         events of early parts that later parts listen to
node_tasks      the tasks of a node, which end with it
peer_addresses  where this node reaches the others
part_settings   the settings of a node as its network and its replicas name them
foundation      the parts that need neither sockets nor metadata
sockets         the listeners
quorum          the voter of a node, or how a node that is none finds the voters
secured_mark    data of a secured node are not served to everybody by a forgotten setting
login_key       the key of the salts that are shown for unknown users, and of those of the first users
log_dirs        whose the log directories are, and the logs in them
peer_watch      which processes of other nodes have gone
metadata        the metadata, and this broker's registration in them
replicas        the partitions, none of which is open yet
coordinators    of groups, transactions and share groups, and what asks those of other nodes
care            what keeps replicas alike and logs clean, whole and on the disk
balance         what balances the cluster while this node is its controller
shares          share groups at the leaders of partitions, and where their dead letters go
services        the record of all that is served, and settings that change while it is
history         samples what this node counts, for its history
"""
