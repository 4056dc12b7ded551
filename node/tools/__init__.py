"""node.tools"""
