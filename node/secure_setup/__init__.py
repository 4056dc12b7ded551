"""ottla.node.secure_setup: the files that `ottla.secure` needs, made once and renewed at starts. Bottom-up:

certificate_maker   program: makes an authority and certificates, by a request on standard input
issued_certificates  runs that program
client_settings     the settings by which clients of several libraries connect to a secured cluster
secure_directory    makes and completes the directory of keys and certificates, and overwrites nothing
node_keys           completes the directory of a starting node, and renews its certificate
"""
