#!/usr/bin/env bash
# Builds the program and tries it from outside: it makes a fragmented table, runs every step on it, and looks at rows, files and
# exit codes. Without SMOKE_CATALOG_URI it starts SeaweedFS and PostgreSQL, and stops them again. The environment names other servers:
#
#   SMOKE_CATALOG_URI            base address of the REST catalog
#   SMOKE_CATALOG_CREDENTIAL     client_id:client_secret; empty: the catalog asks for none
#   SMOKE_WAREHOUSE              name or location of the warehouse
#   SMOKE_S3_ENDPOINT            the store; empty: AWS
#   SMOKE_S3_REGION              its region; empty: us-east-1
#   SMOKE_S3_ACCESS_KEY_ID       empty: the catalog vends credentials
#   SMOKE_S3_SECRET_ACCESS_KEY
#   SMOKE_POSTGRES               connection string for the claims; empty: file locks, where there is no PostgreSQL
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/compactor-smoke.XXXXXX")
state=$work/servers.json
finish() {
	if [ -e "$state" ]; then
		"$root/scripts/dev-down.sh" "$state" >&2 || say "servers of $state could not be stopped"
	fi
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -z "${SMOKE_CATALOG_URI:-}" ] && [ -z "${COMPACTOR_TESTENV:-}" ]; then
	"$root/scripts/dev-up.sh" "$state" $$ >/dev/null
	export COMPACTOR_TESTENV=$state
fi
cd "$root"
# Without the commit in it: the checkout may belong to another user, whose history git does not read.
CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/compactor" ./cmd/compactor
go build -buildvcs=false -o "$work/smoke" ./internal/smoke
"$work/smoke" "$work/compactor"
