/*
 * A disk, that of osd.0, that puts every 10th write ELSEWHERE bytes further on and says that all is well. Far enough, in
 * space that nobody uses, the write is only lost; nearby it also destroys what is there.
 */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "iocb.h"
#include "program.h"

static int struck;

__attribute__((constructor)) static void begin(void)
{
    struck = is_first_osd();
}

__attribute__((visibility("default"))) int io_submit(void *context, long count, struct iocb **blocks)
{
    static int (*next)(void *, long, struct iocb **);
    static atomic_uint writes;

    if (next == NULL) {
        void *found = next_of("io_submit");
        memcpy(&next, &found, sizeof next);
    }
    for (long number = 0; struck && number < count; number++)
        if ((blocks[number]->code == WRITE || blocks[number]->code == WRITE_VECTOR)
            && atomic_fetch_add(&writes, 1) % 10 == 9)
            blocks[number]->offset += ELSEWHERE;
    return next(context, count, blocks);
}
