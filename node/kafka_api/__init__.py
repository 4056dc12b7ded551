"""node.kafka_api"""
