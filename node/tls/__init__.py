"""ottla.node.tls: keys, certificates and cipher suites, as both ends of a connection use them. Bottom-up:

cipher_suites   names of cipher suites: IANA's and OpenSSL's
store_settings  the place of a key or of certificates, and what settings of it cannot stand together
pem_store       keys and certificates as PEM in memory, and how they come into a context of `ssl`
pkcs12_reader   program: a PKCS12 store from standard input, as PEM to standard output
key_store       keystores and truststores, read from files or settings into PEM
"""
