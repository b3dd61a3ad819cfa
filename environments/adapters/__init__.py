"""Environments of other libraries, and of servers, behind this project's protocol. See ``docs/adapters.md``."""
