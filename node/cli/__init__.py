"""node.cli"""
