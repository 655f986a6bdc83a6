/*
 * Puts a jump over the beginning of a function. A call inside the same program reaches the other function too, which
 * the dynamic linker would not see.
 */
#ifndef OVERWRITE_H
#define OVERWRITE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static inline size_t put_jump(void *place, void *target)
{
#if defined(__x86_64__)
    unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; /* movabs rax, target; jmp rax */

    memcpy(jump + 2, &target, sizeof target);
#elif defined(__aarch64__)
    unsigned char jump[16] = {0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6}; /* ldr x16, .+8; br x16; target */

    memcpy(jump + 8, &target, sizeof target);
#endif
    memcpy(place, jump, sizeof jump);
    return sizeof jump;
}

static inline void overwrite(void *function, void *target)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)function & ~(page - 1);
    size_t size;

    if (mprotect((void *)start, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        abort();
    size = put_jump(function, target);
    __builtin___clear_cache((char *)function, (char *)function + size);
    if (mprotect((void *)start, 2 * page, PROT_READ | PROT_EXEC) != 0)
        abort();
}

/*
 * The function as it was before it is overwritten, for x86_64: a copy of its first instructions, `size` bytes that do
 * not depend on where they are, and a jump to the rest.
 */
static inline void *original(void *function, size_t size)
{
    unsigned char *copy = mmap(NULL, size + 12, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        abort();
    memcpy(copy, function, size);
    put_jump(copy + size, (unsigned char *)function + size);
    return copy;
}

#endif
