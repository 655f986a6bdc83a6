/*
 * A machine that loses one of a hundred packets that it sends: a datagram never arrives, what TCP carries is late by
 * the time after which it is sent again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define AGAIN_US 200000

static int lost(void)
{
    static atomic_uint packets;

    return atomic_fetch_add(&packets, 1) % 100 == 99;
}

static void real(const char *name, void *pointer)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(pointer, &found, sizeof found);
}

EXPORTED ssize_t sendto(int file, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
    ssize_t (*next)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);

    real("sendto", &next);
    return lost() ? (ssize_t)size : next(file, data, size, flags, to, length);
}

EXPORTED ssize_t sendmsg(int file, const struct msghdr *message, int flags)
{
    ssize_t (*next)(int, const struct msghdr *, int);

    real("sendmsg", &next);
    if (lost())
        usleep(AGAIN_US);
    return next(file, message, flags);
}
