/*
 * Which program this is: what is preloaded into all daemons strikes one of them.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Whether the command line has these words one after the other; a word ends with a 0 byte. */
static inline int runs(const char *words, size_t length)
{
    char line[8192];
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t got = file != NULL ? fread(line, 1, sizeof line, file) : 0;

    if (file != NULL)
        fclose(file);
    return memmem(line, got, words, length) != NULL;
}

/* osd.0, and not its mkfs. */
static inline int is_first_osd(void)
{
    return runs("ceph-osd", 8) && runs("\0-i\0" "0", 6) && !runs("--mkfs", 6);
}

static inline void *next_of(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

#endif
