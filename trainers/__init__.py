"""Trainers: ``local`` (one machine, plain torch). Importing this loads no torch."""
