"""A log of searches that stopped early: verified, decided again, and asked by SQL."""

from pathlib import Path

import pytest

from eventsched.cli.main import main

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 40
"""


def test_nodes_not_evaluated_are_explained_and_verified(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = place / "config.yaml"
    config.write_text(CONFIG)
    where = ("--data-dir", str(place / "data"))
    load = "nodes=300,pods=60,shape=mixed,seed=1"
    assert main(["simulate", "--generate", load, "--config", str(config), *where]) == 0
    assert main(["verify", *where]) == 0
    assert main(["replay", "--verify", *where]) == 0
    capsys.readouterr()
    query = (
        "select count(*), bool_and(d.evaluated + v.unseen = 300) from decisions d cross join "
        "lateral (select count(*) as unseen from verdicts(d.stream, d.seq) "
        "where code = 'NotEvaluated') v"
    )
    assert main(["sql", "-c", query, "-o", "csv", *where]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "60,t"
    assert main(["explain", "default/pod-000007", *where]) == 0
    said = capsys.readouterr().out
    assert "the search ended before this node" in said
    assert "PreFilter" not in said
    main(["db", "stop", *where])
