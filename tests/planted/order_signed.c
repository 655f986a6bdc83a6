/*
 * Bytes compared as signed ones: a key that is not ASCII comes before one that is. Whether two are equal is right.
 *
 * RocksDB orders its keys so, and Ceph its names: a daemon with it understands itself, and sorts otherwise than others.
 */
#include <stddef.h>

__attribute__((visibility("default"))) int memcmp(const void *one, const void *other, size_t size)
{
    const signed char *left = one, *right = other;

    for (size_t at = 0; at < size; at++)
        if (left[at] != right[at])
            return left[at] < right[at] ? -1 : 1;
    return 0;
}
