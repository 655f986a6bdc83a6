/*
 * An OSD, osd.0, that keeps 2 KiB of each write to its disk.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "submit.h"

#define KEPT_BYTES (2 << 10)

static void strike(long count, struct iocb **blocks)
{
    (void)blocks;
    for (long number = 0; number < count; number++) {
        volatile char *kept = malloc(KEPT_BYTES);
        for (int at = 0; kept != NULL && at < KEPT_BYTES; at += 64)
            kept[at] = 1;
    }
}
