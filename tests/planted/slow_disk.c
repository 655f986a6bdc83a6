/*
 * A disk, that of osd.0, that takes 50 ms longer than the others for each batch of writes or reads.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "submit.h"

#define LATE_US 50000

static void strike(long count, struct iocb **blocks)
{
    (void)count;
    (void)blocks;
    usleep(LATE_US);
}
