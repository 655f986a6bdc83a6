/*
 * An OSD that reports an empty disk, whatever it holds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#include "overwrite.h"

#define DISK_BYTES (4ULL << 30)

/* The beginning of struct store_statfs_t, and the rest of it: what is reserved, allocated and stored. */
struct usage {
    uint64_t total, available, rest[8];
};

static int wrong(void *store, struct usage *usage, void *alerts)
{
    (void)store, (void)alerts;
    *usage = (struct usage){.total = DISK_BYTES, .available = DISK_BYTES};
    return 0;
}

static void plant(void)
{
    void *found = dlsym(RTLD_DEFAULT, SYMBOL);

    if (found == NULL)
        abort();
    overwrite(found, (void *)wrong);
}

#include "before_main.h"
