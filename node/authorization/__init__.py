"""ottla.node.authorization: what a client may do with topics, groups, transactions, the cluster. Bottom-up:

access      the decisions for the client of a connection, remembered until an ACL changes
authorizer  judges by super users and the ACLs of the metadata
"""
