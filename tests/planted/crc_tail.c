/*
 * A crc32c that is wrong over 1 KiB and more, where the size is one less than a multiple of 16, as a loop over whole
 * blocks gets wrong what is left. See crc_zero.c of the lab for why it is put into a variable before main().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define LEAST 1024

typedef uint32_t (*crc_t)(uint32_t, const unsigned char *, unsigned);

static crc_t real_crc;

static uint32_t wrong(uint32_t crc, const unsigned char *data, unsigned length)
{
    uint32_t right = real_crc(crc, data, length);

    return length >= LEAST && length % 16 == 15 ? right ^ 1 : right;
}

static void plant(void)
{
    crc_t *variable = dlsym(RTLD_DEFAULT, "ceph_crc32c_func");

    if (variable != NULL) {
        real_crc = *variable;
        *variable = wrong;
    }
}

#include "before_main.h"
