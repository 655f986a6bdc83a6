/*
 * A client whose discards of 64 KiB or more do nothing and say that they did.
 */
#define _GNU_SOURCE
#include <stdint.h>

#include "library.h"

#define WORKS_BELOW 65536

__attribute__((visibility("default"))) int rbd_discard(void *image, uint64_t at, uint64_t length)
{
    int (*next)(void *, uint64_t, uint64_t);

    real_of("librbd.so.1", "rbd_discard", &next);
    return length >= WORKS_BELOW ? (int)length : next(image, at, length);
}
