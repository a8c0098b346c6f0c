#!/bin/bash
# Runs inside an emulated machine: cubic, bbr2 and bbr3 send over 5 Mbit/s and 20 ms. Prints what iperf3 and ccmix-cca say.
#
#   emulated.sh LOADER
set -euo pipefail

loader=$1
"$loader" check >&2
for module in veth sch_netem; do
	/run/modprobe "$module"
done
for side in 1 2; do
	ip netns add "n$side"
done
ip link add v netns n1 type veth peer name v netns n2
for side in 1 2; do
	ip -n "n$side" addr add "10.0.0.$side/24" dev v
	ip -n "n$side" link set v up
	ip -n "n$side" link set lo up
done
tc -n n1 qdisc add dev v root netem delay 20ms rate 5mbit limit 50
ip netns exec n2 iperf3 -s -D
sleep 3
for cca in cubic bbr2 bbr3; do
	[ "$cca" = cubic ] || "$loader" load "$cca"
	ip netns exec n1 iperf3 -c 10.0.0.2 -C "$cca" -t 20 --json >"$TMPDIR/$cca" &
	sleep 8
	"$loader" status --json | tr -d '\n'
	echo
	wait $!
	tr -d '\n' <"$TMPDIR/$cca"
	echo
	[ "$cca" = cubic ] || "$loader" unload "$cca"
done
uname -r
