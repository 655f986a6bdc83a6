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

static void overwrite(void *function, void *target)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)function & ~(page - 1);
#if defined(__x86_64__)
    unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; /* movabs rax, target; jmp rax */

    memcpy(jump + 2, &target, sizeof target);
#elif defined(__aarch64__)
    unsigned char jump[16] = {0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6}; /* ldr x16, .+8; br x16; target */

    memcpy(jump + 8, &target, sizeof target);
#endif
    if (mprotect((void *)start, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        abort();
    memcpy(function, jump, sizeof jump);
    __builtin___clear_cache((char *)function, (char *)function + sizeof jump);
    if (mprotect((void *)start, 2 * page, PROT_READ | PROT_EXEC) != 0)
        abort();
}

#endif
