"""ottla.node.net: sockets: listeners and connections, and the client side of a connection. Bottom-up:

connection_info     who is at the other end of a connection
client_lines        lines of a log that clients cause, bounded by address and in all
connection_states   the states of a connection, and all moves between them
file_pipe           a pipe on the way from files to sockets
gathered_answers    which answers of one turn of the loop leave first, and which together
pacing              who is paced
peer_client         a client's connection to one node
peer_handshake      how two nodes prove who they are and that they know the secret of their cluster
act_for             how the REST API of a node hands over who its caller is
receive_memory      the budget of memory that all receive buffers of a node share
receive_buffer      what a connection has received and not served yet; frames are found in it in place
receive_windows     how much a client may have under way to this node
own_hosts           the hosts at which others reach this node, by its settings
server_tls          what the connections of a listener need of TLS
send_buffers        how much the kernel may hold of what goes to connections that read records
unsent_answers      answers that lie in memory because their peers do not read fast enough
answers             the ways to answer a request
login               logins of clients, as connections and listeners see them
not_served          what keeps requests from being served: strange bytes, a client that has gone, failed work
owed_answers        the answers that a connection owes, in the order of their requests
connection_reserve  room for peers and for administrators where the limits of connections are reached
file_sender         sends records from files to a socket, past its transport
file_answers        the way of a connection's answers whose records lie in files
read_turn           how long the loop reads on for a connection that sends much
throttle            how long a peer waits that went beyond a quota
connection_host     what a connection needs of the listener through which it came
handshake_lane      where handshakes of TLS are computed: in two threads beside the loop
tls_transport       TLS between the socket and a connection
peer_network        connections of this node to the others of its cluster
connection          bytes in, requests in order, bytes out: the moves of `connection_states`, made
arrivals            connections that wait to be let in, since they come too fast
acceptor            accepts connections on a listening socket, several in each turn of the loop
link_door           one port for links among voters and for Kafka's protocol: the first bytes tell
connection_quota    how many connections a node lets in over all its listeners
listener            a listening socket and the connections that came in through it, with their limits
"""
