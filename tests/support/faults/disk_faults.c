/* Faults of a disk, injected below the C library's callers: LD_PRELOAD this library, then call faults_arm().
 *
 * Every call that changes a file below a folder is an operation, numbered from 1. Each is logged as a line
 * "NUMBER NAME PATH". At the chosen one the fault happens:
 *
 *   1 kill     the process ends by SIGKILL before the operation
 *   2 torn     half of a write is done, then SIGKILL; other operations as "kill"
 *   3 enospc   this and every later operation that needs space fails with ENOSPC
 *   4 eio      this operation fails with EIO
 *   5 short    a write does half of its bytes; other operations happen as asked
 *   6 sigint   the process gets SIGINT, then the operation happens
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum fault { NONE, KILL, TORN, ENOSPC_, EIO_, SHORT_, SIGINT_ };

static char root[PATH_MAX];
static size_t root_length;
static atomic_long operations;
static long chosen;
static enum fault fault;
static int log_descriptor = -1;
static atomic_int full;

#define REAL(name) (__typeof__(&name)) dlsym(RTLD_NEXT, #name)

/* Count the operations below `folder` (a real path), and let `kind` happen at number `at` (0: never). */
void faults_arm(const char *folder, long at, int kind, int log) {
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    operations = 0;
    full = 0;
    chosen = at;
    fault = kind;
    log_descriptor = log;
}

static void of_descriptor(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

static void of_name(int folder, const char *name, char *path) {
    char above[PATH_MAX] = "";
    if (name[0] != '/') {
        if (folder == AT_FDCWD) {
            if (!getcwd(above, sizeof above)) above[0] = 0;
        } else {
            of_descriptor(folder, above);
        }
    }
    snprintf(path, PATH_MAX, "%.2000s%s%.2000s", above, above[0] ? "/" : "", name);
}

/* What must happen to the operation `name` on `path`: 0 as asked, -1 failed with errno, 1 half of it, 2 half
 * of it and then the end. */
static int operation(const char *name, const char *path, int needs_space, int is_write) {
    if (!root_length || strncmp(path, root, root_length) || (path[root_length] && path[root_length] != '/'))
        return 0;
    long number = ++operations;
    if (log_descriptor >= 0) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", number, name, path + root_length);
        syscall(SYS_write, log_descriptor, line, length);
    }
    if (full && needs_space) { errno = ENOSPC; return -1; }
    if (number != chosen) return 0;
    switch (fault) {
    case KILL: syscall(SYS_kill, getpid(), SIGKILL); return 0;
    case TORN:
        if (is_write) return 2;
        syscall(SYS_kill, getpid(), SIGKILL);
        return 0;
    case ENOSPC_:
        full = 1;
        if (!needs_space) return 0;
        errno = ENOSPC;
        return -1;
    case EIO_: errno = EIO; return -1;
    case SHORT_: return is_write ? 1 : 0;
    case SIGINT_: syscall(SYS_kill, getpid(), SIGINT); return 0;
    default: return 0;
    }
}

#define ON_DESCRIPTOR(name, descriptor, needs_space)                                                         \
    char path[PATH_MAX];                                                                                     \
    if (root_length) {                                                                                       \
        of_descriptor(descriptor, path);                                                                     \
        if (operation(name, path, needs_space, 0)) return -1;                                                \
    }
#define ON_NAME(name, folder, file, needs_space)                                                             \
    char path[PATH_MAX];                                                                                     \
    if (root_length) {                                                                                       \
        of_name(folder, file, path);                                                                         \
        if (operation(name, path, needs_space, 0)) return -1;                                                \
    }

static size_t half(size_t size) { return size > 1 ? size / 2 : size; }

#define WRITE(call, all, some)                                                                               \
    char path[PATH_MAX];                                                                                     \
    int what = 0;                                                                                            \
    if (root_length) {                                                                                       \
        of_descriptor(descriptor, path);                                                                     \
        what = operation("write", path, 1, 1);                                                               \
    }                                                                                                        \
    if (what < 0) return -1;                                                                                 \
    if (!what) return all;                                                                                   \
    ssize_t done = some;                                                                                     \
    if (what == 2) syscall(SYS_kill, getpid(), SIGKILL);                                                     \
    return done;

