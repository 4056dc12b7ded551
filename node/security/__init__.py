"""ottla.node.security: who may do what, and who is who. Bottom-up:

cluster_key         the key that stands for `cluster.secret` wherever something is made of it
access_token        what an access token has to say, and what it says
jwks                the keys of an OAuth provider, read from its document
jwt                 access tokens, verified by these keys and by rules
jwks_schedule       when these keys are fetched
tried_again         when what was refused is tried again, though nothing has changed
trust_file          the authorities of an OAuth provider, read anew when their file changes
jwks_fetcher        fetches them over https, and keeps the last that were good
token_verifier      verifies the access tokens of a listener by the keys of its provider
token_verifiers     the verifiers of all listeners, made when a listener first takes tokens
sasl                the server's side of SASL mechanisms, without sockets
administrators      decides which clients may change the cluster itself while nobody can log in
distinguished_name  the subject of a certificate as text, as Java writes it
principal_rules     `ssl.principal.mapping.rules`: from a name of a certificate to the name of a principal
server_context      from the settings of a listener to what its connections need of TLS
certificate_problems  why others refuse the certificate of a listener
security_reload     keys and certificates of listeners, renewed while the node runs
"""
