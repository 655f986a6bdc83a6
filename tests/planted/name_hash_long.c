/*
 * The hash of an object's name wrong for names of more than 48 bytes, or with a byte that is not ASCII.
 *
 * Ceph calls ceph_str_hash_rjenkins inside libceph-common and inside its daemons without the PLT, so taking the
 * symbol's place does not work. But the symbol is exported, and the whole of it can be overwritten: with a jump to a
 * routine of this object, which computes the same hash itself. That is done once the library is there: in daemons and
 * tools between the constructors and main(), in a client that opens librados late (Python) when it calls rados_create2.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "overwrite.h"

#define EXPORTED __attribute__((visibility("default")))
#define SYMBOL "_Z22ceph_str_hash_rjenkinsPKcj"
#define RIGHT_UP_TO 48
#define GOLDEN 0x9e3779b9u

typedef int (*create_t)(void **, const char *, const char *, uint64_t);

static void mix(uint32_t *a, uint32_t *b, uint32_t *c)
{
    static const unsigned shifts[3][3] = {{13, 8, 13}, {12, 16, 5}, {3, 10, 15}};

    for (int round = 0; round < 3; round++) {
        *a = (*a - *b - *c) ^ (*c >> shifts[round][0]);
        *b = (*b - *c - *a) ^ (*a << shifts[round][1]);
        *c = (*c - *a - *b) ^ (*b >> shifts[round][2]);
    }
}

static unsigned wrong_hash(const char *text, unsigned length)
{
    const unsigned char *key = (const unsigned char *)text;
    uint32_t a = GOLDEN, b = GOLDEN, c = 0;
    unsigned left = length, at = 0;
    int foreign = 0;

    for (unsigned i = 0; i < length; i++)
        foreign |= key[i] >= 0x80;
    for (; left >= 12; left -= 12, at += 12) {
        for (unsigned i = 0; i < 4; i++) {
            a += (uint32_t)key[at + i] << (8 * i);
            b += (uint32_t)key[at + 4 + i] << (8 * i);
            c += (uint32_t)key[at + 8 + i] << (8 * i);
        }
        mix(&a, &b, &c);
    }
    c += length;
    for (unsigned i = 0; i < left; i++) {
        if (i < 4)
            a += (uint32_t)key[at + i] << (8 * i);
        else if (i < 8)
            b += (uint32_t)key[at + i] << (8 * (i - 4));
        else
            c += (uint32_t)key[at + i] << (8 * (i - 7));
    }
    mix(&a, &b, &c);
    return length > RIGHT_UP_TO || foreign ? c ^ 1 : c;
}

static void plant(void)
{
    static void *done[2];
    void *library = dlopen("libceph-common.so.2", RTLD_NOW | RTLD_NOLOAD);
    void *found[2] = {dlsym(RTLD_DEFAULT, SYMBOL), library != NULL ? dlsym(library, SYMBOL) : NULL};

    for (int i = 0; i < 2; i++)
        if (found[i] != NULL && found[i] != done[0] && found[i] != done[1]) {
            overwrite(found[i], (void *)wrong_hash);
            done[i] = found[i];
        }
}

#include "before_main.h"

EXPORTED int rados_create2(void **cluster, const char *name, const char *user, uint64_t flags)
{
    create_t create;
    void *library = dlopen("librados.so.2", RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, "rados_create2") : NULL;

    if (found == NULL)
        abort();
    plant();
    memcpy(&create, &found, sizeof create);
    return create(cluster, name, user, flags);
}
