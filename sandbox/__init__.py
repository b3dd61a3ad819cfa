"""Isolated command execution for software tasks. Holds nothing yet."""
