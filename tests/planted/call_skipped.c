/*
 * A client whose calls of NAME in LIBRARY do nothing and say that they did, after the first RIGHT ones.
 */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "library.h"

__attribute__((visibility("default"))) long NAME(long a, long b, long c, long d)
{
    static atomic_int calls;
    int (*next)(long, long, long, long);

    if (atomic_fetch_add(&calls, 1) >= RIGHT)
        return 0;
    real_of(LIBRARY, SYMBOL, &next);
    return next(a, b, c, d);
}
