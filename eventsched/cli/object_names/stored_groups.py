"""Names of pod groups from the database, for completion.

Pods name their group by a label or an annotation, which no table has. So the state of the scheduler
is made, which starts slowly: only once a word begins as a group's does.
"""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from eventsched.cli.object_names.typed_workloads import TypedWorkload
from eventsched.domain.errors import InputError
from eventsched.eventlog import database as databases
from eventsched.eventlog.postgres import reader as reading
from eventsched.eventlog.postgres.reader import Reader
from eventsched.questions.past.open_log import OpenLog
from eventsched.scheduling.framework.pod_groups import membership


def stored_groups(
    typed: Iterable[TypedWorkload],
    database: str | None,
    data_dir: Path | None,
    stream: str,
    namespace: str,
) -> set[str]:
    """The groups of pods that there are, each behind the prefix of its ``typed`` workload. An empty
    stream or namespace means any. Raises InputError and UnavailableError."""
    with databases.reader_address(database, data_dir) as address:
        names = [stream] if stream else reading.streams(address)
        groups = {group for name in names for group in _of_stream(address, name)}
    return {
        f"{each.prefix}{name}"
        for each in typed
        for within, name in groups
        if each.namespace in ("", within) and namespace in ("", within)
    }


def _of_stream(address: str, stream: str) -> set[tuple[str, str]]:
    """The namespaces and names of the groups of a stream."""
    with closing(Reader(address, stream, keeps_connection=True)) as reader:
        try:
            pods = OpenLog(reader, reader).state(None).state.pods.values()
        except InputError:  # it holds no record yet
            return set()
    found = set()
    for each in pods:
        own = membership(each.pod)
        if own is not None and not each.pod.deleting:
            found.add((each.pod.namespace, own.group.removeprefix(f"{each.pod.namespace}/")))
    return found
