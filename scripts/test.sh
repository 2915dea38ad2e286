#!/usr/bin/env bash
# Runs Go tests against servers that all packages share, and stops the servers whatever happens. Arguments go to go test;
# without packages among them all are tested. The output ends with the summary of the runner.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/compactor-test.XXXXXX")
state=$work/servers.json
finish() {
	"$root/scripts/dev-down.sh" "$state" || say "servers of $state could not be stopped"
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$root/scripts/dev-up.sh" "$state" $$ >/dev/null
export COMPACTOR_TESTENV=$state
cd "$root"
# Two packages at once: more would compete for the same servers and cores, and the tests that measure time would say less.
"$gotestsum" --format "${GOTESTSUM_FORMAT:-pkgname-and-test-fails}" -- -p 2 -timeout 30m "$@"
