"""ottla.node.authorization: the rights of clients on topics, groups, transactions, the cluster. Bottom-up:

access      the rights of the client of a connection, cached until an ACL changes
authorizer  decides by super users and the ACLs of the metadata
"""
