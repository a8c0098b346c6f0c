# shellcheck shell=bash
# Sourced by the builds of what consists of Debian's packages. Each has a packages.lock, which tools/packages-lock writes:
# a line is a package's name, version, SHA-256, and where it lies on every Debian mirror.

# fetch_packages LOCK FOLDER: leaves each package of the lock as FOLDER/NAME.deb, from the machine's Debian mirror. Fails if
# the mirror does not have all of them by their hashes, and leaves out those.
fetch_packages() {
	local mirror name sha256 path wanted=() status=0
	mirror=$("$(dirname "${BASH_SOURCE[0]}")/debian-mirror") || return 1
	mkdir -p "$2"
	while read -r name _ sha256 path; do
		wanted+=("$mirror/$path" "$2/$name.deb" "SHA256:$sha256")
	done <"$1"
	/usr/lib/apt/apt-helper -o "APT::Sandbox::User=$(id -un)" -o Acquire::Retries=3 download-file "${wanted[@]}" || true
	while read -r name _ sha256 path; do
		if ! echo "$sha256  $2/$name.deb" | sha256sum --check --quiet -; then
			rm -f "$2/$name.deb"
			status=1
		fi
	done <"$1"
	return $status
}

# unpack_packages FOLDER ROOT: unpacks the packages in the folder into ROOT, and runs none of their scripts.
unpack_packages() {
	local package
	mkdir -p "$2"
	for package in "$1"/*.deb; do
		dpkg-deb -x "$package" "$2"
	done
}

# keep_terms ROOT FOLDER NAME...: copies the terms of packages, which must go with them if they are passed on.
keep_terms() {
	local from=$1 into=$2 name
	shift 2
	mkdir -p "$into"
	for name in "$@"; do
		cp -L "$from/usr/share/doc/$name/copyright" "$into/$name" || return 1
		chmod 644 "$into/$name"
	done
}

# describe_packages LOCK FOLDER: prints as JSON what the packages of the lock that lie in the folder are.
describe_packages() {
	local name comma='' fields='"name": "${Package}", "version": "${Version}"'
	local sources='"source": "${source:Package}", "source_version": "${source:Version}"'
	printf '['
	while read -r name _; do
		printf '%s\n    {' "$comma"
		dpkg-deb --show --showformat="$fields" "$2/$name.deb"
		printf ', "sha256": "%s", ' "$(sha256sum <"$2/$name.deb" | cut -d' ' -f1)"
		dpkg-deb --show --showformat="$sources" "$2/$name.deb"
		printf '}'
		comma=,
	done <"$1"
	printf '\n  ]'
}
