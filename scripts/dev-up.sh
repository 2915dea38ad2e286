#!/usr/bin/env bash
# Starts a PostgreSQL server and a lake (S3 server and Iceberg REST catalog) in the background and prints how to reach them.
# When they run already it only prints.
#
#   scripts/dev-up.sh [STATE [OWNER]]   the state file, and the process with whose end the servers stop by themselves
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

"$root/scripts/setup.sh" test
mkdir -p "$cache/bin"
# The new program is moved into place: one that runs keeps its own file.
program=$cache/bin/devenv-$(id -u)
(cd "$root" && go build -o "$program.new" ./internal/testenv/cmd/devenv)
mv "$program.new" "$program"
"$program" up "${1:-$dev_state}" "${2:-0}"
