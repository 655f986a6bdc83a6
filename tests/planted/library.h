/*
 * A function of a library that Python's bindings open without RTLD_GLOBAL, so that it is asked by name.
 */
#ifndef LIBRARY_H
#define LIBRARY_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Copies the address to a pointer to a function: C has no conversion between the two. */
static inline void real_of(const char *library, const char *name, void *pointer)
{
    void *opened = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    void *found = opened != NULL ? dlsym(opened, name) : NULL;

    if (found == NULL)
        abort();
    memcpy(pointer, &found, sizeof found);
}

#endif
