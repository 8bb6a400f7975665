"""The version after this one, made from a copy of this tree: a migration of each step, a behaviour
that post switches on, and a kind of record that is written under it.

Its processes run with ``PYTHONPATH`` set to the copy.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from eventsched.domain.behaviours import Behaviour
from eventsched.eventlog.schema import migrations
from tests.databases import ROOT

VERSION = "99.0.0"
KIND = "PodNoted"
BEHAVIOUR = max(Behaviour) + 1
OURS = migrations.newest()
PRE, POST = (f"{int(OURS) + step:04d}" for step in (1, 2))

_MIGRATION = '''"""A migration of the next version."""

from alembic import op

from eventsched.eventlog.schema.revisions import as_owner

revision = "{revision}"
down_revision = "{parent}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Up."""
    with as_owner():
        op.execute("""{up}""")


def downgrade() -> None:
    """Down."""
    with as_owner():
        op.execute("""{down}""")
'''
_AHEAD = """
CREATE OR REPLACE FUNCTION eventsched_log.make_ahead(p_stream text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN eventsched_log.{name}(p_stream);
END $$;
"""
_DESCRIBE = """
import json, sys
from pathlib import Path
import psycopg
from eventsched.history.verify import verified_schema as known
with psycopg.connect(sys.argv[1]) as connection:
    content = {"revision": sys.argv[2], "facts": known.facts(connection)}
Path(known.__file__).with_name("schema.json").write_text(json.dumps(content))
"""
_RENAME = "ALTER FUNCTION eventsched_log.{}(text) RENAME TO {};"
_OLD, _NEW = "make_partitions", "partitions_of"


class NextVersion:
    """The copy. Its migration pre adds a function, which it calls in place of an earlier one; post
    renames the earlier one, so that this version's code cannot work any more."""

    def __init__(self, folder: Path) -> None:
        """Copies the tree into a folder and changes the copy."""
        self.folder = folder
        for name in ("eventsched", "migrations"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        self._replace("__init__.py", '__version__ = "', f'__version__ = "{VERSION}"  # ')
        self._add_migrations()
        self._add_record()
        self._add_behaviour()

    @cached_property
    def environment(self) -> dict[str, str]:
        """For processes of this version."""
        return {**os.environ, "PYTHONPATH": str(self.folder)}

    def run(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        """Runs a command of ``eventsched``."""
        return self.python("-m", "eventsched", *arguments)

    def python(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        """Runs Python with this version's package."""
        words: Sequence[str] = [sys.executable, *map(str, arguments)]
        return subprocess.run(
            words, capture_output=True, text=True, timeout=300, env=self.environment,
            cwd=self.folder, check=False,
        )  # fmt: skip

    def describe_schema(self, address: str) -> None:
        """Has its ``verify`` expect the schema of a database that is at its newest revision."""
        done = self.python("-c", _DESCRIBE, address, POST)
        assert done.returncode == 0, done.stderr

    def _add_migrations(self) -> None:
        steps = (
            (PRE, OURS, "pre_ahead", _AHEAD.format(name=_OLD),
             "DROP FUNCTION eventsched_log.make_ahead(text)"),
            (POST, PRE, "post_rename", _RENAME.format(_OLD, _NEW) + _AHEAD.format(name=_NEW),
             _RENAME.format(_NEW, _OLD) + _AHEAD.format(name=_OLD)),
        )  # fmt: skip
        for revision, parent, title, up, down in steps:
            text = _MIGRATION.format(revision=revision, parent=parent, up=up, down=down)
            path = self.folder / f"migrations/versions/m{revision}_{title}.py"
            path.write_text(text)
        # So that a test sees a leader take up post soon.
        self._replace("runtime/live/replica.py", "_SCHEMA_EVERY = ",
                      "_SCHEMA_EVERY = 2.0  # ")  # fmt: skip
        calls = "eventsched_log.{}(%s)"
        self._replace("eventlog/postgres/housekeeping.py", calls.format(_OLD),
                      calls.format("make_ahead"))  # fmt: skip

    def _add_record(self) -> None:
        self._append(
            "domain/records/events.py",
            f'class {KIND}(Event, frozen=True, tag=True):\n    """A pod."""\n\n    uid: str\n',
        )
        self._append(
            "domain/records/__init__.py",
            f"from eventsched.domain.records.events import {KIND} as {KIND}\n",
        )
        catalogue = "domain/records/record_catalogue.py"
        self._replace(catalogue, "    | events.PodBound\n",
                      f"    | events.PodBound\n    | events.{KIND}\n")  # fmt: skip
        self._replace(
            catalogue,
            "    RecordKind(events.PodBound,",
            f'    RecordKind(events.{KIND}, "debug", "uid", changes_state=False),\n'
            "    RecordKind(events.PodBound,",
        )
        self._replace(
            "history/explain/record_text.py",
            '    records.NodeDeleted: "{0.name} left",\n',
            '    records.NodeDeleted: "{0.name} left",\n' + f'    records.{KIND}: "is noted",\n',
        )

    def _add_behaviour(self) -> None:
        behaviours = "domain/behaviours.py"
        self._replace(
            behaviours,
            "\n\nMODES = ",
            f'\n    NOTES_PODS = {BEHAVIOUR}\n    """Notes."""\n\n\nMODES = ',
        )
        self._append(behaviours, f'SWITCHED_ON_BY[Behaviour.NOTES_PODS] = "{POST}"\n')
        recorded = "        self._step.record(added, at)\n"
        self._replace(
            "scheduling/engine.py",
            recorded,
            f"{recorded}        if {BEHAVIOUR} in self.state.flags:\n"
            f"            self._step.emit(records.{KIND}(uid=added.pod.uid))\n",
        )

        known = "history/verify/verified_log.py"
        self._replace(known, "NEWEST_FLAG = ", f"NEWEST_FLAG = {BEHAVIOUR}  # ")

    def _append(self, name: str, text: str) -> None:
        path = self.folder / "eventsched" / name
        path.write_text(f"{path.read_text()}\n\n{text}")

    def _replace(self, name: str, old: str, new: str) -> None:
        path = self.folder / "eventsched" / name
        text = path.read_text()
        assert text.count(old) == 1, (name, old)
        path.write_text(text.replace(old, new))
