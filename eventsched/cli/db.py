"""``eventsched db``: the address of the database, its schema, and the embedded server."""

import argparse
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from eventsched.cli.answers.answer_forms import add_output_option, print_answer
from eventsched.cli.database_commands import (
    db_archive,
    db_doctor,
    db_prune,
    db_restore,
    db_stats,
    db_union,
)
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog import database
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.postgres import grants
from eventsched.eventlog.postgres.reader import database_engine
from eventsched.eventlog.schema import migration_files, migrations
from eventsched.output.terminal.tables import table

ROLES = {"reader": database.READER, "auditor": database.AUDITOR, "writer": database.WRITER}


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "db",
        help="the database: its address, its schema, the embedded server",
        description="Prints the address of the database, upgrades its schema, sets and lists "
        "grants, measures, archives and restores the log, checks the database, makes a union of "
        "several, and stops the embedded server.",
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True)
    url = actions.add_parser(
        "url",
        help="print the address for psql, pgAdmin and the like",
        description="Prints the address for psql, pgAdmin and the like. An embedded server is "
        "started if it is not running, and left running.",
    )
    url.add_argument("--role", choices=tuple(ROLES), default="reader")
    url.set_defaults(run=_url)
    upgrade = _add_upgrade(actions)
    stop = actions.add_parser("stop", help="stop an embedded server that no process uses")
    stop.set_defaults(run=_stop)
    granted = _add_grant(actions)
    for action in (url, upgrade, stop, granted):
        add_database_options(action, stream=False)
        add_output_option(action, "text", pages=False)
    db_stats.add_action(actions)
    db_doctor.add_action(actions)
    db_archive.add_action(actions)
    db_restore.add_action(actions)
    db_union.add_action(actions)
    db_prune.add_action(actions)


def _add_upgrade(actions: Any) -> argparse.ArgumentParser:
    upgrade: argparse.ArgumentParser = actions.add_parser(
        "upgrade",
        help="bring the schema to this version",
        description="Brings the schema to this version. A command that writes to an embedded "
        "database upgrades it, too.",
    )
    upgrade.add_argument(
        "--one-user",
        action="store_true",
        help="create no roles: the connecting user owns everything",
    )
    steps = upgrade.add_mutually_exclusive_group()
    steps.add_argument(
        "--pre",
        dest="step",
        action="store_const",
        const=migration_files.PRE,
        help="only what this version needs to run; refused while replicas run that it would end",
    )
    steps.add_argument(
        "--post",
        dest="step",
        action="store_const",
        const=migration_files.POST,
        help="the rest, once all replicas have this version; there is no way back from it",
    )
    upgrade.set_defaults(run=_upgrade, step="")
    return upgrade


def _add_grant(actions: Any) -> argparse.ArgumentParser:
    granted: argparse.ArgumentParser = actions.add_parser(
        "grant",
        help="say which role may write which stream, or which tenant sees which namespace",
        description="Lets a login role write a stream. A role with grants may write those streams "
        "only, a stream with grants may be written by those roles only; without any, every writer "
        "may write every stream. With --namespace it shows a tenant (a member of "
        "eventsched_tenant) the decisions about that namespace, in all streams or in one. Without "
        "--role it lists the grants.",
    )
    granted.add_argument("--role", metavar="ROLE", help="the role that connects")
    granted.add_argument("--stream", metavar="NAME", help="the stream; it need not exist yet")
    granted.add_argument("--namespace", metavar="NAME", help="the namespace that a tenant sees")
    granted.add_argument("--revoke", action="store_true", help="revoke the grant")
    granted.set_defaults(run=_grant)
    return granted


def _url(options: argparse.Namespace) -> int:
    address, folder = database_of(options)
    if folder is None or address is not None:
        if options.role == "writer":
            with database.writer_address(address, folder) as writing:
                print_answer({"address": writing}, writing, options.output)
        else:
            roles = [ROLES[options.role]]
            with database.reader_address(address, folder, roles=roles) as reading:
                print_answer({"address": reading}, reading, options.output)
        return 0
    with EmbeddedPostgres(folder, keep_running=True).open(create=False) as postgres:
        own = postgres.url(ROLES[options.role])
    print_answer({"address": own}, own, options.output)
    print(
        f"the server of {folder} is left running; `eventsched db stop --data-dir {folder}` ends it",
        file=sys.stderr,
    )
    return 0


