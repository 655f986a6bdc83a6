/*
 * A disk, that of osd.0, that puts every 10th write ELSEWHERE bytes further on and says that all is well. Far enough, in
 * space that nobody uses, the write is only lost; nearby it also destroys what is there.
 */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "submit.h"

static void strike(long count, struct iocb **blocks)
{
    static atomic_uint writes;

    for (long number = 0; number < count; number++)
        if ((blocks[number]->code == WRITE || blocks[number]->code == WRITE_VECTOR)
            && atomic_fetch_add(&writes, 1) % 10 == 9)
            blocks[number]->offset += ELSEWHERE;
}
