"""A cache that forgets what was not used for longest."""

from collections import OrderedDict


class Cache:
    """At most ``size`` entries; ``hits`` and ``misses`` count the calls of :meth:`get`."""

    def __init__(self, size):
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.size = size
        self.hits = 0
        self.misses = 0
        self._entries = OrderedDict()

    def __len__(self):
        return len(self._entries)

    def __contains__(self, key):
        return key in self._entries

    def get(self, key, default=None):
        """The value of ``key``, which is now the one used last."""
        if key not in self._entries:
            self.misses += 1
            return default
        self.hits += 1
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key, value):
        """Keep a value; gives the key that had to go for it, or None."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self.size:
            return self._entries.popitem(last=False)[0]
        return None

    def resize(self, size):
        """Another size; what no longer fits is forgotten, the oldest first."""
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.size = size
        while len(self._entries) > size:
            self._entries.popitem(last=False)

    def keys(self):
        """Keys from the least to the most recently used."""
        return list(self._entries)

    @property
    def rate(self):
        """Share of calls that hit; 0 before the first."""
        calls = self.hits + self.misses
        return self.hits / calls if calls else 0.0
