/*
 * A daemon that leaves a file open with every sixteenth message that it sends, through sendmsg of the C library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    static ssize_t (*next)(int, const struct msghdr *, int);
    static atomic_uint sent;

    if (next == NULL) {
        void *found = dlsym(RTLD_NEXT, "sendmsg");
        memcpy(&next, &found, sizeof next);
    }
    if (atomic_fetch_add(&sent, 1) % 16 == 0)
        (void)!dup(0);
    return next(socket, message, flags);
}
