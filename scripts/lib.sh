# shellcheck shell=bash
# shellcheck disable=SC2034 # The names are used by the scripts that source this file.
# Names and folders that the scripts share. It is sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The versions of the servers are also in internal/testenv/files.go.
seaweed_version=4.48
postgres18_version=18.6.3
golangci_version=v2.15.0
gotestsum_version=v1.13.0
actionlint_version=v1.7.12
hadolint_version=2.15.1
# For releases only.
cyclonedx_version=v1.10.0

# The Iceberg runtime for the PySpark that internal/interop/engines/requirements-spark.txt names, and the Java that runs it; also in
# internal/interop/spark_test.go.
iceberg_version=1.11.0
spark_scala=4.0_2.13
java_home=/usr/lib/jvm/java-17-openjdk-$(dpkg --print-architecture 2>/dev/null || echo amd64)

# Root keeps the cache where the user postgres can read it, because that user runs the PostgreSQL of the cache.
if [ -n "${COMPACTOR_CACHE:-}" ]; then
	cache=$COMPACTOR_CACHE
elif [ -n "${XDG_CACHE_HOME:-}" ]; then
	cache=$XDG_CACHE_HOME/compactor
elif [ "$(id -u)" = 0 ]; then
	cache=/var/cache/compactor
else
	cache=$HOME/.cache/compactor
fi

golangci_lint=$cache/golangci-lint-$golangci_version/golangci-lint
gotestsum=$cache/gotestsum-$gotestsum_version/gotestsum
actionlint=$cache/actionlint-$actionlint_version/actionlint
hadolint=$cache/hadolint-$hadolint_version/bin/hadolint

# The state file of the servers that a person starts by hand.
dev_state=${COMPACTOR_DEV_STATE:-${TMPDIR:-/tmp}/compactor-dev-$(id -u).json}

say() { printf '%s\n' "$*" >&2; }

die() {
	say "${0##*/}: $*"
	exit 1
}
