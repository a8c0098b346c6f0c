#!/bin/bash
# Runs inside an emulated machine: the tests of values by BPF, on the kernel there.
#
#   sockmon_bpf_emulated.sh PYTHON SOCKMON CCA
set -euo pipefail

python=$1
export CCMIX_SOCKMON=$2 CCMIX_CCA=$3 PYTHONDONTWRITEBYTECODE=1
for module in veth sch_tbf tcp_bbr tcp_diag; do
	/run/modprobe "$module"
done
ip link set lo up
uname -r
cd "${0%/*}/../.."
# no limit: the machine's own clock runs much faster than the real one
exec "$python" -m pytest -p no:cacheprovider -n 0 -q --timeout 0 --basetemp="$TMPDIR/tests" -m "not long" \
	tests/probes/test_sockmon_bpf.py
