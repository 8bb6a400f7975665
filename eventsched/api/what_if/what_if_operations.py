"""The operations about other rules: the configuration in force, one that is typed, and what would
have been with it."""

from typing import Any

from eventsched.api import parameters as p
from eventsched.api.desk.asked import Asked, Operation
from eventsched.api.what_if.worker_messages import WhatIfJob
from eventsched.domain.errors import InputError
from eventsched.questions.what_ifs.configurations import (
    ConfigurationCheck,
    ConfigurationInForce,
    configuration_check,
    configuration_in_force,
    sound_configuration,
)
from eventsched.questions.what_ifs.what_if_answer import (
    MOST_RECORDS,
    RANGE,
    SORTS,
    STORED_PREFIX,
    WhatIfQuestion,
)

_CONFIGURATION = "A KubeSchedulerConfiguration, as YAML without aliases, or JSON"


def _in_force(asked: Asked) -> Any:
    desk = asked.desk
    return configuration_in_force(
        asked.stream(), asked.sees, list(desk.plugins), answers_what_ifs=desk.what_ifs,
        stores_results=desk.what_ifs and bool(desk.store_in),
    )  # fmt: skip


def _check(asked: Asked) -> Any:
    return configuration_check(asked.body, list(asked.desk.plugins))


def what_if_job(asked: Asked) -> WhatIfJob:
    """The job that answers a request. Raises InputError, also for a client that may not see all
    namespaces, and for a configuration with problems."""
    asked.sees.require_whole("what-if")
    if not asked.desk.what_ifs:
        problem = "is not answered beside a scheduler, whose memory it would need"
        raise InputError("what-if", problem, "ask a server of its own: eventsched serve")
    values, desk, store = asked.values, asked.desk, asked.values["store"]
    if store is not None and not desk.store_in:
        remedy = "start eventsched serve with --store-in DATABASE"
        raise InputError("store", "names a stream, and this server stores no results", remedy)
    if store is not None and not store.startswith(STORED_PREFIX):
        raise InputError("store", f"is {store}", f"begin the name with {STORED_PREFIX}")
    stream = asked.stream()
    question = WhatIfQuestion(
        stream=stream.name, first=values["from"], until=values["until"], nodes=values["nodes"],
        configuration=sound_configuration(asked.body, list(desk.plugins)), store=store,
        limit=values["limit"], sort=values["sort"],
    )  # fmt: skip
    return WhatIfJob(
        question=question, address=stream.log.address, plugins=[str(path) for path in desk.plugins],
        store_in=desk.store_in, seconds=0,
    )  # fmt: skip


IN_FORCE = Operation(
    "/configuration", "The configuration in force at the end of the log", (p.STREAM,),
    ConfigurationInForce, _in_force, slow=True,
)  # fmt: skip
CHECK = Operation(
    "/configuration/check", "What is wrong in a configuration, or the plugins that it runs", (),
    ConfigurationCheck, _check, slow=True, method="POST", body=_CONFIGURATION,
)  # fmt: skip
WHAT_IF = Operation(
    "/what-if", "What would have happened under another configuration",
    (p.STREAM,
     p.Parameter("from", "from this position or time on, as `at` of /state takes it; by default "
                 f"the newest {RANGE:,} records"),
     p.Parameter("until", f"before this position or time, {MOST_RECORDS:,} records later at most"),
     p.Parameter("nodes", "nodes that are added or left out: +20xNODE|-NODE"),
     p.Parameter("store", f"keep the result as this new stream, which begins with {STORED_PREFIX}"),
     p.Parameter("limit", "pods that differ in the answer", "integer", least=1, most=p.MOST_ITEMS,
                 default=p.LIMIT),
     p.Parameter("sort", "their order: of arrival, by name, the most important first, those first "
                 "whose wait changes most, or by node in the what-if", values=SORTS,
                 default=SORTS[0])),
    "WhatIf", what_if_job, method="POST",
    body=f"{_CONFIGURATION}; empty: the one in force in the log",
)  # fmt: skip
WHAT_IF_OPERATIONS = (IN_FORCE, CHECK, WHAT_IF)
