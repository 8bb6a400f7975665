"""Equivalence classes are kept as long as pods of them come."""

from eventsched.domain.objects import Pod
from eventsched.runtime.assembly import assemble
from eventsched.scheduling.cycle.class_cache import ClassCache
from eventsched.scheduling.framework import Cycle
from tests.builders import make_pod

PROFILE = assemble().profiles["default-scheduler"]


def pod(shape: int) -> Pod:
    return make_pod(f"p{shape}", cpu=100 + shape)


def is_kept(cache: ClassCache, shape: int) -> bool:
    """Whether the class exists; it does afterwards."""
    before = cache.count
    cache.get(PROFILE, pod(shape), Cycle(now=0, seed=""))
    return cache.count == before


def test_classes_of_the_past_are_dropped() -> None:
    cache = ClassCache(idle_lookups=10)
    for shape in range(1_000):
        cache.get(PROFILE, pod(shape), Cycle(now=0, seed=""))
        assert cache.count <= 11
    assert is_kept(cache, 995)
    assert cache.count == 11


def test_a_class_in_use_stays() -> None:
    cache = ClassCache(idle_lookups=10)
    first = cache.get(PROFILE, pod(0), Cycle(now=0, seed=""))
    for shape in range(1, 100):
        cache.get(PROFILE, pod(shape), Cycle(now=0, seed=""))
        if shape % 9 == 0:
            assert cache.get(PROFILE, pod(0), Cycle(now=0, seed="")) is first
