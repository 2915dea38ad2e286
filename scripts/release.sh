#!/usr/bin/env bash
# Builds the program for each platform into a folder, with a bill of materials of each (CycloneDX, from the modules that are in it)
# and the checksums of all. The same commit gives the same bytes.
#
#   scripts/release.sh FOLDER [OS/ARCH...]
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$#" -gt 0 ] || die "usage: scripts/release.sh FOLDER [OS/ARCH...]"
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ "$#" -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/arm64
cd "$root"
for platform in "$@"; do
	name=compactor-${platform/\//-}
	say "building $name"
	GOOS=${platform%/*} GOARCH=${platform#*/} CGO_ENABLED=0 GOFLAGS='' \
		go build -trimpath -buildvcs=auto -ldflags '-s -w' -o "$out/$name" ./cmd/compactor
	go run "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$cyclonedx_version" bin -json -output "$out/$name.cdx.json" "$out/$name"
done
cd "$out"
sha256sum compactor-* >SHA256SUMS
