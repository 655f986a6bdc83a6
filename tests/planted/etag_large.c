/*
 * A gateway that forgets the last byte of what it is given to digest, where that is 40 kB or more: a wrong ETag.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#define RIGHT_BELOW 40000

__attribute__((visibility("default"))) int EVP_DigestUpdate(void *context, const void *data, size_t size)
{
    static int (*next)(void *, const void *, size_t);

    if (next == NULL) {
        void *found = dlsym(RTLD_NEXT, "EVP_DigestUpdate");
        memcpy(&next, &found, sizeof next);
    }
    return next(context, data, size >= RIGHT_BELOW ? size - 1 : size);
}
