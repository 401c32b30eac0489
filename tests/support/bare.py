"""A machine that has only some programs.

``python -m support.bare COMMAND`` runs a command with Python, make, sh and coreutils, no writable home,
and in the locale C.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

#: Python, make, sh and coreutils.
PROGRAMS = """
make python3 sh [ b2sum base32 base64 basename basenc cat chgrp chmod chown chroot cksum comm cp csplit cut
date dd df dir dirname du echo env expand expr factor false fmt fold groups head hostid id install join link
ln logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pr printenv
printf ptx pwd readlink realpath rm rmdir seq sha1sum sha256sum sha512sum shred shuf sleep sort split stat
stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink
users vdir wc who whoami yes
"""


def only(folder: Path, programs: Iterable[str]) -> str:
    """Return a ``PATH`` with these programs alone, as links in ``folder``; ``python3`` is this process's."""
    folder.mkdir(parents=True)
    base = os.path.realpath(sys.executable)
    for name in programs:
        if path := base if name == "python3" else shutil.which(name):
            (folder / name).symlink_to(path)
    return str(folder)


def without(folder: Path, program: str) -> str:
    """Return a ``PATH`` with every program of this one but ``program``."""
    names = {
        path.name for place in os.get_exec_path() if os.path.isdir(place) for path in Path(place).iterdir()
    }
    return only(folder, names - {program})


#: What ``make`` tells a ``make`` that it starts, which then says which folder it leaves.
OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")


def variables(folder: Path) -> dict[str, str]:
    """The environment of a machine with nothing but ``PROGRAMS``; its home can't be created."""
    own = {"CI", "LANG", "PYTHONPATH", "VIRTUAL_ENV", *OF_MAKE}
    kept = {name: value for name, value in os.environ.items() if name not in own}
    (folder / "file").touch()
    return {
        **kept,
        "PATH": only(folder / "bin", PROGRAMS.split()),
        "HOME": str(folder / "file" / "home"),
        "LC_ALL": "C",
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(subprocess.run(sys.argv[1:], env=variables(Path(folder)), check=False).returncode)
