"""Interfaces for people and hosts: the command line, hooks, the server of the Model Context Protocol, the report."""
