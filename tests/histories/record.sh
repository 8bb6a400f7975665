#!/bin/sh -e
# Records the simulations of 0.1 into the folder $2, with the programs of a checkout of 0.1 in $1.
# README.md has the commands that make the checkout.
old=$1 into=$2 here=$(cd "$(dirname "$0")" && pwd)
data=$(mktemp -d)
chmod 755 "$data"
eventsched() { command=$1; shift; "$old/.venv/bin/eventsched" "$command" "$@"; }
simulated() {
    stream=$1; shift
    eventsched simulate "$@" --data-dir "$data/D" --stream "$stream" >"$data/said" 2>&1 || {
        grep -q "virtual time" "$data/said" || { cat "$data/said" >&2; exit 1; }
    }
}
exported() {
    rm -f "$into/0.1-$1.jsonl.gz"
    eventsched log export --data-dir "$data/D" --stream "$1" "$into/0.1-$1.jsonl.gz"
}
trap 'eventsched db stop --data-dir "$data/D" >/dev/null 2>&1; rm -rf "$data"' EXIT

simulated defaults --manifests "$here/defaults.yaml" --until 20m
exported defaults
simulated gallery --manifests "$here/gallery.yaml" --config "$here/gallery-config.yaml" --until 3m
exported gallery
simulated importance --manifests "$here/importance.yaml" --config "$here/importance-config.yaml" --until 20m
exported importance
simulated generated --generate nodes=12,pods=60,shape=mixed,seed=2,rate=2,runtime=20
exported generated
for until in 10s 90s 1d; do  # each but the first goes on from the log
    simulated resumed --generate nodes=6,pods=60,shape=tight,seed=3 --until "$until"
done
exported resumed
