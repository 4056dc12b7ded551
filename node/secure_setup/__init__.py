"""ottla.node.secure_setup: what `ottla.secure` needs on a disk, made once and renewed at starts. Bottom-up:

certificate_maker   program: an authority and certificates, as JSON from standard input to standard output
issued_certificates  asks that program
client_settings     how clients of several libraries reach a secured cluster
secure_directory    the directory of keys and certificates: made, completed, never overwritten
node_keys           the directory of a node that starts: complete, and with a certificate that is good
"""
