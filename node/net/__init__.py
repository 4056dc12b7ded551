"""node.net"""
