"""What plugin authors ask a pod."""

from eventsched.domain.objects import Container, Pod, PodSpec


def test_what_a_pod_asks_for_of_one_resource() -> None:
    """As kube-scheduler counts it: the larger of containers and init containers, and overhead."""
    small = Container(requests={"cpu": 100, "memory": 2**20})
    first = Container(requests={"cpu": 700})
    spec = PodSpec(
        containers=(small, small), init_containers=(first,), overhead={"cpu": 50, "memory": 1}
    )
    pod = Pod(uid="p", name="p", spec=spec)
    assert pod.requests("cpu") == 750
    assert pod.requests("memory") == 2 * 2**20 + 1
    assert pod.requests("example.com/gpu") == 0
