"""``eventsched db doctor``: what it finds in schemas, logs and rights, and what it prints. Each
finding is provoked, and is gone after its remedy."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from eventsched.eventlog.inspection.database_checks import CHECKS, diagnose
from eventsched.eventlog.inspection.database_facts import read_facts
from eventsched.eventlog.inspection.log_checks import APPEND_ONLY
from eventsched.eventlog.schema import migrations
from tests.postgres.diagnosed import Databases, found, remedied, run
from tests.postgres.tampered_logs import simulate

Capture = pytest.CaptureFixture[str]
_L = "eventsched_log"


def test_a_sound_database(sound: Databases, capsys: Capture) -> None:
    """As docs/deploy.md sets it up, empty and with a log. Checksums depend on the version."""
    with sound.role("migrator", "CREATEDB CREATEROLE"), sound.role("scheduler"):
        url = sound.fresh("migrator")
        migrations.upgrade(url)
        run(url, "GRANT eventsched_writer TO scheduler")
        superuser = url.replace("migrator", "postgres")
        has_checksums = sound.server.execute("SHOW data_checksums") == [("on",)]
        expected = [] if has_checksums else [("warn", "data checksums are off")]
        for _ in ("empty", "with a log"):
            diagnosis = diagnose(read_facts(superuser))
            assert [(f.severity, f.problem) for _, f in diagnosis.findings] == expected
            assert diagnosis.unchecked == {}
            capsys.readouterr()
            simulate(superuser, "nodes=3,pods=5")
        capsys.readouterr()
        assert main(["db", "doctor", "--database", superuser]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        warnings = "0 warnings" if has_checksums else "1 warning"
        assert last == f"{len(CHECKS)} checks: 0 reasons to refuse, {warnings}"
        unchecked = diagnose(read_facts(url)).unchecked
        assert unchecked.keys() == {"open transactions"}
        sound.server.execute(f"DROP DATABASE {superuser.partition('?')[0].rpartition('/')[2]}")


def test_the_schemas_revision(sound: Databases) -> None:
    """What needs this version's schema is not checked on another."""
    url = sound.fresh()
    check, newest = "schema revision", migrations.newest()
    assert found(url, check) == [("refuse", "there is no eventsched schema")]
    migrations.upgrade(url, "0009")
    assert found(url, check) == [("refuse", f"the schema's revision is 0009, not {newest}")]
    migrations.upgrade(url)
    assert found(url, check) == []
    run(url, "UPDATE eventsched_log.migration SET version_num = '9999', serves = '9999'")
    problem = f"the schema's revision 9999 is newer than this version knows ({newest})"
    assert found(url, check) == [("refuse", problem)]
    unchecked = diagnose(read_facts(url)).unchecked
    assert unchecked["head"] == "the schema is not of this version"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (f"DELETE FROM {_L}.head", "its row in eventsched_log.head is missing"),
        (f"UPDATE {_L}.head SET next = next + 1", "its head is at N, but its last batch ends be"),
        (
            f"UPDATE {_L}.head SET hash = sha256('x')",
            "its head and its last batch have different hashes",
        ),
        (
            f"DELETE FROM {_L}.batch WHERE first = (SELECT max(first) FROM {_L}.batch)",
            "its head is at N, but its last batch ends before N",
        ),
        (f"DELETE FROM {_L}.batch", "its head is at N, but it has no batch"),
        (
            f"DELETE FROM {_L}.batch; UPDATE {_L}.head SET next = 0",
            "its head has a wrong hash",
        ),
    ],
)
def test_ends_of_streams(sound: Databases, change: str, said: str) -> None:
    url = sound.migrated()
    simulate(url, "nodes=2,pods=3")
    assert found(url, "head") == []
    run(url, f"SET session_replication_role = replica; {_disabled('batch')}; {change}")
    [(severity, problem)] = found(url, "head")
    assert severity == "refuse"
    assert re.sub(r"\d+", "N", problem).startswith(f"stream simulation: {said}")


def _disabled(table: str) -> str:
    return f"ALTER TABLE {_L}.{table} DISABLE TRIGGER append_only"


def test_triggers(sound: Databases) -> None:
    url = sound.migrated()
    facts = read_facts(url)
    assert facts.schema is not None
    assert facts.schema.triggers == dict.fromkeys(APPEND_ONLY, "A")
    run(url, f"DROP TRIGGER append_only ON {_L}.batch")
    run(url, f"DROP TRIGGER append_only_all ON {_L}.stream")
    run(url, f"ALTER TABLE {_L}.epoch DISABLE TRIGGER append_only")
    run(url, f"ALTER TABLE {_L}.pod ENABLE TRIGGER append_only")
    assert found(url, "append only") == [
        ("refuse", f"trigger append_only of table {_L}.batch is missing"),
        ("refuse", f"trigger append_only of table {_L}.epoch is not enabled always"),
        ("refuse", f"trigger append_only of table {_L}.pod is not enabled always"),
        ("refuse", f"trigger append_only_all of table {_L}.stream is missing"),
    ]
    remedied(url, "append only")
    facts = read_facts(url)
    assert facts.schema is not None
    assert facts.schema.triggers == dict.fromkeys(APPEND_ONLY, "A")
    assert main(["verify", "--database", url]) == 2  # there is no stream yet


