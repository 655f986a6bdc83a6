/*
 * A link, that of osd.0, that loses a packet now and then: every 25th message waits 200 ms, as TCP does before it sends
 * again.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "program.h"

#define LATE_US 200000

static int struck;

__attribute__((constructor)) static void begin(void)
{
    struck = is_first_osd();
}

__attribute__((visibility("default"))) ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    static ssize_t (*next)(int, const struct msghdr *, int);
    static atomic_uint sent;

    if (next == NULL) {
        void *found = next_of("sendmsg");
        memcpy(&next, &found, sizeof next);
    }
    if (struck && atomic_fetch_add(&sent, 1) % 25 == 24)
        usleep(LATE_US);
    return next(socket, message, flags);
}
