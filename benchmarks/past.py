"""``python -m benchmarks.past``: how long the state at a position of a log takes.

Makes a log by a simulation of an hour with 100 decisions a second (or takes that of a folder), and
opens states: one in the middle, and some that are spread over the part after its oldest snapshot.
Wall and CPU time of this process. The ratio is that of a state from the first record on, at the
end of the log, to the slowest one from a snapshot.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.queries import RESULTS
from eventsched.cli.main import main as eventsched
from eventsched.eventlog import database
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.past_state.state_document import state_document
from eventsched.output.terminal.tables import table
from eventsched.runtime.queries.state_at import state_at

_LOAD = "nodes=1000,pods={},shape=mixed,rate=100,runtime=100,seed=2"
_STREAM = "simulation"
_SNAPSHOTS = """
SELECT count(*) AS number, sum(length(body)) AS bytes, min(seq) AS oldest
FROM eventsched_log.snapshot WHERE stream = :s
"""


def main() -> int:
    """Makes the log, opens states, and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.past", description=__doc__)
    parser.add_argument("--pods", type=int, default=360_000, help="of the simulation")
    parser.add_argument("--data-dir", type=Path, help="the log of an earlier simulation")
    parser.add_argument("--positions", type=int, default=8, help="states after the snapshot")
    options = parser.parse_args()
    with (
        _folder(options) as folder,
        database.reader_address(None, folder) as address,
        closing(Reader(address, _STREAM, keeps_connection=True)) as reader,
    ):
        found = measured(reader, options.positions)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "past.json").write_text(json.dumps(found, indent=1) + "\n")
    header = ("position", "pods", "applied", "wall s", "cpu s", "us a record")
    rows = [
        [each["position"], each["pods"], each["applied"], f"{each['wall']:.2f}",
         f"{each['cpu']:.2f}", f"{each['cpu'] / max(each['applied'], 1) * 1e6:.1f}"]
        for each in found["states"]
    ]  # fmt: skip
    print(table(header, rows))
    near = [each["cpu"] for each in found["states"][1:]]
    print(
        f"{found['snapshots']} snapshots, {found['snapshot_bytes']} bytes; CPU of states after the "
        f"oldest one: median {statistics.median(near):.2f} s, largest {max(near):.2f} s; from the "
        f"first record on: {found['whole']:.1f} s, ratio {found['whole'] / max(near):.0f}"
    )
    return 0


@contextmanager
def _folder(options: argparse.Namespace) -> Iterator[Path]:
    if options.data_dir is not None:
        yield options.data_dir
        return
    with tempfile.TemporaryDirectory(prefix="evs-past-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        load = _LOAD.format(options.pods)
        words = ["simulate", "--generate", load, "--detail", "summary"]
        assert eventsched([*words, "--data-dir", folder]) == 0
        yield Path(folder)


def measured(reader: Reader, positions: int) -> dict[str, Any]:
    """A state in the middle, those after the oldest snapshot, and what the whole log would take, by
    the time of a record."""
    end = reader.head.next
    [kept] = reader.rows(_SNAPSHOTS)
    oldest, states = kept["oldest"], []
    spread = [oldest + (end - oldest) * number // positions for number in range(positions)]
    for position in (end // 2, *spread):
        wall, cpu = time.perf_counter(), time.process_time()
        folded = state_at(reader, reader, position, end)
        state_document(folded.state, whole=False)
        states.append(
            {
                "position": position,
                "pods": len(folded.state.pods),
                "applied": position - folded.first,
                "wall": time.perf_counter() - wall,
                "cpu": time.process_time() - cpu,
            }
        )
    most = states[0]
    return {
        "records": end,
        "states": states,
        "whole": most["cpu"] / max(most["applied"], 1) * end,
        "snapshots": kept["number"],
        "snapshot_bytes": int(kept["bytes"] or 0),
    }


if __name__ == "__main__":
    raise SystemExit(main())
