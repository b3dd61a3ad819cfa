"""The system calls that a container's processes may not make: everything is allowed but what is named here.

Docker's own default profile allows AF_VSOCK sockets, io_uring and ptrace (seen with 20.10), and a virtual machine's
host is reachable by AF_VSOCK whatever the network namespace. Names, not numbers: it holds for every machine type.
"""

from __future__ import annotations

import errno
import json
from typing import Any

#: refused with EPERM: escape helpers, kernel surfaces that software tasks do not need, and what needs a capability
_DENIED = """
acct add_key adjtimex bpf clock_adjtime clock_adjtime64 clock_settime clock_settime64 create_module delete_module
fanotify_init finit_module fsconfig fsmount fsopen fspick get_kernel_syms init_module io_uring_enter io_uring_register
io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mknod mknodat mount mount_setattr
move_mount move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open pivot_root
process_madvise process_mrelease process_vm_readv process_vm_writev ptrace query_module quotactl quotactl_fd reboot
request_key sethostname setdomainname setns settimeofday stime swapoff swapon sysfs syslog _sysctl umount umount2
unshare uselib userfaultfd ustat vhangup vm86 vm86old vmsplice chroot pidfd_getfd
"""

#: bits of clone(2) that make a namespace: time, mount, cgroup, uts, ipc, user, pid, net
_NAMESPACES = (0x80, 0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)

#: socket families that stay: AF_UNIX 1, AF_INET 2, AF_INET6 10, AF_NETLINK 16
_FAMILIES = (1, 2, 10, 16)

#: terminal ioctls that type into another process's terminal: TIOCSTI, TIOCLINUX
_TYPING = (0x5412, 0x541C)


def _rule(names: list[str], error: int = errno.EPERM, **compare: Any) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error}
    if compare:
        rule["args"] = [compare]
    return rule


def _socket_rules() -> list[dict[str, Any]]:
    """Only the families that stay, and of AF_NETLINK only routing (protocol 0): not audit, netfilter, crypto..."""
    rules = [
        _rule(["socket"], index=0, value=number, op="SCMP_CMP_EQ")
        for number in range(max(_FAMILIES))
        if number not in _FAMILIES
    ]
    rules.append(_rule(["socket"], index=0, value=max(_FAMILIES), op="SCMP_CMP_GT"))
    netlink = {"index": 0, "value": max(_FAMILIES), "op": "SCMP_CMP_EQ"}
    return [*rules, {**_rule(["socket"]), "args": [netlink, {"index": 2, "value": 0, "op": "SCMP_CMP_NE"}]}]


def _fifo_only() -> list[dict[str, Any]]:
    """mknod stays for FIFOs, which need no capability: block and character devices are refused by their file type."""
    kinds = (0x2000, 0x6000)  # S_IFCHR, S_IFBLK
    return [
        _rule([name], index=index, value=0xF000, valueTwo=kind, op="SCMP_CMP_MASKED_EQ")
        for name, index in (("mknod", 1), ("mknodat", 2))
        for kind in kinds
    ]


def profile() -> str:
    """The profile as the JSON text that goes behind ``seccomp=`` in a container's security options.

    ``clone3`` hides its flags behind a pointer; ENOSYS makes every C library fall back to ``clone``, whose flags are
    checked.
    """
    rules = [_rule([name for name in _DENIED.split() if name not in ("mknod", "mknodat")])]
    rules += _fifo_only()
    rules.append(_rule(["clone3"], errno.ENOSYS))
    # 0x80 is CLONE_NEWTIME only for clone3 and unshare; in clone it lies in the exit signal's byte
    rules += [
        _rule(["clone"], index=0, value=bit, valueTwo=bit, op="SCMP_CMP_MASKED_EQ") for bit in _NAMESPACES if bit > 0xFF
    ]
    rules += _socket_rules()
    rules += [
        _rule(["ioctl"], index=1, value=0xFFFFFFFF, valueTwo=request, op="SCMP_CMP_MASKED_EQ") for request in _TYPING
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})
