"""Runs a command as an ordinary user in a chroot, in this network and mount namespace, without a
network.

    in_chroot.py ROOT USER FROM:TO[,FROM:TO...] COMMAND [ARGUMENT...]

Folders FROM of this machine are at TO in the chroot, read-only.
"""

import os
import subprocess
import sys
from pathlib import Path

root, user, folders, *argv = sys.argv[1:]
subprocess.run(["mount", "--rbind", "/proc", f"{root}/proc"], check=True)
# Devices of its own: those of a machine in a container may not be for every user
subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{root}/dev"], check=True)
for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
    os.mknod(f"{root}/dev/{name}", 0o020000, os.makedev(1, minor))
    Path(f"{root}/dev/{name}").chmod(0o666)
Path(f"{root}/dev/fd").symlink_to("/proc/self/fd")
Path(f"{root}/dev/shm").mkdir()
Path(f"{root}/dev/shm").chmod(0o1777)
for pair in filter(None, folders.split(",")):
    outside, inside = pair.split(":")
    place = Path(f"{root}{inside}")
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", outside, place], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
environment = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": f"/home/{user}",
    "USER": user,
    "LC_ALL": "C.UTF-8",
}
os.chdir(root)
os.execve("/usr/sbin/chroot", ["chroot", f"--userspec={user}:{user}", root, *argv], environment)
