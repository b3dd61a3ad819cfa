"""Trainers: ``local`` (one machine, plain torch) and ``verl`` (Ray, many GPUs). Importing this loads no torch."""
