import pytest
from pocket.cache import Cache


def test_put_and_get():
    cache = Cache(2)
    assert cache.put("a", 1) is None
    assert cache.get("a") == 1
    assert cache.get("b", 7) == 7
    assert len(cache) == 1


def test_forgets_the_oldest():
    cache = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.put("c", 3) == "a"
    assert cache.keys() == ["b", "c"]


def test_getting_is_using():
    cache = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert "a" in cache
    assert "b" not in cache


def test_putting_again_is_using():
    cache = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 3)
    assert cache.keys() == ["b", "a"]
    assert cache.get("a") == 3


def test_resize():
    cache = Cache(3)
    for key in "abc":
        cache.put(key, key)
    cache.resize(1)
    assert cache.keys() == ["c"]
    assert cache.size == 1


def test_size():
    with pytest.raises(ValueError, match="at least 1"):
        Cache(0)


def test_rate():
    cache = Cache(1)
    assert cache.rate == 0.0
    cache.put("a", 1)
    cache.get("a")
    cache.get("x")
    cache.get("a")
    cache.get("a")
    assert cache.rate == 0.75


def test_counts():
    cache = Cache(1)
    cache.put("a", None)
    cache.get("a")
    assert (cache.hits, cache.misses) == (1, 0)
