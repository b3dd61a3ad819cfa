"""Imported inside ``import verl`` by the run that must end because its agent loop raises."""

import engine_toy

engine_toy.break_loops()
