"""Become the right user, wait until the parent has noted our pid, tie our life to the parent's, and exec a server.

Run as a script (`python -I -S launch.py LENGTH ORDER... PROGRAM...`), because none of this may be done safely between
the fork and the exec of a Python parent. The process id stays the same through the exec. It imports little: a start
launches some ten programs, and each module more takes longer than what the launcher does. All of it is imported first:
another account may not reach the library, so UTF-8 is
the encoding of what it writes: others would be imported.
"""

import ctypes
import os
import sys

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Exec what follows the order, whose parts are the parameters of `process.LaunchOrder`; what is empty is not so."""
    length = int(sys.argv[1])
    gate, parent, death_signal, mapped_to, user, group, *must_reach = sys.argv[2 : 2 + length]
    program = sys.argv[2 + length :]
    if mapped_to:
        map_root_to(int(mapped_to))
    elif user:
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))
    unreachable = [path for path in must_reach if not os.access(path, os.X_OK)]
    if unreachable:
        sys.exit(f"cannot reach {unreachable[0]}")
    # After the change of user: a change of credentials clears it.
    if int(death_signal) and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != int(parent):
            sys.exit("the parent has gone")
    if gate:
        if os.read(int(gate), 1) != b"g":
            sys.exit("the parent has gone")
        os.close(int(gate))
    os.execv(program[0], program)  # noqa: S606 - the whole purpose


def map_root_to(user: int) -> None:
    """Enter a user namespace where this user and group are called `user`: PostgreSQL refuses to be called 0."""
    outside_user, outside_group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        sys.exit(f"no user namespace: {os.strerror(ctypes.get_errno())}")
    maps = {"setgroups": "deny", "uid_map": f"{user} {outside_user} 1", "gid_map": f"{user} {outside_group} 1"}
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes 15 ms
            file.write(text)


if __name__ == "__main__":
    main()
