"""``make endurance``: runs simulated days, and writes the samples, the chart and the verdict.

A run that was stopped is continued: the log and the samples are in ``--folder``. The database runs
without fsync. The exit code is 1 if a series is not within 10 % of its value after the first week.
"""

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path

from benchmarks.endurance import chart, verdict, year
from benchmarks.endurance.load import DAYS, Year
from benchmarks.endurance.samples import Sample
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.schema import migrations

_SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


def main() -> int:
    """Runs up to a day and prints the verdict."""
    defaults = {field.name: field.default for field in fields(Year)}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description=__doc__)
    parser.add_argument("--days", type=int, default=DAYS, help="up to the end of this day")
    parser.add_argument("--nodes", type=int, default=defaults["nodes"])
    parser.add_argument("--pods", type=int, default=defaults["pods"], help="in the whole year")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/eventsched-endurance"))
    options = parser.parse_args()
    year_of_options = Year(options.nodes, options.pods)
    options.folder.mkdir(exist_ok=True)
    os.chmod(options.folder, 0o755)
    path = options.folder / "samples.jsonl"
    with EmbeddedPostgres(options.folder / "data", settings=_SETTINGS).open(writer=True) as server:
        migrations.upgrade(server.superuser_url)
        taken = year.run(server.superuser_url, year_of_options, options.days, path, _report)
    title = f"{len(taken)} simulated days, {options.nodes:,} nodes"
    (options.folder / "endurance.svg").write_text(chart.svg(taken, title))
    print(f"{verdict.table(taken)}\n\n{_retention(year_of_options)}")
    print(f"{options.folder / 'endurance.svg'}, {path}")
    compared = verdict.comparisons(taken)
    return 0 if all(each.is_level for each in compared) else 1


def _report(sample: Sample) -> None:
    print(
        f"day {sample.day}: {sample.attempts} attempts, {sample.cpu_ms:.2f} ms each "
        f"({sample.cpu:.2f} of the reference work), "
        f"RSS {sample.rss_mb:.0f} MB, snapshot {sample.snapshot_kb:.0f} kB, "
        f"database {sample.database_mb:.0f} MB, restart {sample.restart_ms:.0f} ms "
        f"({sample.restart:.0f}; the day took {sample.seconds:.1f} s)",
        flush=True,
    )


def _retention(of: Year) -> str:
    return (
        f"Retention: vectors {of.retention.detail}, records {of.retention.records}, by partitions "
        f"of {of.partition_records:,} records."
    )


if __name__ == "__main__":
    sys.exit(main())
