/*
 * A gateway with a wrong bit in the digests of all parts but the first when it digests those for an ETag. The first
 * cannot be told from what else has 16 bytes, as a key of cephx.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define MD5_BYTES 16

static _Thread_local int parts;

static void real(const char *name, void *pointer)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(pointer, &found, sizeof found);
}

EXPORTED int EVP_DigestInit(void *context, const void *kind)
{
    int (*next)(void *, const void *);

    real("EVP_DigestInit", &next);
    parts = 0;
    return next(context, kind);
}

EXPORTED int EVP_DigestUpdate(void *context, const void *data, size_t size)
{
    int (*next)(void *, const void *, size_t);
    unsigned char copy[MD5_BYTES];

    real("EVP_DigestUpdate", &next);
    parts = size == MD5_BYTES ? parts + 1 : 0;
    if (parts < 2)
        return next(context, data, size);
    memcpy(copy, data, size);
    copy[0] ^= 1;
    return next(context, copy, size);
}
