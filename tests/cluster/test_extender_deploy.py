"""The overlay ``extender``: its configuration and its rights, with kube-scheduler configured as
docs/extender-server.md says."""

import ssl
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml

from eventsched.domain.records import ExtenderInquired, ExtenderReplied
from tests.cluster.harness.asking import asking, grouped
from tests.cluster.harness.deployed import deployed
from tests.cluster.harness.manifests import node
from tests.cluster.harness.plane import ControlPlane, free_ports
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers
from tests.deploy.rendering import NAMESPACES, configuration

DOCS = Path(__file__).parents[2] / "docs" / "extender-server.md"


def documented() -> dict[str, Any]:
    """kube-scheduler's entry as the page has it."""
    _, _, after = DOCS.read_text().partition("for the overlay `extender`:\n\n```yaml\n")
    (found,) = yaml.safe_load(after.partition("```")[0])["extenders"]
    return dict(found)


def test_kube_scheduler_asks_over_https(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    pods = Pods(plane.admin, namespace)
    for name in ("a0", "b0"):
        plane.admin.create(node(name, labels={"nodeGroup": name[0]}))
    certificate, key = plane.authority.serving("extender")
    shown, private = plane.authority.client("kube-scheduler")
    (port,) = free_ports(1)
    authority = str(plane.authority.certificate)
    with deployed(plane, "extender") as objects:
        first, second = yaml.safe_load_all(configuration(objects))
        second["extender"] |= {
            "bindAddress": "127.0.0.1", "port": port, "certFile": str(certificate),
            "keyFile": str(key), "clientCAFile": authority,
        }  # fmt: skip
        second["serving"]["bindAddress"] = "127.0.0.1"
        del second["database"]
        token = plane.service_account_token(NAMESPACES["extender"], "eventsched")
        extender = schedulers.start(
            command="extender",
            config=first,
            settings=second,
            kubeconfig=plane.write_kubeconfig("extender", {"token": token}),
        )
        url = f"https://127.0.0.1:{port}"
        with pytest.raises((URLError, ssl.SSLError, ConnectionError)):
            urlopen(url, timeout=10, context=ssl.create_default_context(cafile=authority)).close()
        entry = documented()
        assert entry["tlsConfig"].pop("serverName") == "eventsched-extender.eventsched.svc"
        files = {"caFile": authority, "certFile": str(shown), "keyFile": str(private)}
        assert set(entry["tlsConfig"]) == set(files)
        with asking(plane, {**entry, "urlPrefix": url, "tlsConfig": files}):
            pods.create(grouped("web", "b"))
            assert pods.node("web", 60.0) == "b0"
            pods.create(grouped("nowhere", "c"))
            pods.wait_condition("nowhere")
        log = extender.log()
        assert "filter" in {each.verb for each in log.of(ExtenderInquired)}
        assert not [each.problem for each in log.of(ExtenderReplied) if each.problem]
        assert extender.stop() == 0
    plane.admin.call(
        "DELETE", plane.admin.path("Lease", "eventsched-extender", NAMESPACES["extender"])
    )