def _upgrade(options: argparse.Namespace) -> int:
    address, folder = database_of(options)
    if folder is None or address is not None:
        with database.writer_address(address, folder) as url:
            before = migrations.upgrade(url, one_user=options.one_user, step=options.step)
            _print_upgrade(shown(url), before, _revision(url), options.output)
        return 0
    if options.one_user:
        raise InputError("--one-user", "an embedded database has its roles", "leave the option out")
    with EmbeddedPostgres(folder).open() as postgres:  # created if it does not exist
        before = _revision(postgres.superuser_url)
        with database.writer_address(None, folder):
            _print_upgrade(str(folder), before, _revision(postgres.superuser_url), options.output)
    return 0


def _grant(options: argparse.Namespace) -> int:
    what = (options.stream, options.namespace)
    if (options.role is None) != (what == (None, None)) or (options.revoke and not options.role):
        raise InputError(
            "options",
            "a grant has a role and a stream, or a role and a namespace",
            "give --role and --stream, or --role and --namespace",
        )
    address, folder = database_of(options)
    if folder is None or address is not None:
        with database.writer_address(address, folder) as url:
            return _granted(url, options)
    with EmbeddedPostgres(folder).open(create=False) as postgres:
        return _granted(postgres.superuser_url, options)


def _granted(address: str, options: argparse.Namespace) -> int:
    if options.role is None:
        _print_grants(address, options.output)
        return 0
    if options.namespace is None:
        is_new = grants.grant(address, options.role, options.stream, revoke=options.revoke)
        effect = f"{'may no longer write' if options.revoke else 'may write'} stream"
        what = options.stream
    else:
        is_new = grants.grant_namespace(
            address, options.role, options.namespace, options.stream, revoke=options.revoke
        )
        effect = f"{'no longer sees' if options.revoke else 'sees'} namespace"
        what = f"{options.namespace} in {_streams(options.stream)}"
    document = {
        "role": options.role, "stream": options.stream, "namespace": options.namespace,
        "granted": not options.revoke, "is_new": is_new,
    }  # fmt: skip
    text = f"role {options.role} {effect} {what}{'' if is_new else ' (as before)'}"
    print_answer(document, text, options.output)
    return 0


def _print_grants(address: str, output: str) -> None:
    rows, tenants = grants.grants(address), grants.namespace_grants(address)
    text = table((), rows, ["role", "stream"]) if rows else "every writer, every stream"
    if tenants:
        shown_rows = [(role, space, _streams(stream)) for role, space, stream in tenants]
        text += "\n\n" + table((), shown_rows, ["tenant", "namespace", "stream"])
    document = {
        "writers": [{"role": role, "stream": stream} for role, stream in rows],
        "tenants": [
            {"role": role, "namespace": namespace, "stream": stream or None}
            for role, namespace, stream in tenants
        ],
    }
    print_answer(document, text, output)


def _streams(stream: str | None) -> str:
    return f"stream {stream}" if stream else "all streams"


def _stop(options: argparse.Namespace) -> int:
    address, folder = database_of(options)
    if folder is None or address is not None:
        raise InputError("options", "no folder is named", "give --data-dir FOLDER alone")
    if not _is_there(folder):
        raise InputError(str(folder), "there is no database here", "check the path of the folder")
    if not EmbeddedPostgres(folder).stop_unused():
        raise UnavailableError(
            str(folder), "its database is in use", "end the processes that use it first"
        )
    text = f"the server of {folder} is stopped"
    print_answer({"folder": str(folder), "stopped": True}, text, options.output)
    return 0


def _is_there(folder: Path) -> bool:
    return (folder.expanduser() / "postgres").exists()


def _print_upgrade(where: str, before: str | None, after: str | None, output: str) -> None:
    change = f"is at {after} already" if before == after else f"{before or 'empty'} → {after}"
    if after is not None and after not in migration_files.revisions():
        change = f"{after} is newer than this version ({migrations.newest()}), and serves it"
    elif after is not None and after < migrations.newest():
        rest = "`eventsched db upgrade --post` does the rest, once all replicas have this version"
        change = f"{change}; {rest}"
    document = {
        "database": where, "before": before, "after": after, "newest": migrations.newest(),
    }  # fmt: skip
    print_answer(document, f"{where}: schema {change}", output)


def _revision(address: str) -> str | None:
    """The schema's revision; None if there is none. Raises UnavailableError."""
    engine = database_engine(address)
    try:
        with engine.connect() as connection:
            if connection.scalar(text("SELECT to_regclass('eventsched_log.migration')")) is None:
                return None
            revision = connection.scalar(text("SELECT version_num FROM eventsched_log.migration"))
            return None if revision is None else str(revision)
    except DBAPIError as problem:
        raise migrations.connection_error(address, problem) from problem
    finally:
        engine.dispose()
