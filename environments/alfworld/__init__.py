"""ALFWorld's text games in plain Python, exact against the real TextWorld. The class is in :mod:`.env`."""
