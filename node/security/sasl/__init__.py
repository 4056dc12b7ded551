"""ottla.node.security.sasl: the server's side of SASL mechanisms, without sockets. Bottom-up:

sasl_error     why an authentication fails, and what of that the client is told
exchange       one authentication, by any mechanism
failed_logins  how many passwords may be tried from one address
false_credentials  what a login shows of users that do not exist
plain          PLAIN (RFC 4616): a user and a password in one message
scram          SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677)
oauthbearer    OAUTHBEARER (RFC 7628): an access token in one message
"""
