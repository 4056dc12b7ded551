"""ottla.node.tls: keys, certificates and cipher suites, for servers and clients. Bottom-up:

cipher_suites   maps IANA's names of cipher suites to OpenSSL's
store_settings  the settings of a keystore or a truststore, and their conflicts
pem_store       keys and certificates as PEM in memory, loaded into a context of `ssl`
pkcs12_reader   program: converts a PKCS12 store on standard input to PEM on standard output
key_store       keystores and truststores, read from files or settings into PEM
"""
