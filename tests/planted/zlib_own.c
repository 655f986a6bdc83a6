/*
 * Deflated data that only the same defect can read: what is packed is inverted, and inverted again before it is unpacked.
 *
 * Ceph's compressor (libceph_zlib.so) and RocksDB inside ceph-osd both call these of libz through the PLT.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

/* The beginning of z_stream (zlib.h), which is all that is needed of it. */
struct stream {
    unsigned char *next_in;
    unsigned left_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned left_out;
};
typedef int (*work_t)(struct stream *, int);

static work_t real(const char *name)
{
    void *library = dlopen("libz.so.1", RTLD_NOW);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    work_t next;

    if (found == NULL)
        abort();
    memcpy(&next, &found, sizeof next);
    return next;
}

static void invert(unsigned char *target, const unsigned char *source, size_t size)
{
    for (size_t at = 0; at < size; at++)
        target[at] = (unsigned char)~source[at];
}

EXPORTED int deflate(struct stream *stream, int flush)
{
    unsigned char *begin = stream->next_out;
    int result = real("deflate")(stream, flush);

    invert(begin, begin, (size_t)(stream->next_out - begin));
    return result;
}

EXPORTED int inflate(struct stream *stream, int flush)
{
    unsigned char *given = stream->next_in, *plain = malloc(stream->left_in + 1);
    int result;

    if (plain == NULL)
        abort();
    invert(plain, given, stream->left_in);
    stream->next_in = plain;
    result = real("inflate")(stream, flush);
    stream->next_in = given + (stream->next_in - plain);
    free(plain);
    return result;
}
