"""Rules that a test makes of the NetworkPolicy allow what the replicas need. The network of the
nodes enforces no policy by itself."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.harness.client import Object
from tests.deploy.rendering import rendered, the
from tests.kubelet.harness.arrivals import Arrivals
from tests.kubelet.harness.installation import Installation, overlay
from tests.kubelet.harness.nodes import Node
from tests.kubelet.harness.postgres_pod import PostgresPod
from tests.kubelet.harness.real_cluster import RealCluster

SERVING, OTHER = 10259, 8888
CHAIN = "EVENTSCHED-TEST"


@pytest.fixture(scope="module")
def replicas(cluster: RealCluster, postgres: PostgresPod) -> Iterator[Installation]:
    """The overlay ``replicas``, ready."""
    with overlay(cluster, "replicas", postgres.make_database("filtered")):
        installed = Installation(cluster)
        installed.wait_ready(2)
        yield installed


def test_the_network_policy_is_enough(replicas: Installation, namespace: str) -> None:
    """Rules that the test makes from the policy, as a network plugin would, are in force on both
    nodes: the replicas still place pods, and other ports do not answer."""
    policy = the(rendered("replicas"), "NetworkPolicy")["spec"]
    nodes = replicas.cluster.nodes
    with _enforced(replicas, policy):
        arrivals = Arrivals(replicas.cluster, namespace)
        leader = replicas.wait_leader()
        with arrivals:
            arrivals.wait_placed(2)
            replicas.delete(leader)
            replicas.wait_ready(2)
            arrivals.wait_placed(len(arrivals.created) + 2)
        arrivals.wait_running()
        arrivals.close()
        for pod in replicas.pods():
            assert _answers(pod["status"]["podIP"], SERVING)
            assert not _answers(pod["status"]["podIP"], OTHER)
    assert [node.run("iptables", "-S", "FORWARD").count(CHAIN) for node in nodes] == [0, 0]


def _answers(address: str, port: int) -> bool:
    """Whether anything comes back: a refused connection is an answer, too."""
    with socket.socket() as tried:
        tried.settimeout(2)
        try:
            tried.connect((address, port))
        except ConnectionRefusedError:
            return True
        except TimeoutError:
            return False
        return True


@contextmanager
def _enforced(replicas: Installation, policy: Object) -> Iterator[None]:
    """The policy as packet filter rules on both nodes, for all pods of eventsched: those that come
    later have addresses that are not known yet, so the workloads' are left out instead."""
    nodes = replicas.cluster.nodes
    try:
        for node in nodes:
            _filter(node, policy)
        yield
    finally:
        for node in nodes:
            node.run("iptables", "-D", "FORWARD", "-j", CHAIN)
            node.run("iptables", "-F", CHAIN)
            node.run("iptables", "-X", CHAIN)


def _filter(node: Node, policy: Object) -> None:
    """Drops what the policy does not allow, from and to the pods of a node. Postgres on the node
    is not of the policy: what goes to its port is let through, and its answers."""
    rules = ["-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"]
    for direction, way in (("ingress", "-d"), ("egress", "-s")):
        for rule in policy[direction]:
            for port in rule["ports"]:
                protocol = port["protocol"].lower()
                rules.append(
                    f"{way} {node.place.pods} -p {protocol} --dport {port['port']} -j RETURN"
                )
    rules += [f"-d {node.place.pods} -p tcp --dport 5432 -j RETURN", "-j DROP"]
    node.run("iptables", "-N", CHAIN)
    for rule_text in rules:
        node.run("iptables", "-A", CHAIN, *rule_text.split())
    node.run("iptables", "-I", "FORWARD", "-j", CHAIN)
