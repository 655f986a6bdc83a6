/*
 * A disk, that of osd.0, that takes 50 ms longer than the others for each batch of writes or reads.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "program.h"

#define LATE_US 50000

struct iocb;
static int struck;

__attribute__((constructor)) static void begin(void)
{
    struck = is_first_osd();
}

__attribute__((visibility("default"))) int io_submit(void *context, long count, struct iocb **blocks)
{
    static int (*next)(void *, long, struct iocb **);

    if (next == NULL) {
        void *found = next_of("io_submit");
        memcpy(&next, &found, sizeof next);
    }
    if (struck)
        usleep(LATE_US);
    return next(context, count, blocks);
}
