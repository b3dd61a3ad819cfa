"""What a container is made of: its settings, its first process, and the shell around every command.

The first process is a bash that waits for the end of its input. As process 1 it fetches all orphans; a signal from
inside cannot kill it; on SIGUSR1, which the engine sends without starting any process, it kills all others, even when a
fork bomb holds every process number. Its input is a connection that the sandbox's process holds: when that process is
gone, however it went, the container ends and the engine removes it. Commands run as another user and cannot signal it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.sandbox.base import MIB, Limits
from agentgym.sandbox.docker_backend import seccomp

LABEL = "agentgym.sandbox"

#: A plain ``read``: with a time limit (-t) bash does not fetch orphans while it waits. Status 1 is the end of its input
GUARD = r"""
trap 'kill -9 -1' USR1
trap 'exit 0' TERM INT
while :; do
  read -r _
  (( $? == 1 )) && exit 0
done
"""

_KILLS = r"""
kills() {
  local file key value
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [[ -r $file ]] && while read -r key value; do [[ $key == oom_kill ]] && { REPLY=$value; return; }; done < "$file"
  done
  REPLY=0
}
"""

#: $1 command, $2 folder, $3 longest file in KiB, $4 bytes of stdin or "", $5 names in /tmp that stay.
#: stdout: all that the command writes. stderr: "agentgym CODE OOM_KILLS" as the last line, unless we were killed.
#: Empties what outlives a process, and kills what outlives the command.
WRAPPER = (
    _KILLS
    + r"""
shopt -s nullglob dotglob
litter=
for path in /tmp/* /dev/shm/* /dev/mqueue/*; do
  [[ $5 == *"/${path##*/}/"* ]] || { litter=1; break; }
done
if [[ $litter ]]; then
  for path in /tmp/* /dev/shm/* /dev/mqueue/*; do
    [[ $5 == *"/${path##*/}/"* ]] || printf '%s\0' "$path"
  done | PATH=/usr/bin:/bin xargs -0 -n 500 sh -c \
    'rm -rf -- "$@" || { find "$@" -type d -exec chmod u+rwx {} \; ; rm -rf -- "$@"; }' sh >/dev/null 2>&1
fi
cd -- "$2" 2>&1 && unset OLDPWD || { kills; echo "agentgym 126 $REPLY" >&2; exit 126; }
ulimit -c 0 -f "$3"
if [[ $4 ]]; then
  /bin/bash -c "$1" 2>&1 < <(exec head -c "$4")
else
  /bin/bash -c "$1" 2>&1 </dev/null
fi
code=$?
kill -9 -1
kills
echo "agentgym $code $REPLY" >&2
exit $code
"""
)

#: Says how many processes the memory limit has killed so far, and waits to be killed itself
CANARY = _KILLS + 'kills; exec {idle}<> <(:); echo "$REPLY"; read -r -u $idle _\n'

#: the engine's own list, and what else tells of the host
_MASKED = """
/proc/acpi /proc/asound /proc/cmdline /proc/config.gz /proc/interrupts /proc/iomem /proc/ioports /proc/kallsyms
/proc/kcore /proc/keys /proc/key-users /proc/kmsg /proc/kpagecount /proc/kpageflags /proc/latency_stats /proc/modules
/proc/partitions /proc/diskstats /proc/sched_debug /proc/scsi /proc/slabinfo /proc/sysrq-trigger /proc/timer_list
/proc/timer_stats /proc/vmallocinfo /sys/class/dmi /sys/devices/virtual/dmi /sys/devices/virtual/powercap /sys/firmware
/sys/kernel /sys/module
"""


def memory(limits: Limits) -> dict[str, int]:
    """The settings that can be changed while a container runs, as the engine's API names them.

    Two processes more than a command's: the first process and the shell around the command.
    """
    return {
        "Memory": limits.memory,
        "MemorySwap": limits.memory,
        "PidsLimit": limits.pids + 2,
        "CpuPeriod": 100_000,
        "CpuQuota": max(1_000, round(limits.cpus * 100_000)),
    }


def host_config(
    api: Any,
    limits: Limits,
    *,
    read_only: bool,
    mounts: list[Any],
    tmpfs: Mapping[str, str],
    capabilities: list[str],
    runtime: str | None,
) -> dict[str, Any]:
    """The hardened settings, the same for all images."""
    settings: dict[str, Any] = api.create_host_config(
        auto_remove=True,
        network_mode="none",
        dns=["127.0.0.1"],  # else /etc/resolv.conf is the host's
        dns_search=["."],
        ipc_mode="private",
        sysctls={"kernel.shm_rmid_forced": "1"},  # System V shared memory goes with its last process
        cgroupns="private",
        cap_drop=["ALL"],
        cap_add=capabilities,
        security_opt=["no-new-privileges", f"seccomp={seccomp.profile()}"],
        read_only=read_only,
        mounts=mounts,
        tmpfs=dict(tmpfs),
        shm_size=min(16 * MIB, limits.tmp),
        log_config={"Type": "none", "Config": {}},
        ulimits=[
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": 4096, "Hard": 4096},
            {"Name": "memlock", "Soft": 65536, "Hard": 65536},
            {"Name": "msgqueue", "Soft": 0, "Hard": 0},
        ],
        oom_score_adj=500,
        runtime=runtime,
    )
    settings.update(memory(limits))
    settings["MaskedPaths"] = _MASKED.split()
    return settings


def tmpfs_option(size: int, mode: str, owner: str = "") -> str:
    """Options of a memory-backed folder. The number of files is bounded too: each costs kernel memory."""
    files = max(1024, min(size // 2048, 200_000))
    return f"rw,exec,nosuid,nodev,size={size},nr_inodes={files},mode={mode}{owner}"
