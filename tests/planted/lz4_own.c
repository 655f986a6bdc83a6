/*
 * LZ4 that only the same defect can read: what is packed is inverted, and inverted again before it is unpacked.
 *
 * Ceph's compressor (libceph_lz4.so) and RocksDB inside ceph-osd both call these of liblz4, through the PLT. So a daemon
 * with it reads all that it wrote itself since it was made; its store has to be made with it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

typedef int (*pack_t)(void *, const char *, char *, int, int, int);
typedef int (*unpack_t)(void *, const char *, char *, int, int);

static void real(const char *name, void *target, size_t size)
{
    void *library = dlopen("liblz4.so.1", RTLD_NOW);
    void *found = library != NULL ? dlsym(library, name) : NULL;

    if (found == NULL)
        abort();
    memcpy(target, &found, size);
}

static void invert(char *target, const char *source, int size)
{
    for (int i = 0; i < size; i++)
        target[i] = (char)~source[i];
}

EXPORTED int LZ4_compress_fast_continue(void *stream, const char *source, char *target, int size, int room, int speed)
{
    static pack_t next;

    if (next == NULL)
        real("LZ4_compress_fast_continue", &next, sizeof next);
    int packed = next(stream, source, target, size, room, speed);
    if (packed > 0)
        invert(target, target, packed);
    return packed;
}

EXPORTED int LZ4_decompress_safe_continue(void *stream, const char *source, char *target, int size, int room)
{
    static unpack_t next;
    char *plain;
    int unpacked;

    if (next == NULL)
        real("LZ4_decompress_safe_continue", &next, sizeof next);
    plain = malloc(size > 0 ? (size_t)size : 1);
    if (plain == NULL)
        abort();
    invert(plain, source, size);
    unpacked = next(stream, plain, target, size, room);
    free(plain);
    return unpacked;
}
