"""The minimal scheduler's manifests, and its page."""

from eventsched import __version__

from .rendering import DEPLOY, built, of_kind, pod_spec, the
from .rights import EVERYWHERE, rights

EXAMPLE = DEPLOY.parent / "examples" / "minimal"
SCHEDULER = (EXAMPLE / "scheduler.py").read_text()


def test_it_renders() -> None:
    """With the program as it is, and names that are nobody else's."""
    objects = built(EXAMPLE)
    assert the(objects, "ConfigMap")["data"] == {"scheduler.py": SCHEDULER}
    assert all(each["metadata"]["name"].startswith("random-") for each in objects)
    (container,) = pod_spec(objects)["containers"]
    assert container["image"] == f"eventsched:{__version__}"
    (volume,) = pod_spec(objects)["volumes"]
    assert volume["configMap"]["name"] == the(objects, "ConfigMap")["metadata"]["name"]
    (binding,) = of_kind(objects, "ClusterRoleBinding")
    assert binding["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": pod_spec(objects)["serviceAccountName"],
            "namespace": "kube-system",
        }
    ]
    assert the(objects, "ServiceAccount")["metadata"]["name"] == "random-eventsched"
    assert rights(the(objects, "ClusterRole")["rules"]) == EVERYWHERE


def test_the_page_shows_the_program() -> None:
    """Its loop, line by line."""
    page = (DEPLOY.parent / "docs" / "minimal.md").read_text()
    shown = page.split("```python\n")[1].split("```")[0]
    assert shown in SCHEDULER
