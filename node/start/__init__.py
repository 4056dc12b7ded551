"""ottla.node.start: makes the parts of a node; each is complete when it is handed on. Bottom-up:

world           the environment of a node: clock, files, random numbers, and its release
signals         events of parts made early, for listeners made later
node_tasks      runs the tasks of a node, and ends them with it
peer_addresses  finds the addresses of the other nodes
part_settings   translates the settings of a node into those of its parts
foundation      makes the parts that need neither sockets nor metadata
sockets         binds the listeners
quorum          opens the voter of a node, or finds the voters for an observer
secured_mark    prevents a secured node from being started without security by mistake
login_key       finds the key for the salts of unknown users and of the first users
log_dirs        claims the log directories, and opens the logs in them
peer_watch      detects that the process of another node has ended
metadata        makes the metadata, and the registration of this broker
replicas        makes the replica manager, before any log is open
coordinators    makes the coordinators, and the clients of those on other nodes
care            makes the replication, and the maintenance of logs
balance         makes the balancer, which works while this node is the controller
shares          makes the leader's side of share groups, and their dead letter queue
services        makes the record of all services, and applies changed settings
history         samples the counters of this node for its history
"""
