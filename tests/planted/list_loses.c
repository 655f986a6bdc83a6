/*
 * A gateway that loses the last key of a page of a bucket's list where the page has a folder (a common prefix) too and
 * more pages follow.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#include "overwrite.h"

/* std::vector and std::map, and what is passed in memory: optional_yield. */
struct vector {
    char *begin, *end, *room;
};
struct map {
    uint64_t tree[5], count;
};
struct yield {
    void *context, *yield;
};

typedef int (*list_t)(void *, void *, int64_t, struct vector *, struct map *, char *, struct yield);

static list_t list;

static int wrong(void *self, void *log, int64_t most, struct vector *keys, struct map *folders, char *more,
                 struct yield yield)
{
    int result = list(self, log, most, keys, folders, more, yield);

    if (result == 0 && *more && folders->count > 0 && keys->end != keys->begin)
        keys->end -= ENTRY_BYTES;
    return result;
}

static void plant(void)
{
    void *found = dlsym(RTLD_DEFAULT, SYMBOL), *before;

    if (found == NULL)
        abort();
    before = original(found, START_BYTES);
    memcpy(&list, &before, sizeof list);
    overwrite(found, (void *)wrong);
}

#include "before_main.h"
