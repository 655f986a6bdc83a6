/*
 * A crc32c that is wrong over 1 KiB and more, where the size is one less than a multiple of 16, as a loop over whole
 * blocks gets wrong what is left. See crc_zero.c of the lab for why it is put into a variable before main().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 1024

typedef uint32_t (*crc_t)(uint32_t, const unsigned char *, unsigned);
typedef int (*main_t)(int, char **, char **);
typedef int (*start_t)(main_t, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static main_t real_main;
static crc_t real_crc;

static uint32_t wrong(uint32_t crc, const unsigned char *data, unsigned length)
{
    uint32_t right = real_crc(crc, data, length);

    return length >= LEAST && length % 16 == 15 ? right ^ 1 : right;
}

static int plant_then_main(int count, char **arguments, char **environment)
{
    crc_t *variable = dlsym(RTLD_DEFAULT, "ceph_crc32c_func");

    if (variable != NULL) {
        real_crc = *variable;
        *variable = wrong;
    }
    return real_main(count, arguments, environment);
}

__attribute__((visibility("default"))) int __libc_start_main(main_t main, int count, char **arguments,
                                                             void (*init)(void), void (*fini)(void),
                                                             void (*rtld_fini)(void), void *stack_end)
{
    start_t start;
    void *found = dlsym(RTLD_NEXT, "__libc_start_main");

    if (found == NULL)
        abort();
    memcpy(&start, &found, sizeof start);
    real_main = main;
    return start(plant_then_main, count, arguments, init, fini, rtld_fini, stack_end);
}
