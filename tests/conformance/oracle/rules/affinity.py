"""InterPodAffinity: whom a pod wants beside it, whom it does not, and who does not want it."""

import random

from tests.conformance.oracle.clusters import HOSTNAME, ZONE, Obj
from tests.conformance.oracle.pods import PREFERRED, REQUIRED
from tests.conformance.oracle.profiles import document
from tests.conformance.oracle.rules.vocabulary import (
    Kind,
    matching,
    node,
    placed,
    pod,
    terminating,
    where,
    zoned,
)

A, B, C = matching(app="a"), matching(app="b"), matching(app="c")
RED, BLUE = matching(team="red"), matching(team="blue")


def term(selector: Obj | None, key: str = ZONE, **more: Obj | list[str]) -> Obj:
    """A pod affinity term; without a selector it matches nothing."""
    made: Obj = {"topologyKey": key, **more}
    return made if selector is None else {**made, "labelSelector": selector}


def near(*terms: Obj) -> Obj:
    """Required affinity."""
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Obj) -> Obj:
    """Required anti-affinity."""
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def weighted(*terms: tuple[int, Obj]) -> list[Obj]:
    """Preferred terms with their weights."""
    return [{"weight": weight, "podAffinityTerm": each} for weight, each in terms]


def likes(*terms: tuple[int, Obj]) -> Obj:
    """Preferred affinity."""
    return {"podAffinity": {PREFERRED: weighted(*terms)}}


def dislikes(*terms: tuple[int, Obj]) -> Obj:
    """Preferred anti-affinity."""
    return {"podAntiAffinity": {PREFERRED: weighted(*terms)}}


def _wants(affinity: Obj, app: str = "z", namespace: str = "default", **labels: str) -> Obj:
    return pod({"app": app, **labels}, namespace, affinity=affinity)


def _cluster(r: random.Random) -> list[Obj]:
    nodes = [*zoned(r, r.choice([3, 5, 9])), node("bare", {ZONE: None, "disk": None})]
    nodes.append(node("unlabelled", {HOSTNAME: None, ZONE: None, "disk": None}))
    names = [each["metadata"]["name"] for each in nodes]
    made = list(nodes)
    for index in range(r.randint(3, 12)):
        namespace = r.choice(["default", "default", "other", "third", "unknown"])
        labels = {"app": r.choice("abc")} if r.random() < 0.9 else {}
        if r.random() < 0.4:
            labels["tier"] = r.choice("xy")
        each = placed(f"e{index}", r.choice(names), pod(labels, namespace))
        made.append(terminating(each) if r.random() < 0.15 else each)
    for index, affinity in enumerate(r.sample(_RESIDENTS, 3)):
        resident = pod({"app": r.choice("ab")}, r.choice(["default", "other"]), affinity=affinity)
        made.append(placed(f"resident{index}", r.choice(names), resident))
    return made


# What pods that are there already want: it holds for those that come.
_RESIDENTS = [
    apart(term(matching(app="shy"))),
    apart(term(matching(app="shy"), HOSTNAME, namespaceSelector={})),
    apart(term(matching(app="shy"), HOSTNAME, namespaceSelector=RED)),
    apart(term(matching(app="shy"), "disk", namespaces=["default", "other"])),
    apart(term(None), term({}, "nowhere")),
    apart(term({}, HOSTNAME)),
    {
        **near(term(matching(app="shy"))),
        **dislikes((30, term(matching(app="shy"), HOSTNAME))),
    },
    likes((20, term(matching(app="shy"))), (7, term({}, "disk", namespaceSelector=RED))),
    dislikes((90, term(where("app", "Exists"), HOSTNAME, namespaceSelector=BLUE))),
]

