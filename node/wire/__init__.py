"""node.wire"""
