"""node.runtime"""
