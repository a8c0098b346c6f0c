#!/bin/bash
# Runs inside an emulated machine: the module and the BPF programs of bbr2 and bbr3 send over the same path in turn.
# Prints two lines a flow: path, round, congestion control, kind, and the processor's idle share; and what iperf3 says.
#
#   agreement.sh LOADER MODULES ROUNDS SECONDS
#
# MODULES has a folder for each kernel's release. Exit status 77: none for this kernel.
set -euo pipefail

loader=$1 modules=$2/$(uname -r) rounds=$3 seconds=$4
readonly paths=("small buffer" "1% loss")
declare -rA queues=(	# of the router; a limit includes what is in the delay, about 8 packets
	[${paths[0]}]="rate 5mbit delay 20ms limit 13"
	[${paths[1]}]="rate 5mbit delay 20ms limit 40 loss 1%"
)

[ -d "$modules" ] || { echo "no modules for $(uname -r)" >&2; exit 77; }
for module in veth sch_netem; do
	/run/modprobe "$module"
done
# A router between sender and receiver has the queue: TCP would notice a drop in the sender's own, and lose nothing.
for name in sender router receiver; do
	ip netns add "$name"
	ip -n "$name" link set lo up
done
ip netns exec router sysctl -qw net.ipv4.ip_forward=1
# connect END NETWORK: a link from there to the router
connect() {
	ip link add v netns "$1" type veth peer name "$1" netns router
	ip -n "$1" addr add "10.0.$2.2/24" dev v
	ip -n router addr add "10.0.$2.1/24" dev "$1"
	ip -n "$1" link set v up gso_max_segs 1
	ip -n router link set "$1" up
	ip -n "$1" route add default via "10.0.$2.1"
}
connect sender 1
connect receiver 2
tc -n receiver qdisc add dev v root netem delay 20ms
ip netns exec receiver iperf3 -s -D
sleep 3

load() {
	case $1 in
	module) /run/insmod "$modules/tcp_$2.ko" ;;
	BPF) "$loader" load "$2" ;;
	esac
}

# A socket that is being closed still uses its congestion control.
unload() {
	for _ in {1..20}; do
		case $1 in
		module) /run/rmmod "tcp_$2" && return ;;
		BPF) "$loader" unload "$2" && return ;;
		esac
		sleep 1
	done
	return 1
}

# Ticks of the processor, and those of them at rest.
ticks() { awk '/^cpu / { for (i = 2; i <= 8; i++) sum += $i; print sum, $5 }' /proc/stat; }

# flow PATH ROUND CCA KIND
flow() {
	load "$4" "$3"
	read -r all idle < <(ticks)
	ip netns exec sender iperf3 -c 10.0.2.2 -C "$3" -t "$seconds" -i 0.5 --json >"$TMPDIR/result"
	read -r all_after idle_after < <(ticks)
	unload "$4" "$3"
	echo "$1|$2|$3|$4|$((100 * (idle_after - idle) / (all_after - all)))"
	tr -d '\n' <"$TMPDIR/result"
	echo
}

for ((round = 1; round <= rounds; round++)); do
	for path in "${paths[@]}"; do
		# shellcheck disable=SC2086  # the options are words
		tc -n router qdisc replace dev receiver root netem ${queues[$path]}
		for cca in bbr2 bbr3; do
			flow "$path" "$round" "$cca" module
			flow "$path" "$round" "$cca" BPF
		done
	done
done
uname -r
