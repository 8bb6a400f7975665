#!/bin/bash
# Makes the database that POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB and POSTGRES_HOST_AUTH_METHOD
# describe, as far as the tests use them, and then runs the server.
set -euo pipefail

if [ "$(id -u)" = 0 ]; then
    install -d -o postgres -g postgres -m 0700 "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --clear-groups "$BASH" "$0" "$@"
fi

if [ ! -e "$PGDATA/PG_VERSION" ]; then
    user=${POSTGRES_USER:-postgres}
    database=${POSTGRES_DB:-$user}
    method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
    password=$(mktemp)
    printf '%s\n' "${POSTGRES_PASSWORD:?is missing}" >"$password"
    initdb --username="$user" --pwfile="$password" --encoding=UTF8 \
        --auth-local=trust --auth-host="$method" >/dev/null
    rm "$password"
    echo "host all all all $method" >>"$PGDATA/pg_hba.conf"
    if [ "$database" != postgres ]; then
        # Without a network: a client that waits for the server must not meet this one.
        pg_ctl start --wait --silent --options="-c listen_addresses=''"
        createdb --username="$user" "$database"
        pg_ctl stop --wait --silent --mode=fast
    fi
fi
exec "$@"
