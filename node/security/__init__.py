"""ottla.node.security: authentication of clients, and the TLS of listeners. Bottom-up:

cluster_key         derives a key from `cluster.secret` that replaces it in hashes and proofs
access_token        the verified contents of an access token, and the error for a rejected one
jwks                reads the keys of an OAuth provider from its JWKS document
jwt                 verifies access tokens against these keys and the configured rules
jwks_schedule       schedules the fetches of these keys
retry_schedule      schedules the retries of a file or a setting that was rejected
trust_file          the authorities that an OAuth provider is trusted by, reloaded with their file
jwks_fetcher        fetches the keys over https, and keeps the last ones that were valid
token_verifier      verifies the access tokens of a listener with the keys of its provider
token_verifiers     the verifiers of all listeners, each made when its listener first accepts tokens
sasl                the server's side of SASL mechanisms, without sockets
administrators      decides which clients may change the cluster itself if there is no authorizer
distinguished_name  reads certificates: the subject as Java writes it, host names, validity, weaknesses
principal_rules     maps distinguished names to principals (`ssl.principal.mapping.rules`)
server_context      builds the TLS contexts of a listener from its settings
certificate_problems  finds reasons why clients or nodes reject the certificate of a listener
security_reload     reloads the keys and certificates of listeners while the node runs
"""
