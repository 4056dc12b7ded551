"""ottla.node.secure_client: the client's side of TLS and logins. Bottom-up:

security_names    the security settings of Java's clients: those used, ignored and rejected
client_security   reads `security.protocol`, `ssl.*` and `sasl.*` of a client into one frozen record
client_context    makes a TLS context from these settings
scram_client      the client's side of SCRAM-SHA-256 and SCRAM-SHA-512
token_endpoint    fetches access tokens from an OAuth provider with the client's id and secret
sasl_login        makes the messages of a mechanism from these settings
http_login        the header of a login over HTTP
authentication    a generator of a login's requests, for asynchronous and blocking clients
dial_refusals     errors for failed TLS handshakes and missing logins, with reason and remedy
"""