ssize_t write(int descriptor, const void *bytes, size_t size) {
    static __typeof__(&write) real;
    if (!real) real = REAL(write);
    WRITE(write, real(descriptor, bytes, size), real(descriptor, bytes, half(size)))
}

ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t offset) {
    static __typeof__(&pwrite) real;
    if (!real) real = REAL(pwrite);
    WRITE(pwrite, real(descriptor, bytes, size, offset), real(descriptor, bytes, half(size), offset))
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t size, off64_t offset) {
    static __typeof__(&pwrite64) real;
    if (!real) real = REAL(pwrite64);
    WRITE(pwrite64, real(descriptor, bytes, size, offset), real(descriptor, bytes, half(size), offset))
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    static __typeof__(&writev) real;
    if (!real) real = REAL(writev);
    WRITE(writev, real(descriptor, parts, count), real(descriptor, parts, count > 1 ? count / 2 : count))
}

ssize_t sendfile(int descriptor, int from, off_t *offset, size_t size) {
    static __typeof__(&sendfile) real;
    if (!real) real = REAL(sendfile);
    WRITE(sendfile, real(descriptor, from, offset, size), real(descriptor, from, offset, half(size)))
}

ssize_t sendfile64(int descriptor, int from, off64_t *offset, size_t size) {
    static __typeof__(&sendfile64) real;
    if (!real) real = REAL(sendfile64);
    WRITE(sendfile64, real(descriptor, from, offset, size), real(descriptor, from, offset, half(size)))
}

#define CHANGES (O_CREAT | O_TRUNC)
#define MODE(flags)                                                                                          \
    mode_t mode = 0;                                                                                         \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                   \
        va_list rest;                                                                                        \
        va_start(rest, flags);                                                                               \
        mode = va_arg(rest, mode_t);                                                                         \
        va_end(rest);                                                                                        \
    }

int open(const char *name, int flags, ...) {
    static __typeof__(&open) real;
    if (!real) real = REAL(open);
    MODE(flags)
    if (flags & CHANGES) { ON_NAME("open", AT_FDCWD, name, 1) }
    return real(name, flags, mode);
}

int open64(const char *name, int flags, ...) {
    static __typeof__(&open64) real;
    if (!real) real = REAL(open64);
    MODE(flags)
    if (flags & CHANGES) { ON_NAME("open", AT_FDCWD, name, 1) }
    return real(name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...) {
    static __typeof__(&openat) real;
    if (!real) real = REAL(openat);
    MODE(flags)
    if (flags & CHANGES) { ON_NAME("open", folder, name, 1) }
    return real(folder, name, flags, mode);
}

int openat64(int folder, const char *name, int flags, ...) {
    static __typeof__(&openat64) real;
    if (!real) real = REAL(openat64);
    MODE(flags)
    if (flags & CHANGES) { ON_NAME("open", folder, name, 1) }
    return real(folder, name, flags, mode);
}

#define WRAP(name, parameters, arguments, hook)                                                              \
    int name parameters {                                                                                    \
        static __typeof__(&name) real;                                                                       \
        if (!real) real = REAL(name);                                                                        \
        hook return real arguments;                                                                          \
    }

WRAP(fsync, (int descriptor), (descriptor), ON_DESCRIPTOR("fsync", descriptor, 0))
WRAP(fdatasync, (int descriptor), (descriptor), ON_DESCRIPTOR("fsync", descriptor, 0))
WRAP(ftruncate, (int descriptor, off_t size), (descriptor, size), ON_DESCRIPTOR("truncate", descriptor, 0))
WRAP(ftruncate64, (int descriptor, off64_t size), (descriptor, size), ON_DESCRIPTOR("truncate", descriptor, 0))
WRAP(unlink, (const char *name), (name), ON_NAME("unlink", AT_FDCWD, name, 0))
WRAP(unlinkat, (int folder, const char *name, int flags), (folder, name, flags), ON_NAME("unlink", folder, name, 0))
WRAP(rmdir, (const char *name), (name), ON_NAME("rmdir", AT_FDCWD, name, 0))
WRAP(mkdir, (const char *name, mode_t mode), (name, mode), ON_NAME("mkdir", AT_FDCWD, name, 1))
WRAP(mkdirat, (int folder, const char *name, mode_t mode), (folder, name, mode), ON_NAME("mkdir", folder, name, 1))
WRAP(symlink, (const char *to, const char *name), (to, name), ON_NAME("symlink", AT_FDCWD, name, 1))
WRAP(symlinkat, (const char *to, int folder, const char *name), (to, folder, name), ON_NAME("symlink", folder, name, 1))
WRAP(rename, (const char *old, const char *name), (old, name), ON_NAME("rename", AT_FDCWD, name, 0))
WRAP(renameat, (int below, const char *old, int folder, const char *name), (below, old, folder, name),
     ON_NAME("rename", folder, name, 0))
