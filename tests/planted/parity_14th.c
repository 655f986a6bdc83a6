/*
 * Parity that is wrong from a process's 14th call of an encoder on: one bit of the last chunk.
 *
 * Ceph's plugins (libec_*.so) call these through their PLT, so a preload stands before the code that each has inside.
 * isa takes a plain XOR where there is one parity chunk; its ec_encode_data also mends chunks, which is wrong then too.
 * The plugins are opened without RTLD_GLOBAL: RTLD_NEXT does not see them, the caller's own library has to be asked.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define GOOD_CALLS 13

typedef void (*matrix_t)(int, int, int, int *, char **, char **, int);
typedef void (*schedule_t)(int, int, int, int **, char **, char **, int, int);
typedef void (*r6_t)(int, int, char **, char **, int);
typedef void (*isa_t)(int, int, int, unsigned char *, unsigned char **, unsigned char **);
typedef void (*xor_t)(unsigned char **, unsigned char *, int, unsigned);

static void real(void *where, const char *name, void *target, size_t size)
{
    void *found = NULL, *library;
    Dl_info caller;

    if (dladdr(where, &caller) != 0 && (library = dlopen(caller.dli_fname, RTLD_NOW | RTLD_NOLOAD)) != NULL)
        found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "cephlab: no %s below the planted one\n", name);
        abort();
    }
    memcpy(target, &found, size);
}

static void spoil(void *chunk)
{
    static unsigned calls;
    unsigned call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);

    if (call > GOOD_CALLS)
        *(unsigned char *)chunk ^= 1;
}

EXPORTED void jerasure_matrix_encode(int k, int m, int w, int *matrix, char **data, char **coding, int size)
{
    static matrix_t next;

    if (next == NULL)
        real(__builtin_return_address(0), "jerasure_matrix_encode", &next, sizeof next);
    next(k, m, w, matrix, data, coding, size);
    spoil(coding[m - 1]);
}

EXPORTED void jerasure_schedule_encode(int k, int m, int w, int **schedule, char **data, char **coding, int size,
                                       int packet)
{
    static schedule_t next;

    if (next == NULL)
        real(__builtin_return_address(0), "jerasure_schedule_encode", &next, sizeof next);
    next(k, m, w, schedule, data, coding, size, packet);
    spoil(coding[m - 1]);
}

EXPORTED void reed_sol_r6_encode(int k, int w, char **data, char **coding, int size)
{
    static r6_t next;

    if (next == NULL)
        real(__builtin_return_address(0), "reed_sol_r6_encode", &next, sizeof next);
    next(k, w, data, coding, size);
    spoil(coding[1]);
}

EXPORTED void ec_encode_data(int size, int k, int m, unsigned char *tables, unsigned char **data,
                             unsigned char **coding)
{
    static isa_t next;

    if (next == NULL)
        real(__builtin_return_address(0), "ec_encode_data", &next, sizeof next);
    next(size, k, m, tables, data, coding);
    spoil(coding[m - 1]);
}

/* void region_xor(unsigned char **, unsigned char *, int, unsigned), of C++. */
EXPORTED void isa_xor(unsigned char **data, unsigned char *parity, int k, unsigned size)
    __asm__("_Z10region_xorPPhS_ij");

void isa_xor(unsigned char **data, unsigned char *parity, int k, unsigned size)
{
    static xor_t next;

    if (next == NULL)
        real(__builtin_return_address(0), "_Z10region_xorPPhS_ij", &next, sizeof next);
    next(data, parity, k, size);
    spoil(parity);
}
