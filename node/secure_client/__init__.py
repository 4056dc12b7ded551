"""ottla.node.secure_client: how a client proves who it is, and checks whom it speaks to. Bottom-up:

security_names    what becomes of each security setting of Java's clients: read, without effect, or refused
client_security   `security.protocol`, `ssl.*` and `sasl.*` of a client, read into one frozen record
client_context    from those settings to a context of `ssl`
scram_client      the client's side of SCRAM-SHA-256 and SCRAM-SHA-512
token_endpoint    fetches access tokens of an OAuth provider by the client's own id and secret
sasl_login        from those settings to the messages of a mechanism
authentication    the requests of a login, one after the other, for clients that wait and for those that block
dial_refusals     why a handshake or a login failed, and what to do
"""
