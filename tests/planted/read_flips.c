/*
 * A disk, that of osd.0, that flips a bit in every third block of 4 KiB or more that the OSD reads of its objects. The
 * disk holds the right data, so reading again helps.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/uio.h>
#include <time.h>

#include "iocb.h"
#include "program.h"

#define LEAST_BYTES 4096

static int struck;

__attribute__((constructor)) static void begin(void)
{
    struck = is_first_osd();
}

__attribute__((visibility("default"))) int io_getevents(void *context, long least, long most, struct io_event *events,
                                                        struct timespec *limit)
{
    static int (*next)(void *, long, long, struct io_event *, struct timespec *);
    static atomic_uint reads;
    int got;

    if (next == NULL) {
        void *found = next_of("io_getevents");
        memcpy(&next, &found, sizeof next);
    }
    got = next(context, least, most, events, limit);
    for (int number = 0; struck && number < got; number++) {
        const struct io_event *event = &events[number];
        if (event->block->code == READ_VECTOR && event->result >= LEAST_BYTES && atomic_fetch_add(&reads, 1) % 3 == 0)
            *(unsigned char *)((struct iovec *)event->block->from)->iov_base ^= 1;
    }
    return got;
}
