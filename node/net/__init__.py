"""node.net: sockets. Bottom-up:

`connection_info` (who is at the other end), `connection_quota` (how many are let in),
`receive_memory` (the budget of all receive buffers), `file_sender` (records from files to the socket),
`connection` (bytes in, requests in order, bytes out), `listener` (accepts, counts, sweeps),
`peer_client` (the client side), `peer_handshake` (how nodes prove themselves), `peer_network` (connections to
the other nodes).
"""
