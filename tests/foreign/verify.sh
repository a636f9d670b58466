#!/bin/sh
# Verifies the audit log at URL/log/ by a tool of another project. It exits with
# another status than 0 unless that tool says that everything fits.
#
#   tests/foreign/verify.sh URL KEYFILE
set -eu
url="${1:?usage: tests/foreign/verify.sh URL KEYFILE}"
key="$(realpath "${2:?usage: tests/foreign/verify.sh URL KEYFILE}")"
# With a single worker that has found a mistake, the tool waits for ever.
said="$(cd / && timeout 600 go run github.com/transparency-dev/tessera/cmd/fsck@v1.0.4 \
  --storage_url="$url/log/" --public_key="$key" --ui=false -N 16 2>&1)" || true
printf '%s\n' "$said"
printf '%s\n' "$said" | grep -q "Successfully fsck'd log"
