"""ottla.node.security: who may do what. Bottom-up:

administrators  decides which clients may change the cluster itself while nobody can log in
"""
