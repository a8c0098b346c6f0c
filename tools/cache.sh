# shellcheck shell=bash
# Sourced by the build scripts: where built things are kept, and the key that says what they were built from.

# The folder for what is built, outside the repository, shared by every clone of it.
ccmix_cache() {
	echo "${CCMIX_CACHE:-${XDG_CACHE_HOME:-${HOME:?is not set, and neither is CCMIX_CACHE}/.cache}/ccmix}"
}

# cache_key FILE...: 16 hex digits of the content of the files, and of their names below the repository's root, so that
# two clones share a key. The compiler and the processor's architecture count too.
cache_key() {
	local root file
	root=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel 2>/dev/null) ||
		root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
	{
		gcc -dumpfullversion -dumpmachine
		for file in "$@"; do
			printf '%s\n' "${file#"$root"/}"
			cat "$file"
		done
	} | sha256sum | cut -c1-16
}
