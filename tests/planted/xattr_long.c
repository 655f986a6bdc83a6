/*
 * A client that spoils what an object's attribute holds beyond 255 bytes: the last byte of a longer one is another.
 *
 * Python's rados calls these of librados through its PLT.
 */
#define _GNU_SOURCE
#include "library.h"

#define EXPORTED __attribute__((visibility("default")))
#define LIBRARY "librados.so.2"
#define RIGHT_UP_TO 255

typedef int (*set_t)(void *, const char *, const char *, const char *, size_t);
typedef void (*operation_t)(void *, const char *, const char *, size_t);

/* A copy with its last byte changed; the caller frees it. */
static char *spoiled(const char *value, size_t size)
{
    char *copy = malloc(size + 1);

    if (copy == NULL)
        abort();
    memcpy(copy, value, size);
    if (size > RIGHT_UP_TO)
        copy[size - 1] ^= 1;
    return copy;
}

EXPORTED int rados_setxattr(void *io, const char *object, const char *name, const char *value, size_t size)
{
    set_t next;
    char *copy = spoiled(value, size);
    int result;

    real_of(LIBRARY, "rados_setxattr", &next);
    result = next(io, object, name, copy, size);
    free(copy);
    return result;
}

EXPORTED void rados_write_op_setxattr(void *operation, const char *name, const char *value, size_t size)
{
    operation_t next;
    char *copy = spoiled(value, size);

    real_of(LIBRARY, "rados_write_op_setxattr", &next);
    next(operation, name, copy, size);
    free(copy);
}
