/*
 * One function of Ceph that does nothing and returns VALUE. SYMBOL is its name in C++, as the program exports it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "overwrite.h"

static long wrong(void)
{
    return VALUE;
}

static void plant(void)
{
    void *found = dlsym(RTLD_DEFAULT, SYMBOL);

    if (found == NULL)
        abort();
    overwrite(found, (void *)wrong);
}

#include "before_main.h"
