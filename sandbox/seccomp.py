"""The system calls that a sandboxed process may not make, as a seccomp filter (classic BPF) for bubblewrap.

Allowed by default, refused by list: what makes namespaces and mounts, looks into other processes, loads code into the
kernel, or has a long record of kernel bugs. Sockets: UNIX, IPv4, IPv6 and routing netlink only; a network namespace
does not cover AF_VSOCK, which leads from a virtual machine to its host. Numbers: Linux's syscall tables; actions and
the layout of ``seccomp_data``: seccomp(2).
"""

from __future__ import annotations

import errno
import functools
import platform
import struct

_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06  # BPF_LD|W|ABS, JMP|JEQ|K, JMP|JSET|K, RET|K
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16  # offsets in seccomp_data; arguments are 64 bits, low half first
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000

#: CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
_NEW_NAMESPACES = 0x7E020000
_X32 = 0x40000000
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16

#: audit architecture, then the numbers of each refused call; None: the architecture does not have it
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "syslog": (103, 116),
    "uselib": (134, None),
    "vhangup": (153, 58),
    "modify_ldt": (154, None),
    "pivot_root": (155, 41),
    "adjtimex": (159, 171),
    "chroot": (161, 51),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "mount": (165, 40),
    "umount2": (166, 39),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "quotactl": (179, 60),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    "clock_settime": (227, 112),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "migrate_pages": (256, 238),
    "unshare": (272, 97),
    "move_pages": (279, 239),
    "perf_event_open": (298, 241),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "clock_adjtime": (305, 266),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "finit_module": (313, 273),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "pidfd_getfd": (438, 438),
    "mount_setattr": (442, 442),
    "quotactl_fd": (443, 443),
    "open_tree_attr": (467, 467),
}
_CLONE, _CLONE3, _SOCKET, _SOCKETPAIR, _IOCTL = (56, 220), (435, 435), (41, 198), (53, 199), (16, 29)


def supported() -> bool:
    """Whether there is a filter for this machine's architecture (64-bit x86 and ARM)."""
    return platform.machine() in _ARCHITECTURES and struct.calcsize("P") == 8


@functools.cache
def program() -> bytes:
    """The filter for this machine, as an array of ``struct sock_filter``. Raises KeyError where unsupported."""
    machine = platform.machine()
    column = list(_ARCHITECTURES).index(machine)
    code = [
        _op(_LOAD, _ARCH),
        _op(_JUMP_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _op(_RETURN, _KILL),  # 32-bit calls
        _op(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        code += [_op(_JUMP_SET, _X32, 0, 1), _error(errno.ENOSYS)]
    code += _when(_CLONE3[column], [_error(errno.ENOSYS)])  # its flags are in memory; the C library falls back to clone
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            code += _when(number, [_error(errno.EPERM)])
    code += _when(
        _CLONE[column],
        [_argument(0), _op(_JUMP_SET, _NEW_NAMESPACES, 0, 1), _error(errno.EPERM), _op(_RETURN, _ALLOW)],
    )
    code += _when(_IOCTL[column], _refuse_values(1, _TERMINAL_INJECTION))
    families = [_op(_JUMP_EQUAL, family, 0, 1) + _op(_RETURN, _ALLOW) for family in (_UNIX, _INET, _INET6)]
    routing = [_op(_JUMP_EQUAL, _NETLINK, 0, 3), _argument(2), _op(_JUMP_EQUAL, 0, 0, 1), _op(_RETURN, _ALLOW)]
    sockets = [_argument(0), *(half for pair in families for half in (pair[:8], pair[8:])), *routing]
    for number in (_SOCKET[column], _SOCKETPAIR[column]):
        code += _when(number, [*sockets, _error(errno.EAFNOSUPPORT)])
    return b"".join([*code, _op(_RETURN, _ALLOW)])


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _error(number: int) -> bytes:
    return _op(_RETURN, _ERROR | number)


def _argument(index: int) -> bytes:
    return _op(_LOAD, _ARGUMENT + 8 * index)


def _when(number: int, block: list[bytes]) -> list[bytes]:
    """``block``, which must return, only for the call ``number``; the accumulator holds the call's number."""
    return [_op(_JUMP_EQUAL, number, 0, len(block)), *block]


def _refuse_values(index: int, values: tuple[int, ...]) -> list[bytes]:
    """EPERM where the low half of an argument is one of ``values``."""
    code = [_argument(index)]
    for value in values:
        code += [_op(_JUMP_EQUAL, value, 0, 1), _error(errno.EPERM)]
    return [*code, _op(_RETURN, _ALLOW)]
