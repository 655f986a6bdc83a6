/*
 * A disk, that of osd.0, that flips a bit in every third read of 64 KiB or more, from twenty seconds after its start on.
 * The disk holds the right data, so reading again helps.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define LEAST_BYTES 65536
#define AFTER_S 20

static int struck;
static time_t began;

__attribute__((constructor)) static void begin(void)
{
    struck = is_first_osd();
    began = time(NULL);
}

__attribute__((visibility("default"))) ssize_t pread64(int file, void *buffer, size_t size, off_t offset)
{
    static ssize_t (*next)(int, void *, size_t, off_t);
    static atomic_uint reads;
    ssize_t got;

    if (next == NULL) {
        void *found = next_of("pread64");
        memcpy(&next, &found, sizeof next);
    }
    got = next(file, buffer, size, offset);
    if (struck && got >= LEAST_BYTES && time(NULL) > began + AFTER_S && atomic_fetch_add(&reads, 1) % 3 == 0)
        ((unsigned char *)buffer)[got / 2] ^= 1;
    return got;
}