_FILTERS = {
    "first-of-its-own": lambda r: _wants(near(term(matching(app="solo"))), "solo"),
    "first-of-its-own-twice": lambda r: _wants(
        near(term(matching(app="solo")), term(matching(app="solo"), HOSTNAME)), "solo"
    ),
    "first-but-not-its-own": lambda r: _wants(near(term(matching(app="solo"))), "other"),
    "own-in-another-namespace": lambda r: _wants(
        near(term(matching(app="solo"), namespaces=["other"])), "solo"
    ),
    "own-in-every-namespace": lambda r: _wants(
        near(term(matching(app="solo"), namespaceSelector={})), "solo", "third"
    ),
    "one-of-two-is-missing": lambda r: _wants(near(term(A), term(matching(app="no"))), "no"),
    "one-pod-for-all-terms": lambda r: _wants(
        near(term(A), term(where("tier", "In", "x"), HOSTNAME))
    ),
    "terms-of-two-pods": lambda r: _wants(near(term(A, HOSTNAME), term(B, HOSTNAME))),
    "near-key-nobody-has": lambda r: _wants(near(term(A, "nowhere")), "a"),
    "near-in-zone": lambda r: _wants(near(term(r.choice([A, B, C])))),
    "near-no-selector": lambda r: _wants(near(term(None))),
    "near-empty-selector": lambda r: _wants(near(term({}))),
    "near-namespaces": lambda r: _wants(near(term(A, namespaces=["other", "third"]))),
    "near-namespace-selector": lambda r: _wants(near(term(A, namespaceSelector=BLUE))),
    "near-both-namespaces": lambda r: _wants(
        near(term(A, "disk", namespaces=["unknown"], namespaceSelector=BLUE))
    ),
    "near-selector-of-none": lambda r: _wants(
        near(term(A, namespaceSelector=matching(team="green")))
    ),
    "near-selector-of-none-and-one": lambda r: _wants(
        near(term(A, namespaces=["other"], namespaceSelector=matching(team="green")))
    ),
    "near-not-in": lambda r: _wants(near(term(where("app", "NotIn", "a", "b")))),
    "near-does-not-exist": lambda r: _wants(near(term(where("app", "DoesNotExist")))),
    "near-match-label-keys": lambda r: _wants(
        near(term(A, matchLabelKeys=["tier"])), "a", tier="x"
    ),
    "near-mismatch-label-keys": lambda r: _wants(
        near(term(where("app", "Exists"), mismatchLabelKeys=["tier"])), "a", tier="x"
    ),
    "apart-in-zone": lambda r: _wants(apart(term(r.choice([A, B, C])))),
    "apart-on-host": lambda r: _wants(apart(term(where("tier", "Exists"), HOSTNAME))),
    "apart-key-nobody-has": lambda r: _wants(apart(term(A, "nowhere"))),
    "apart-no-selector": lambda r: _wants(apart(term(None, HOSTNAME))),
    "apart-empty-selector": lambda r: _wants(apart(term({}, HOSTNAME, namespaceSelector={}))),
    "apart-two-terms": lambda r: _wants(apart(term(A, HOSTNAME), term(B, "disk"))),
    "apart-mismatch-label-keys": lambda r: _wants(
        apart(term(A, mismatchLabelKeys=["tier"])), tier="y"
    ),
    "near-and-apart": lambda r: _wants({**near(term(A)), **apart(term(A, HOSTNAME))}),
    "unwanted": lambda r: pod({"app": "shy"}),
    "unwanted-in-another-namespace": lambda r: pod({"app": "shy"}, "other"),
    "unwanted-in-no-namespace": lambda r: pod({"app": "shy"}, "unknown"),
    "unwanted-and-apart": lambda r: _wants(apart(term(A, HOSTNAME)), "shy"),
    "without-labels": lambda r: pod({}),
    "without-labels-first": lambda r: pod({}, affinity=near(term({}, namespaces=["unknown"]))),
}

_SCORES = {
    "likes": lambda r: _wants(likes((r.randint(1, 100), term(A)))),
    "likes-and-dislikes": lambda r: _wants(
        {**likes((50, term(A))), **dislikes((20, term(B, HOSTNAME)))}
    ),
    "dislikes-only": lambda r: _wants(dislikes((100, term(A)), (1, term(B, "disk")))),
    "likes-nobody": lambda r: _wants(likes((10, term(matching(app="nobody"))))),
    "likes-no-selector": lambda r: _wants(likes((10, term(None)), (10, term({}, HOSTNAME)))),
    "likes-other-namespaces": lambda r: _wants(
        likes((10, term(A, namespaces=["other"])), (3, term(B, namespaceSelector=RED)))
    ),
    "likes-all-namespaces": lambda r: _wants(likes((5, term(A, HOSTNAME, namespaceSelector={})))),
    "likes-none-and-one": lambda r: _wants(
        likes((5, term(A, namespaces=["other"], namespaceSelector=matching(team="green"))))
    ),
    "likes-key-nobody-has": lambda r: _wants(likes((5, term(A, "nowhere")))),
    "needs-and-likes": lambda r: _wants(
        {"podAffinity": {REQUIRED: [term(A)], PREFERRED: weighted((9, term(B, "disk")))}}
    ),
    "liked": lambda r: pod({"app": "shy"}),
    "liked-in-another-namespace": lambda r: pod({"app": "shy"}, "other"),
    "liked-in-no-namespace": lambda r: pod({"app": "shy"}, "unknown"),
    "liked-and-likes": lambda r: _wants(likes((40, term(A, HOSTNAME))), "shy"),
    "nobody-knows-it": lambda r: pod({}, "third"),
}


def _malformed(r: random.Random) -> Obj:
    return r.choice(
        [
            where("app", "In"),
            where("app", "Near", "a"),
            where("app", "Exists", "a"),
            matching(app="not a label"),
            where("bad key/with/slashes", "Exists"),
        ]
    )


_MALFORMED = {
    "near-malformed": lambda r: _wants(near(term(_malformed(r)))),
    "apart-malformed": lambda r: _wants(apart(term(A), term(_malformed(r)))),
    "likes-malformed": lambda r: _wants(likes((5, term(_malformed(r))))),
    "near-malformed-namespaces": lambda r: _wants(near(term(A, namespaceSelector=_malformed(r)))),
    "dislikes-malformed-namespaces": lambda r: _wants(
        dislikes((5, term(A, namespaceSelector=_malformed(r))))
    ),
    "well-formed": lambda r: _wants(near(term(A))),
}


def _arguments(weight: int, ignore: str = "false") -> str:
    return document(
        arguments="  - name: InterPodAffinity\n    args: {hardPodAffinityWeight: "
        f"{weight}, ignorePreferredTermsOfExistingPods: {ignore}}}\n"
    )


KINDS = [
    Kind("affinity-filters", _cluster, _FILTERS),
    Kind(
        "affinity-scores",
        _cluster,
        _SCORES,
        ("", _arguments(0), _arguments(100), _arguments(40, "true")),
    ),
    Kind("affinity-malformed", _cluster, _MALFORMED),
]
