"""The user of a shadow, with the role that is shipped, and what the API server's audit log has of
it."""

import json
from pathlib import Path

import yaml

from tests.cluster.harness.client import Object
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import ROOT

USER = "shadow"
_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, users: [shadow]}, {level: None}]
"""
_ROLE = ROOT / "deploy/components/shadow-role/cluster-role.yaml"


def audit_flags(folder: Path, mode: str = "blocking") -> list[str]:
    """The API server's flags for an audit log of the shadow's requests in a folder."""
    policy = folder / "policy.yaml"
    policy.write_text(_POLICY)
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder / 'audit.log'}",
        f"--audit-log-mode={mode}",
    ]


def give_role(plane: ControlPlane) -> None:
    """Gives the user, whom the control plane has to know, the shipped role."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER}
    who = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": USER}}
    shipped = yaml.safe_load_all(_ROLE.read_text(encoding="utf-8"))
    [rules] = [each["rules"] for each in shipped if each["kind"] == "ClusterRole"]
    plane.admin.create({**about, "kind": "ClusterRole", "rules": rules})
    plane.admin.create({**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [who]})


def kubeconfig(plane: ControlPlane) -> Path:
    """The user's kubeconfig."""
    return plane.write_kubeconfig(USER, {"token": plane.token(USER)})


def audited(folder: Path) -> list[Object]:
    """The shadow's requests, by the audit log in a folder."""
    lines = (folder / "audit.log").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]
