"""ottla.node.security: who may do what, and who is who. Bottom-up:

administrators      decides which clients may change the cluster itself while nobody can log in
distinguished_name  the subject of a certificate as text, as Java writes it
principal_rules     `ssl.principal.mapping.rules`: from that text to the name of a principal
"""
