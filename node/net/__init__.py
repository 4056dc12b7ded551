"""node.net: sockets. Bottom-up:

`connection_info` (who is at the other end), `connection_reserve` (room for peers and administrators),
`connection_quota` (how many are let in),
`receive_memory` (the budget of all receive buffers), `unsent_answers` (what lies there for slow readers),
`receive_windows` (what clients may have under way),
`pacing` (what stays on the machine is not paced),
`answers` (the ways to answer a request),
`send_buffers` (how much the kernel holds of what goes out), `file_pipe` (the way from files to sockets),
`file_sender` (records from files to the socket),
`gathered_answers` (which small answers of a turn leave first, and which together),
`connection` (bytes in, requests in order, bytes out), `listener` (accepts, counts, sweeps),
`peer_client` (the client side), `peer_handshake` (how nodes prove themselves), `peer_network` (connections to
the other nodes).
"""
