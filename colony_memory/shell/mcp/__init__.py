"""One folder's memory as a server of the Model Context Protocol, for the hosts of agents: a face like the command line.

What a person decides is fixed when it starts. No tool takes a path, and text out of a vault is marked as data.
"""
