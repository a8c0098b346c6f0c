# shellcheck shell=bash disable=SC2154  # sourced by lab/build, which has these variables
# What makes another kernel of the stock one: the arguments of lab/build, their key, and their place in the sources.

readonly own_ccas=net/ipv4/ccmix_own # in the kernel's sources

# read_additions ARGUMENT...: sets name, ccas, patches and configs.
read_additions() {
	ccas=() patches=() configs=()
	while [ $# -gt 0 ]; do
		case $1 in
		--name | --cca | --patch | --config) [ $# -ge 2 ] || usage "$1 needs a value" ;;
		*) usage ;;
		esac
		case $1 in
		--name) name=$2 ;;
		--cca) [ -d "$2" ] || fail "--cca $2: is no folder"; ccas+=("$2") ;;
		--patch) [ -r "$2" ] || fail "--patch $2: can't be read"; patches+=("$2") ;;
		--config) [ -r "$2" ] || fail "--config $2: can't be read"; configs+=("$2") ;;
		esac
		shift 2
	done
	[ -n "$name" ] || usage "--name NAME is missing: topologies ask for the kernel by it"
	[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$ && $name != stock ]] ||
		fail "--name $name: take up to 40 letters, digits, dots, dashes and underscores, but not stock, the kernel of ccmix"
	[ $((${#ccas[@]} + ${#patches[@]} + ${#configs[@]})) -gt 0 ] ||
		usage "--name $name: say by --cca, --patch or --config what is not as in the stock kernel"
	check_ccas
}

# The C files and headers of the folders of --cca, a path a line.
cca_files() {
	local folder
	for folder in "${ccas[@]}"; do
		find -L "$folder" -maxdepth 1 -name '*.[ch]' -type f | sort
	done
}

# cca_of FILE: the CCA of a C file, as its name has it.
cca_of() {
	local cca
	cca=$(basename "$1" .c)
	echo "${cca#tcp_}"
}

check_ccas() {
	local folder file cca seen=' '
	for folder in "${ccas[@]}"; do
		compgen -G "$folder/*.c" >/dev/null || fail "--cca $folder: has no C file"
	done
	while read -r file; do
		[[ $file == *.c ]] || continue
		cca=$(cca_of "$file")
		[[ $cca =~ ^[a-z0-9_]{1,15}$ ]] ||
			fail "$file: is named after no CCA, which has up to 15 small letters, digits and underscores"
		[[ $seen != *" $cca "* ]] || fail "$file: is a second file of the CCA $cca"
		seen+="$cca "
		grep -q tcp_congestion_ops "$file" || fail "$file: has no tcp_congestion_ops"
		grep -qF "\"$cca\"" "$file" || fail "$file: registers no CCA \"$cca\": name the file after its CCA"
	done < <(cca_files)
}

# key_of_additions STOCK_KEY: 16 hex digits of this script, the stock kernel's key, and all that is added.
key_of_additions() {
	local file
	{
		echo "$1"
		cat "$here/additions.sh"
		while read -r file; do
			echo "cca ${file##*/}"
			cat "$file"
		done < <(cca_files)
		for file in "${patches[@]}"; do
			echo "patch"
			cat "$file"
		done
		for file in "${configs[@]}"; do
			echo "config"
			cat "$file"
		done
	} | sha256sum | cut -c1-16
}

# In one line, for people: 'CCA mine; patch fix.patch; config nv.config'.
list_additions() {
	local file line=''
	while read -r file; do
		[[ $file != *.c ]] || line+="; CCA $(cca_of "$file")"
	done < <(cca_files)
	for file in "${patches[@]}"; do line+="; patch ${file##*/}"; done
	for file in "${configs[@]}"; do line+="; config ${file##*/}"; done
	tr -d '"\\[:cntrl:]' <<<"${line#; }"
}

# Hard links to the sources: whatever changes one of them below writes a new file. What make writes is copied.
take_tree() {
	mkdir "$work/source"
	flock --shared "$cache/$stock_key.lock" \
		find "$tree" -mindepth 1 -maxdepth 1 ! -name output -exec cp -al -t "$work/source" {} +
	cp -a "$tree/output" "$work/source/output"
	sed -n 's/^ *"source_\(version\|place\)": "\(.*\)",$/\2/p' "$cache/$stock_key/build.json" | paste -sd ' ' >"$work/fetched"
}

add_to_source() {
	local file cca
	for file in "${patches[@]}"; do
		echo "${file##*/}"
		patch -d "$work/source" -p1 --forward <"$file"
	done
	mkdir "$work/source/$own_ccas"
	while read -r file; do
		cp "$file" "$work/source/$own_ccas/"
		[[ $file == *.c ]] || continue
		cca=$(cca_of "$file")
		if grep -qrx "config $(option_of "$cca")" "$work/source/net/ipv4/" --include=Kconfig; then
			echo "$file: the kernel has a CCA $cca already: take another name, or change that one by --patch"
			return 1
		fi
		echo "obj-y += $(basename "$file" .c).o" >>"$work/source/$own_ccas/Makefile"
		printf 'config %s\n\tbool "%s"\n\tdepends on TCP_CONG_ADVANCED\n' "$(option_of "$cca")" "$cca" \
			>>"$work/source/$own_ccas/Kconfig"
	done < <(cca_files)
	if [ -e "$work/source/$own_ccas/Makefile" ]; then
		sed -i "\$a obj-y += ${own_ccas##*/}/" "$work/source/net/ipv4/Makefile"
		sed -i "\$a source \"$own_ccas/Kconfig\"" "$work/source/net/ipv4/Kconfig"
	fi
}

option_of() { echo "TCP_CONG_${1^^}"; }

# The lines of the kernel's configuration that the additions need. The guest's uname shows the key.
added_options() {
	local file
	echo "CONFIG_LOCALVERSION=\"-ccmix-$key\""
	while read -r file; do
		[[ $file != *.c ]] || echo "CONFIG_$(option_of "$(cca_of "$file")")=y"
	done < <(cca_files)
	[ ${#configs[@]} -eq 0 ] || cat "${configs[@]}"
}

# name_kernel FILE: lets the name mean this kernel from now on.
name_kernel() {
	local folder=${CCMIX_LAB_KERNELS:-$cache/named}
	mkdir -p "$folder"
	ln -sfn "$1" "$folder/$name"
}
