"""Run a command, and end it together with every process that it started. BranchRank runs this file itself.

The arguments are a temporary folder, and the words of the command. Only light modules are imported, so that
it starts fast.

1. The command runs in a session of its own, with an empty standard input.
2. It is ended when a byte arrives in the standard input of this process, or when that is closed, because
   BranchRank has exited, however it did.
3. When it has ended, each process that it has left behind is ended. On Linux, these are all its descendants,
   also those that have left the session: the kernel gives orphans to this process. Elsewhere, they are the
   processes of the session.
4. If BranchRank has exited, the folder is removed. The exit code is that of the command, or as in a shell 128
   plus the number of the signal that ended it, or 127 if it could not be started.
"""

import ctypes
import os
import shutil
import signal
import sys
import threading
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36


def main(folder: str, words: list[str]) -> int:
    """Run the command, and return its exit code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    command = os.fork()
    if not command:
        _become(words)
    gone = threading.Event()
    threading.Thread(target=_end_by_input, args=(command, gone), daemon=True).start()
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == command:
            break
    with suppress(OSError):
        os.killpg(command, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            for child in _children():
                with suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)
    if gone.is_set():
        shutil.rmtree(folder, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(words: list[str]) -> None:
    """Replace this process with the command."""
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python
            signal.signal(number, signal.SIG_DFL)
        os.execvp(words[0], words)  # noqa: S606 - without a shell
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode(errors="replace"))
    finally:
        os._exit(127)


def _end_by_input(command: int, gone: threading.Event) -> None:
    """End the command when the standard input says so, and note whether BranchRank has exited."""
    if not os.read(0, 1):
        gone.set()
    with suppress(OSError):
        os.kill(command, signal.SIGKILL)


def _children() -> list[int]:
    """Return the ids of the processes whose parent is this process.

    The kernel gives orphans to the main thread, which calls this. The other thread has no children, and may
    end at any time.
    """
    with suppress(OSError), open("/proc/thread-self/children") as stream:  # only on Linux
        return [*map(int, stream.read().split())]
    return []


if __name__ == "__main__":
    os._exit(main(sys.argv[1], sys.argv[2:]))
