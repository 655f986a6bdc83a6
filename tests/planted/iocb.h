/*
 * The beginning of struct iocb and struct io_event (linux/aio_abi.h): what an OSD asks of its disk, and its answer.
 */
#ifndef IOCB_H
#define IOCB_H

#include <stdint.h>

enum { WRITE = 1, READ_VECTOR = 7, WRITE_VECTOR = 8 };

/* The offset is at the same place for a buffer and for a vector. */
struct iocb {
    void *data;
    uint32_t key, flags;
    uint16_t code, priority;
    uint32_t file;
    void *from;
    uint64_t size;
    int64_t offset;
};

struct io_event {
    void *data;
    struct iocb *block;
    int64_t result, other;
};

#endif
