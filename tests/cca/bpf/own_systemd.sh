#!/usr/bin/env bash
# Run a script under a systemd of its own: process 1 of new namespaces, on a copy of this machine's root file system
# that nobody else sees.
#
#   unshare --mount --pid --fork --kill-child --cgroup --uts --ipc own_systemd.sh FOLDER PROGRAM UNIT...
#
# FOLDER has the file script, and gets what the script prints in its file output; systemd ends with the script's status.
# PROGRAM is there as /usr/sbin/ccmix-cca, and each UNIT is a unit; the others are stubs: nothing else of this machine starts.
set -euo pipefail

folder=$1 program=$2
mount -t tmpfs none /mnt
mkdir /mnt/{upper,work,root}
root=/mnt/root
mount -t overlay none -o "lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work" $root

mkdir $root/{units,former-root}
cp "$program" $root/usr/sbin/ccmix-cca
cp "$folder/script" "${@:3}" $root/units
for target in sysinit basic shutdown network-online; do
	printf '[Unit]\nDefaultDependencies=no\n' >$root/units/$target.target
done
cat >$root/units/script.service <<END
[Unit]
DefaultDependencies=no
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/bin/bash -ex /units/script
StandardOutput=append:/units/output
StandardError=inherit
END
touch "$folder/output" $root/units/output
mount --bind "$folder/output" $root/units/output

mount -t proc proc $root/proc
mount -t sysfs sysfs $root/sys
mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
for place in run tmp dev; do
	mount -t tmpfs -o mode=755 none $root/$place
done
mkdir $root/dev/{pts,shm,mqueue}
for device in null zero full random urandom tty; do
	touch $root/dev/$device
	mount --bind /dev/$device $root/dev/$device
done
mount -t devpts -o newinstance devpts $root/dev/pts
ln -s pts/ptmx $root/dev/ptmx

cd $root
pivot_root . former-root
umount --lazy /former-root
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_UNIT_PATH=/units \
	/lib/systemd/systemd --unit=script.service --log-target=null --show-status=false
