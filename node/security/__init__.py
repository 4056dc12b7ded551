"""ottla.node.security: who may do what, and who is who. Bottom-up:

sasl                the server's side of SASL mechanisms, without sockets
administrators      decides which clients may change the cluster itself while nobody can log in
distinguished_name  the subject of a certificate as text, as Java writes it
principal_rules     `ssl.principal.mapping.rules`: from a name of a certificate to the name of a principal
server_context      from the settings of a listener to what its connections need of TLS
security_reload     keys and certificates of listeners, renewed while the node runs
"""
