"""The kinds of workloads and the words for them, in kubectl's notation.

Shells complete these words, so nothing is imported here that starts slowly.
"""

DEPLOYMENT, REPLICA_SET = "Deployment", "ReplicaSet"
POD, POD_GROUP = "Pod", "PodGroup"
HASH_PATTERN = "[bcdfghjklmnpqrstvwxz2456789]{1,10}"
"""A ReplicaSet's pod-template-hash, as a regular expression of Python and of Postgres:
SafeEncodeString in apimachinery/pkg/util/rand/rand.go."""
SHORT_KINDS = {
    DEPLOYMENT: "deploy",
    "Job": "job",
    REPLICA_SET: "rs",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
}
"""The kinds of workloads, with their short names."""
WORKLOADS = tuple(SHORT_KINDS)
"""The kinds of workloads."""
GROUP = "group"
"""The short name of a pod group."""
_KIND_BY_WORD = {
    **{short: kind for kind, short in SHORT_KINDS.items()},
    **{kind.lower(): kind for kind in (*SHORT_KINDS, POD)},
    **{f"{kind.lower()}s": kind for kind in (*SHORT_KINDS, POD)},
    "po": POD,
    **dict.fromkeys((GROUP, "podgroup", "pg", "gang"), POD_GROUP),
}
_CRON_JOB = ("cj", "cronjob", "cronjobs")
_API_GROUPS = (".apps", ".batch", ".scheduling.x-k8s.io")


def kind_of(word: str) -> str | None:
    """The kind that a word means, such as ``deploy`` or ``deployments.apps``; None for none."""
    return _KIND_BY_WORD.get(_without_group(word))


def is_cron_job(word: str) -> bool:
    """Whether a word means cron jobs, whose pods belong to jobs."""
    return _without_group(word) in _CRON_JOB


def _without_group(word: str) -> str:
    """The word without the API group that ``kubectl get -o name`` prints (``deployment.apps``)."""
    word = word.lower()
    for group in _API_GROUPS:
        word = word.removesuffix(group)
    return word
