# shellcheck shell=bash
# Sourced by the build scripts: where built things are kept, the key that says what they were built from, and the compiler.

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
		[ -z "${pinned_compiler-}" ] || toolchain_key
		for file in "$@"; do
			printf '%s\n' "${file#"$root"/}"
			cat "$file"
		done
	} | sha256sum | cut -c1-16
}

# The key of the pinned compiler in the cache.
toolchain_key() {
	(cd "$(dirname "${BASH_SOURCE[0]}")" && cat toolchain/build toolchain/packages.lock packages.sh) | sha256sum | cut -c1-16
}

# use_pinned_compiler: puts the pinned compiler and its tools (tools/toolchain) first on PATH, and sets pinned_compiler to
# their folder; if they are not available, warns, and leaves the machine's. CCMIX_COMPILER=host asks for the machine's.
use_pinned_compiler() {
	pinned_compiler=''
	if [ "${CCMIX_COMPILER-}" != host ]; then
		if pinned_compiler=$("$(dirname "${BASH_SOURCE[0]}")/toolchain/build"); then
			PATH=$pinned_compiler:$PATH
			exec {compiler_lock}<"${pinned_compiler%/root/*}"
			flock --shared "$compiler_lock" || true # until the build ends, against 'ccmix cache prune --all'
			return
		fi
		echo "WARNING: the pinned compiler is not available, so the machine's is used: numbers may differ from other machines'" >&2
	fi
	command -v gcc >/dev/null || { echo "gcc is missing: install the package gcc" >&2; return 1; }
}
