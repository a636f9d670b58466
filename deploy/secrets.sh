#!/bin/sh
# Makes every password and key that docker-compose.yml needs, in a directory
# that only you may enter. What is there already is left as it is.
#
#   deploy/secrets.sh DIR
#
# HOLDPOINT says how to call holdpoint; when unset, "go run -tags nodev ./cmd/holdpoint"
# in a checkout, else the one on the PATH. LOG_NAME says how the audit log is to be
# called: the address under which it will be served, without https://. Keep a copy of
# DIR/data_key somewhere safe: without it no stored argument can ever be read again.
set -eu
umask 077
dir="${1:?usage: deploy/secrets.sh DIR}"
if [ -z "${HOLDPOINT:-}" ]; then
  if [ -d cmd/holdpoint ] && command -v go >/dev/null; then
    HOLDPOINT="go run -tags nodev ./cmd/holdpoint"
  elif command -v holdpoint >/dev/null; then
    HOLDPOINT=holdpoint
  else
    echo "$0: there is no holdpoint on the PATH: put it there, say how it is called with HOLDPOINT=…, or run this in a checkout, with Go" >&2
    exit 1
  fi
fi
mkdir -p "$dir"
chmod 700 "$dir"

make() { # make NAME COMMAND…: the file NAME holds what the command says
  name="$1"
  shift
  [ -s "$dir/$name" ] || "$@" >"$dir/$name"
}

for name in postgres_password owner_password app_password temporal_password; do
  make "$name" openssl rand -hex 24
done
make data_key openssl rand -base64 32
make database_url printf 'postgres://holdpoint_app:%s@postgres:5432/holdpoint\n' "$(cat "$dir/app_password")"
make database_admin_url printf 'postgres://holdpoint_migrator:%s@postgres:5432/holdpoint\n' "$(cat "$dir/owner_password")"
[ -s "$dir/signing-keys.json" ] || $HOLDPOINT key rotate "$dir/signing-keys.json"

[ -s "$dir/log-key" ] || $HOLDPOINT key log "$dir/log-key" --name "${LOG_NAME:-holdpoint.local/log}"

# Containers run as other users and see single files, not the directory.
chmod 644 "$dir"/*
echo "export SECRETS=$dir"
