"""ottla.node.net: listeners, connections and the client side of connections between nodes. Bottom-up:

connection_info     the facts of a connection: addresses, listener, the client's access
client_lines        lines of a log that clients cause, bounded by address and in all
connection_states   the states of a connection and all moves between them
file_pipe           a pipe that carries pages of files to sockets
gathered_answers    the order of the responses of one turn of the loop, and those sent together
pacing              turns TCP pacing (BBR) off for connections within this machine
peer_client         a client's connection to one node
peer_handshake      proves two nodes to each other by the secret of their cluster
act_for             hands the caller of a node's REST API over to a broker
receive_memory      the budget of memory that all receive buffers of a node share
receive_buffer      the received bytes of a connection that are not served yet; frames are found in place
receive_windows     wider TCP receive windows for large frames, within a budget
own_hosts           the hosts at which others reach this node, from its settings
server_tls          the TLS contexts that a listener and its peers need
send_buffers        the kernel's send buffers of connections that read records
unsent_answers      the memory of responses that clients do not read fast enough
answers             the forms in which a handler answers a request
login               the interfaces of logins for connections and listeners
not_served          detects why a request is not served: foreign bytes, a gone client, failed work
ordered_answers     the responses that a connection owes, in the order of their requests
connection_reserve  room for peers and administrators beyond the limits of connections
file_sender         sends records from files to a socket, past its transport
file_answers        sends a connection's responses from files, past its transport if possible
read_turn           the time for which the loop reads on from a connection that sends much
throttle            the wait of a client that exceeded a quota
connection_host     the part of a listener that its connections need
handshake_executor  computes TLS handshakes in two threads beside the loop
tls_transport       TLS between the socket and a connection
peer_network        the connections of this node to the other nodes of its cluster
connection          one client's connection: receives requests, serves them in order, sends the responses
arrivals            accepted connections that wait because they arrive faster than a quota allows
acceptor            accepts connections on a listening socket, several in each turn of the loop
link_door           tells links among voters from Kafka's protocol on one port, by the first bytes
connection_quota    counts the connections of a node over all its listeners against their limits
listener            a listening socket and its connections, with their limits
"""
