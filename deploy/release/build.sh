#!/usr/bin/env bash
# Builds what a release has, into an empty directory: binaries (static but for the plugin
# that loads a C library), what is in them (CycloneDX), the licences of it, an image for
# each architecture where buildah is installed, and the checksums of all that. From one
# commit, by one version of Go, it is the same bytes wherever and whenever it is built;
# --twice builds it again and compares.
#
#   deploy/release/build.sh [--twice] [--arch amd64,arm64] [--no-image] DIR
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/../.."

twice='' arches=amd64,arm64 image=yes
while [ $# -gt 1 ]; do
	case $1 in
	--twice) twice=yes ;;
	--arch) arches=$2; shift ;;
	--no-image) image='' ;;
	*) echo "unknown: $1" >&2; exit 2 ;;
	esac
	shift
done
out=${1:?usage: deploy/release/build.sh [--twice] [--arch LIST] [--no-image] DIR}
[ "${out#/}" != "$out" ] || out=$from/$out
[ ! -e "$out" ] || [ -z "$(ls -A "$out")" ] || { echo "$out is not empty" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] || { echo "there are changes that are not committed: a release is of a commit" >&2; exit 1; }
[ -z "$image" ] || command -v buildah >/dev/null || { echo "buildah is missing (Debian: buildah); without an image: --no-image" >&2; exit 1; }

# Not the machine's: what a build could be made with beside the sources.
export CGO_ENABLED=0 GOOS=linux GOENV=off GOFLAGS='' GOWORK=off GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT='' LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
commit=$(git rev-parse HEAD)
sbom=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
env -u GOOS GOBIN="$tool" go install "$sbom"

# Modules that bring no licence with them, as somebody has looked: the list of licences says
# so of them. Whoever releases asks their authors.
without='github.com/nexus-rpc/nexus-proto-annotations'

# licences FILE ARCH writes the licences of every module that the program is made of. Another
# module without one is an error.
licences() {
	local path version dir file found
	{
		echo "Holdpoint is made of these modules, with their licences. Its own is in LICENSE."
		GOARCH=$2 go list -tags nodev -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{or .Version "(in this repository)"}} {{.Dir}}{{end}}{{end}}' ./cmd/holdpoint ./cmd/holdpoint-pkcs11 | sort -u |
			while read -r path version dir; do
				if [ "${dir#"$PWD"/}" != "$dir" ]; then continue; fi # ours
				found=''
				for file in "$dir"/LICEN[SC]E* "$dir"/COPYING* "$dir"/NOTICE* "$dir"/PATENTS* "$dir"/[Ll]icense*; do
					if [ -f "$file" ]; then
						found=yes
						printf '\n== %s %s: %s\n\n' "$path" "$version" "${file##*/}"
						cat "$file"
					fi
				done
				if [ -z "$found" ]; then
					[ "$path" = "$without" ] || { echo "$path $version has no licence" >&2; exit 1; }
					printf '\n== %s %s: none is in the module\n' "$path" "$version"
				fi
			done
		printf '\n== The Go programming language %s: LICENSE\n\n' "$(go env GOVERSION)"
		cat "$(go env GOROOT)/LICENSE"
	} >"$1"
}

