"""Trainers: one folder each."""
