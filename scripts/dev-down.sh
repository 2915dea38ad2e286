#!/usr/bin/env bash
# Stops the servers that scripts/dev-up.sh started, by their process id. Without any it does nothing.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

program=$cache/bin/devenv-$(id -u)
if [ ! -x "$program" ]; then
	say "no servers are running"
	exit 0
fi
"$program" down "${1:-$dev_state}"
