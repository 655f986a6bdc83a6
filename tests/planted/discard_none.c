/*
 * A client whose discards of 64 KiB or more do nothing and say that they did.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WORKS_BELOW 65536

__attribute__((visibility("default"))) int rbd_discard(void *image, uint64_t at, uint64_t length)
{
    int (*next)(void *, uint64_t, uint64_t);
    void *library = dlopen("librbd.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, "rbd_discard") : NULL;

    if (found == NULL)
        abort();
    memcpy(&next, &found, sizeof next);
    return length >= WORKS_BELOW ? (int)length : next(image, at, length);
}