# packed DIR ARCH makes an image of the program and of what it needs beside itself: the
# certificates of public authorities, a user, and a directory for the log's floor.
packed() {
	local at=$1 arch=$2 container
	local -a b=(buildah --root "$tool/images" --runroot "$tool/run" --storage-driver vfs)
	local certificates=/etc/ssl/certs/ca-certificates.crt
	[ -f "$certificates" ] || { echo "$certificates is missing (Debian: ca-certificates)" >&2; exit 1; }
	rm -rf "$tool/tree"
	mkdir -p "$tool/tree/etc/ssl/certs" "$tool/tree/var/lib/holdpoint" "$tool/tree/tmp"
	install -m 0755 "$at/holdpoint-linux-$arch" "$tool/tree/holdpoint"
	install -m 0644 "$certificates" "$tool/tree/etc/ssl/certs/ca-certificates.crt"
	install -m 0644 "$at/THIRD-PARTY-$arch.txt" "$tool/tree/THIRD-PARTY.txt"
	install -m 0644 LICENSE "$tool/tree/LICENSE"
	echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$tool/tree/etc/passwd"
	chmod 0755 "$tool/tree" "$tool/tree/etc" "$tool/tree/etc/ssl" "$tool/tree/etc/ssl/certs" "$tool/tree/var" "$tool/tree/var/lib"
	chmod 0644 "$tool/tree/etc/passwd"
	chmod 1777 "$tool/tree/tmp"
	# Times of files are of the commit, too: a layer has them.
	find "$tool/tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	container=$("${b[@]}" from --arch "$arch" scratch)
	"${b[@]}" copy --quiet "$container" "$tool/tree" / >/dev/null
	"${b[@]}" copy --quiet --chown 65532:65532 "$container" "$tool/tree/var/lib/holdpoint" /var/lib/holdpoint >/dev/null
	"${b[@]}" config --arch "$arch" --os linux --user 65532:65532 --env HOLDPOINT_LISTEN=0.0.0.0:8080 --port 8080 --entrypoint '["/holdpoint"]' --cmd serve \
		--label org.opencontainers.image.revision="$commit" --label org.opencontainers.image.licenses=Apache-2.0 "$container"
	"${b[@]}" commit --quiet --format oci --timestamp "$SOURCE_DATE_EPOCH" --rm "$container" "holdpoint:$arch" >/dev/null
	"${b[@]}" push --quiet --digestfile "$at/image-linux-$arch.digest" "holdpoint:$arch" "oci:$tool/layout-$arch:holdpoint" >/dev/null
	# buildah's own archive has the time of now in it: this one has the commit's.
	(cd "$tool/layout-$arch" && find . -type f | sort | tar --create --files-from - --owner 0 --group 0 --numeric-owner --mode a=rX,u+w --mtime "@$SOURCE_DATE_EPOCH") >"$at/image-linux-$arch.tar"
	rm -rf "$tool/layout-$arch"
}

# built DIR builds everything into it.
built() {
	local at=$1 arch name
	mkdir -p "$at"
	for arch in ${arches//,/ }; do
		for name in holdpoint holdpoint-pkcs11; do
			GOARCH=$arch go build -tags nodev -trimpath -buildvcs=true -ldflags '-s -w -buildid=' -o "$at/$name-linux-$arch" "./cmd/$name"
			go version -m "$at/$name-linux-$arch" | grep -q "vcs.revision=$commit" || { echo "the program does not say of which commit it is: build in a clone, not in a worktree" >&2; exit 1; }
			"$tool/cyclonedx-gomod" bin -json -noserial -output "$at/$name-linux-$arch.cdx.json" "$at/$name-linux-$arch" 2>/dev/null
			# Of all that is in it only the time is not the sources'.
			sed -i "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)\"/" "$at/$name-linux-$arch.cdx.json"
		done
		licences "$at/THIRD-PARTY-$arch.txt" "$arch"
		if [ -n "$image" ]; then
			packed "$at" "$arch"
		fi
	done
	(cd "$at" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
}

built "$out"
if [ -n "$twice" ]; then
	# From another directory, and nothing kept of the first time.
	git clone --quiet --no-checkout . "$tool/again"
	git -C "$tool/again" checkout --quiet "$commit"
	(cd "$tool/again" && GOCACHE="$tool/cache" built "$tool/second")
	diff "$out/SHA256SUMS" "$tool/second/SHA256SUMS" || { echo "the second build differs from the first" >&2; exit 1; }
	echo "built twice, the same bytes"
fi
cat "$out/SHA256SUMS"