def test_partitions(sound: Databases) -> None:
    url = sound.migrated()
    simulate(url, "nodes=2,pods=3")
    assert found(url, "partitions") == []
    run(url, f"ALTER TABLE {_L}.decision DETACH PARTITION {_L}.decision_1_0")
    run(url, f"ALTER TABLE {_L}.batch_1_0 DISABLE TRIGGER append_only")
    assert found(url, "partitions") == [
        ("refuse", f"triggers of partition {_L}.batch_1_0 are missing or not enabled always"),
        (
            "refuse",
            f"table {_L}.decision has no partition {_L}.decision_1_0, though there is such a table",
        ),
    ]
    remedied(url, "partitions")
    run(url, f"DROP TABLE {_L}.detail_1_0")
    [(_, problem)] = found(url, "partitions")
    assert problem == f"table {_L}.detail has no partition {_L}.detail_1_0"
    run(url, f"UPDATE {_L}.partition SET has_vectors = false")  # as thin() does
    assert found(url, "partitions") == []


def test_rights_that_no_migration_gives(sound: Databases) -> None:
    url = sound.migrated()
    run(url, f"GRANT USAGE ON SCHEMA {_L} TO PUBLIC")
    run(url, f"GRANT SELECT ON {_L}.batch, {_L}.head TO PUBLIC")
    run(url, f"GRANT INSERT ON {_L}.batch TO PUBLIC")
    run(url, f"GRANT EXECUTE ON FUNCTION {_L}.renew(integer, integer, uuid) TO PUBLIC")
    run(url, f"GRANT INSERT, UPDATE ON {_L}.head TO eventsched_reader")
    run(url, f"GRANT DELETE ON {_L}.detail TO eventsched_writer")
    renew = f"FUNCTION {_L}.renew(integer,integer,uuid)"
    assert found(url, "privileges") == [
        ("refuse", f"PUBLIC has EXECUTE on {renew}"),
        ("refuse", f"PUBLIC has INSERT on TABLE {_L}.batch"),
        ("refuse", f"eventsched_reader has INSERT on TABLE {_L}.head"),
        ("refuse", f"eventsched_reader has UPDATE on TABLE {_L}.head"),
        ("refuse", f"eventsched_writer has DELETE on TABLE {_L}.detail"),
        ("warn", f"PUBLIC has USAGE on SCHEMA {_L}"),
        ("warn", f"PUBLIC has SELECT on TABLE {_L}.batch, TABLE {_L}.head"),
    ]
    remedied(url, "privileges")


def test_many_rights_are_one_finding(sound: Databases) -> None:
    url = sound.migrated()
    run(url, f"GRANT SELECT ON ALL TABLES IN SCHEMA {_L} TO PUBLIC")
    [(_, problem)] = found(url, "privileges")
    assert re.fullmatch(
        r"PUBLIC has SELECT on (TABLE [\w.]+, ){2}TABLE [\w.]+ and \d+ more", problem
    )
    remedied(url, "privileges")


def test_writers_that_could_rewrite_the_log(sound: Databases) -> None:
    url = sound.migrated()
    with sound.role("boss", "SUPERUSER"), sound.role('"Own er"'), sound.role("scheduler"):
        for name in ("boss", '"Own er"', "scheduler"):
            run(url, f"GRANT eventsched_writer TO {name}")
        run(url, 'GRANT eventsched_owner TO "Own er"')
        assert found(url, "writers") == [
            ("warn", 'role "Own er" owns the schema and is a member of eventsched_writer'),
            ("warn", "role boss is a superuser and a member of eventsched_writer"),
        ]
        remedied(url, "writers")


def test_rights_to_read_that_no_migration_gives(sound: Databases) -> None:
    url = sound.migrated()
    run(url, f"GRANT SELECT ON {_L}.batch, eventsched.events TO eventsched_reader")
    run(url, "GRANT SELECT ON eventsched.decisions TO eventsched_tenant")
    run(url, "GRANT EXECUTE ON FUNCTION eventsched.verdicts(text, bigint) TO eventsched_tenant")
    run(url, f"GRANT TRUNCATE ON {_L}.batch TO eventsched_archiver, eventsched_auditor")
    run(url, f"GRANT UPDATE ON {_L}.head TO eventsched_migrator")
    assert sorted(found(url, "privileges")) == [
        ("refuse", f"eventsched_archiver has TRUNCATE on TABLE {_L}.batch"),
        ("refuse", f"eventsched_auditor has TRUNCATE on TABLE {_L}.batch"),
        ("refuse", f"eventsched_migrator has UPDATE on TABLE {_L}.head"),
        ("warn", f"eventsched_reader has SELECT on TABLE eventsched.events, TABLE {_L}.batch"),
        ("warn", "eventsched_tenant has EXECUTE on FUNCTION eventsched.verdicts(text,bigint)"),
        ("warn", "eventsched_tenant has SELECT on TABLE eventsched.decisions"),
    ]
    remedied(url, "privileges")


