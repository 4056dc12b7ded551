"""ottla.node.security.sasl: the server's side of SASL mechanisms, without sockets. Bottom-up:

sasl_error     the error of a failed authentication: a reason for the log, and a message for the client
exchange       the protocol of an authentication by any mechanism
failed_logins  limits the passwords that can be tried from one address
false_credentials  makes credentials for users that do not exist, so that logins do not reveal which do
plain          PLAIN (RFC 4616): a user and a password in one message
scram          SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677)
oauthbearer    OAUTHBEARER (RFC 7628): an access token in one message
"""
