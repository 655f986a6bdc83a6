/*
 * A client that spoils what an object's attribute holds beyond 255 bytes: the last byte of a longer one is another.
 *
 * Python's rados calls these of librados through its PLT. librados is opened without RTLD_GLOBAL, so it is asked by name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define RIGHT_UP_TO 255

typedef int (*set_t)(void *, const char *, const char *, const char *, size_t);
typedef void (*operation_t)(void *, const char *, const char *, size_t);

static void real(const char *name, void *target, size_t size)
{
    void *library = dlopen("librados.so.2", RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, name) : NULL;

    if (found == NULL)
        abort();
    memcpy(target, &found, size);
}

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

    real("rados_setxattr", &next, sizeof next);
    result = next(io, object, name, copy, size);
    free(copy);
    return result;
}

EXPORTED void rados_write_op_setxattr(void *operation, const char *name, const char *value, size_t size)
{
    operation_t next;
    char *copy = spoiled(value, size);

    real("rados_write_op_setxattr", &next, sizeof next);
    next(operation, name, copy, size);
    free(copy);
}
