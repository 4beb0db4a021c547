"""Take rights away from the process itself: files, system calls, memory, capabilities.

Runs inside the sandbox. A student's process can't make another process: so its own limits are the
limits of everything that it runs, for root too.
"""

import contextlib
import ctypes
import errno
import os
import resource
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_CAPABILITY_VERSION: Final = 0x20080522
_CLONE_THREAD: Final = 0x10000
_NOBODY: Final = 65534

#: what no program for a course needs, and a way out or a way to outlive the sandbox does
_DENIED: Final = (
    *("fork", "vfork", "execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev"),
    *("pidfd_open", "pidfd_getfd", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo"),
    *("tkill", "socket", "connect", "bind", "listen", "accept", "accept4"),
    *("shmget", "shmat", "semget", "msgget", "mq_open", "memfd_create", "memfd_secret"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "perf_event_open"),
    *("bpf", "keyctl", "add_key", "request_key", "mount", "umount2", "pivot_root", "chroot"),
    *("unshare", "setns", "move_mount", "open_tree", "fsopen", "fsmount", "fspick"),
    *("name_to_handle_at", "open_by_handle_at", "init_module", "finit_module", "delete_module"),
    *("kexec_load", "reboot", "swapon", "swapoff", "sethostname", "setdomainname", "mknod"),
    *("mknodat", "personality", "quotactl", "acct", "settimeofday", "clock_settime", "adjtimex"),
)

_libc: Final = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Be killed when the process that started this one is gone."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def hide_memory() -> None:
    """Let no process of the same user read this one's memory and environment."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def drop_root(readable: Iterable[str]) -> bool:
    """Become ``nobody`` if root, and if nobody can read these paths; True if that was done."""
    if os.geteuid() != 0:
        return False
    os.setegid(_NOBODY)
    os.seteuid(_NOBODY)
    works = all(os.access(path, os.R_OK, effective_ids=True) for path in readable)
    os.seteuid(0)
    os.setegid(0)
    if not works:
        return False
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    return True


def drop_capabilities() -> None:
    """Give up all of root's powers, for good: limits hold then."""
    for number in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _libc.capset(header, (ctypes.c_uint32 * 6)())
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def only_these_files(readable: Iterable[str], writable: str) -> None:
    """Landlock: no other file can be opened, no TCP port be bound or reached."""
    from landlockpy import AccessFS, Ruleset, Scope

    read = AccessFS.READ_FILE | AccessFS.READ_DIR
    with Ruleset(scoped=Scope.SIGNAL | Scope.ABSTRACT_UNIX_SOCKET) as rules:
        for path in readable:
            if os.path.exists(path):
                rules.allow_path(path, read if os.path.isdir(path) else AccessFS.READ_FILE)
        rules.allow_path("/dev/null", AccessFS.READ_FILE | AccessFS.WRITE_FILE)
        everything = AccessFS(0)
        for right in AccessFS:
            if right != AccessFS.EXECUTE:
                everything |= right
        rules.allow_path(writable, everything)
        rules.restrict()


def limit(present: int, memory: int, files: int, seconds: float) -> None:
    """Limit memory (B, on top of what is ``present``), a file's size (B) and CPU time (s)."""
    for kind, value in (
        (resource.RLIMIT_AS, present + memory),
        (resource.RLIMIT_FSIZE, files),
        (resource.RLIMIT_CPU, int(seconds) + 5),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


def forbid_calls() -> None:
    """Seccomp: the calls of `_DENIED` fail with EPERM, and signals reach this process only."""
    import pyseccomp as seccomp  # type: ignore[import-not-found,import-untyped,unused-ignore]

    refuse: Any = seccomp.ERRNO(errno.EPERM)
    own = os.getpid()
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    for name in _DENIED:
        try:
            rules.add_rule(refuse, name)
        except (ValueError, OSError):  # this machine has no such call
            continue
    # Threads need it; where it is missing the C library takes clone, whose flags can be seen.
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))
    for name in ("kill", "tgkill"):
        rules.add_rule(refuse, name, seccomp.Arg(0, seccomp.NE, own))
    for owner in (8, 10, 15):  # F_SETOWN, F_SETSIG, F_SETOWN_EX: signals by way of a file
        rules.add_rule(refuse, "fcntl", seccomp.Arg(1, seccomp.EQ, owner))
    rules.load()


#: how a process ends that wrote too much, and what is said about it
FILLED_CODE: Final = 77
FILLED: Final = "it filled its scratch folder"
_MOST_FILES: Final = 10_000
_ROUNDING: Final = 1 << 16


def overfull(folder: Path, bound: int) -> bool:
    """True if there are too many files below ``folder``, or more than ``bound`` bytes."""
    size = count = 0
    waiting = [str(folder)]
    until = time.monotonic() + 0.5
    while waiting and time.monotonic() < until:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                count += 1
                with contextlib.suppress(OSError):
                    size += 512 * entry.stat(follow_symlinks=False).st_blocks
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                if count > _MOST_FILES:
                    return True
    return size > bound + _ROUNDING
