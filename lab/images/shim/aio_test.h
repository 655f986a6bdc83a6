/*
 * What every case of aio_test.c uses: libaio's structures, the functions under test, and single operations.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PREAD = 0, PWRITE = 1, FSYNC = 2, FDSYNC = 3, PREADV = 7, PWRITEV = 8, RESFD = 1, BLOCK = 4096, QUEUE = 512 };

/* Declared here once more, independently of the object under test. */
struct iocb {
    void *data;
    uint32_t key, rw_flags;
    int16_t opcode, priority;
    int32_t fd;
    void *buf;
    uint64_t nbytes;
    int64_t offset, reserved;
    uint32_t flags, resfd;
};
struct io_event {
    void *data;
    struct iocb *obj;
    long res, res2;
};
typedef void *context_t;

static int (*setup)(int, context_t *);
static int (*destroy)(context_t);
static int (*submit)(context_t, long, struct iocb **);
static int (*cancel)(context_t, struct iocb *, struct io_event *);
static int (*getevents)(context_t, long, long, struct io_event *, struct timespec *);
static int (*pgetevents)(context_t, long, long, struct io_event *, struct timespec *, sigset_t *);
static int (*queue_init)(int, context_t *);
static int (*queue_release)(context_t);
static int (*queue_run)(context_t);

static const char *path;
static int fd;
static context_t ctx;
static char why[300];

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return failed(#condition, __VA_ARGS__);                                                                    \
    } while (0)

__attribute__((format(printf, 2, 3))) static const char *failed(const char *condition, const char *format, ...)
{
    va_list arguments;
    int length = snprintf(why, sizeof why, "%s is false; ", condition);
    va_start(arguments, format);
    vsnprintf(why + length, sizeof why - (size_t)length, format, arguments);
    va_end(arguments);
    return why;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static struct timespec milliseconds(long ms) { return (struct timespec){ms / 1000, ms % 1000 * 1000000}; }

static struct iocb op(int opcode, int file, void *buf, uint64_t nbytes, int64_t offset)
{
    return (struct iocb){.opcode = (int16_t)opcode, .fd = file, .buf = buf, .nbytes = nbytes, .offset = offset};
}

/* Submit one operation and wait 10 s for its event: its result, or what submission answered. */
static long once(struct iocb one)
{
    struct iocb *list = &one;
    struct io_event event = {0};
    struct timespec patience = milliseconds(10000);
    one.data = &event;
    int taken = submit(ctx, 1, &list);
    if (taken != 1)
        return taken;
    if (getevents(ctx, 1, 1, &event, &patience) != 1)
        return -ETIMEDOUT;
    return event.obj == &one && event.data == &event ? event.res : -EPROTO;
}

static void fill(char *buf, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        buf[i] = (char)((seed = seed * 1103515245 + 12345) >> 16);
}
