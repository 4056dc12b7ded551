"""node.replica"""
