"""Fixtures of the sandboxes' tests."""

from docker_help import docker_engine, lookalike_image

__all__ = ["docker_engine", "lookalike_image"]
