"""Become the right user, wait until the parent has noted our pid, tie our life to the parent's, and exec a server.

Run as a script (`python -I -S launch.py JSON`), because none of this may be done safely between the fork and the exec
of a Python parent. The process id stays the same through the exec.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Exec argv of the order in argv[1], a JSON object; its keys are the parameters of `process.LaunchOrder`."""
    order = json.loads(sys.argv[1])
    if order["mapped_to"] is not None:
        map_root_to(order["mapped_to"])
    elif order["account"] is not None:
        os.setgroups([])
        os.setgid(order["account"][1])
        os.setuid(order["account"][0])
    unreachable = [path for path in order["must_reach"] if not os.access(path, os.X_OK)]
    if unreachable:
        sys.exit(f"cannot reach {unreachable[0]}")
    # After the change of user: a change of credentials clears it.
    if order["death_signal"] and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, order["death_signal"], 0, 0, 0)
        if os.getppid() != order["parent"]:
            sys.exit("the parent has gone")
    if order["gate"] is not None:
        if os.read(order["gate"], 1) != b"g":
            sys.exit("the parent has gone")
        os.close(order["gate"])
    os.execv(order["argv"][0], order["argv"])  # noqa: S606 - the whole purpose


def map_root_to(user: int) -> None:
    """Enter a user namespace where this user and group are called `user`: PostgreSQL refuses to be called 0."""
    outside_user, outside_group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        sys.exit(f"no user namespace: {os.strerror(ctypes.get_errno())}")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {outside_user} 1")
    Path("/proc/self/gid_map").write_text(f"{user} {outside_group} 1")


if __name__ == "__main__":
    main()