def test_tenants_who_see_more(sound: Databases) -> None:
    url = sound.migrated()
    with sound.role("boss", "SUPERUSER"), sound.role("team"), sound.role("other_team"):
        for name in ("boss", "team", "other_team"):
            run(url, f"GRANT eventsched_tenant TO {name}")
        run(url, "GRANT eventsched_auditor, eventsched_reader TO team")
        run(url, f"INSERT INTO {_L}.tenant_grant VALUES ('gone', 'shop'), ('team', 'shop')")
        assert found(url, "tenants") == [
            ("warn", "role boss is a superuser and a member of eventsched_tenant"),
            (
                "warn",
                "role team is a member of eventsched_tenant and of eventsched_auditor, "
                "eventsched_reader",
            ),
            ("warn", "role gone, which does not exist, is granted namespace shop"),
        ]
        run(url, "ALTER ROLE boss NOSUPERUSER")
        run(url, "REVOKE eventsched_auditor, eventsched_reader FROM team")
        revoke = ["--role", "gone", "--namespace", "shop", "--revoke"]
        assert main(["db", "grant", "--database", url, *revoke]) == 0
        assert found(url, "tenants") == []


def test_a_writer_that_also_migrates(sound: Databases) -> None:
    url = sound.migrated()
    with sound.role("allrounder"):
        run(url, "GRANT eventsched_writer, eventsched_migrator TO allrounder")
        problem = "role allrounder owns the schema and is a member of eventsched_writer"
        assert found(url, "writers") == [("warn", problem)]
        remedied(url, "writers")


def test_a_database_with_one_user(sound: Databases) -> None:
    with sound.role("everything"):
        url = sound.fresh("everything")
        migrations.upgrade(url, one_user=True)
        problem = (
            "the schema belongs to everything, which can log in, and no login is a member of "
            "eventsched_writer"
        )
        assert found(url, "writers", "privileges") == [("warn", problem)]
        sound.server.execute(f"DROP DATABASE {url.partition('?')[0].rpartition('/')[2]}")


def test_a_user_who_may_see_nothing(sound: Databases, capsys: Capture) -> None:
    """What could not be checked is named with what is missing, and nothing else is found."""
    url = sound.migrated()
    with sound.role("stranger"):
        address = url.replace("postgres@", "stranger@")
        capsys.readouterr()
        assert main(["db", "doctor", "--database", address, "-o", "json"]) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert answer["ok"] is True
        assert answer["unchecked"]["head"] == (
            "this user may not read the log: GRANT eventsched_auditor to it"
        )
        assert answer["unchecked"]["open transactions"] == (
            "this user may not see other sessions: GRANT pg_read_all_stats to it"
        )
        assert {*answer["checked"], *answer["unchecked"]} == {check.name for check in CHECKS}
        assert main(["db", "doctor", "--database", address]) == 0
        assert "not checked: head: this user may not read the log" in capsys.readouterr().out


def test_findings_in_words_and_in_json(sound: Databases, capsys: Capture) -> None:
    url = sound.fresh()
    capsys.readouterr()
    assert main(["db", "doctor", "--database", url]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "refuse: schema revision: there is no eventsched schema",
        "  why: a scheduler of this version does not start on it",
        "  remedy: eventsched db upgrade",
        "",
    ]
    assert main(["db", "doctor", "--database", url, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert answer["findings"][0] == {
        "check": "schema revision",
        "severity": "refuse",
        "problem": "there is no eventsched schema",
        "why": "a scheduler of this version does not start on it",
        "remedy": "eventsched db upgrade",
    }


def test_an_embedded_database(place: Path, capsys: Capture) -> None:
    """Its roles can log in, which is as it should be: only its own account reaches it."""
    folder = str(place / "data")
    assert main(["simulate", "--generate", "nodes=2,pods=3", "--data-dir", folder]) == 0
    capsys.readouterr()
    assert main(["db", "doctor", "--data-dir", folder, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {each["check"] for each in answer["findings"]} <= {"data checksums"}
    assert answer["unchecked"] == {}
    assert main(["db", "stats", "--data-dir", folder]) == 0
    assert main(["db", "doctor", "--data-dir", f"{folder}-elsewhere"]) == 2


def test_bad_input_and_no_database(capsys: Capture) -> None:
    assert main(["db", "doctor", "--database", "mysql://x/y"]) == 2
    assert main(["db", "doctor", "--database", "postgresql://x@/y?host=/nowhere"]) == 3
    assert "/nowhere" in capsys.readouterr().err
