"""node.wire.messages"""
