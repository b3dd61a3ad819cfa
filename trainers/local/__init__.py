"""The local trainer: one machine, plain torch."""
