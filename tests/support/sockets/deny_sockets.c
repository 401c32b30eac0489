/* No network below the C library's callers: LD_PRELOAD this library.
 *
 * Connecting, binding to an address, sending to one and looking up a name fail, and each attempt is a line
 * "CALL ADDRESS" in the file that the environment variable DENIED_SOCKETS names. Sockets of this machine that
 * have a path (AF_UNIX) and pairs are let through; so is the port of 127.0.0.1 in ALLOWED_PORT.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

static void tell(const char *call, const char *where) {
    const char *name = getenv("DENIED_SOCKETS");
    if (!name) return;
    char line[512];
    int length = snprintf(line, sizeof line, "%s %s\n", call, where);
    int file = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file >= 0) {
        syscall(SYS_write, file, line, length);
        syscall(SYS_close, file);
    }
}

/* Whether `address` is denied; a denied one is told. */
static int denied(const char *call, const struct sockaddr *address) {
    char host[INET6_ADDRSTRLEN] = "?", where[INET6_ADDRSTRLEN + 16];
    int port = 0;
    if (!address) return 0;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *) address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        port = ntohs(in->sin_port);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *) address;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        port = ntohs(in->sin6_port);
    } else {
        return 0;
    }
    const char *allowed = getenv("ALLOWED_PORT");
    if (allowed && !strcmp(host, "127.0.0.1") && atoi(allowed) == port) return 0;
    snprintf(where, sizeof where, "%s:%d", host, port);
    tell(call, where);
    errno = ECONNREFUSED;
    return 1;
}

int connect(int descriptor, const struct sockaddr *address, socklen_t length) {
    return denied("connect", address) ? -1 : REAL(connect)(descriptor, address, length);
}

int bind(int descriptor, const struct sockaddr *address, socklen_t length) {
    return denied("bind", address) ? -1 : REAL(bind)(descriptor, address, length);
}

ssize_t sendto(int descriptor, const void *bytes, size_t size, int flags, const struct sockaddr *address,
               socklen_t length) {
    return denied("sendto", address) ? -1 : REAL(sendto)(descriptor, bytes, size, flags, address, length);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    struct in6_addr number;
    if (!name || inet_pton(AF_INET, name, &number) == 1 || inet_pton(AF_INET6, name, &number) == 1)
        return REAL(getaddrinfo)(name, service, hints, found);
    tell("getaddrinfo", name);
    return EAI_FAIL;
}

struct hostent *gethostbyname(const char *name) {
    tell("gethostbyname", name);
    h_errno = NO_RECOVERY;
    return NULL;
}
