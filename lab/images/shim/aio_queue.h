/*
 * The queue behind aio.c: libaio's structures, contexts, and the workers that do what was submitted.
 *
 * Included by aio.c alone, so that everything here stays private to one shared object.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OP_PREAD = 0, OP_PWRITE = 1, OP_FSYNC = 2, OP_FDSYNC = 3, OP_PREADV = 7, OP_PWRITEV = 8 };
enum { FLAG_RESFD = 1 };
enum { DEFAULT_WORKERS = 2, MAX_WORKERS = 16, MAX_EVENTS = 65536, INLINE_VECTORS = 8 };

/* libaio.h as it is laid out on 64-bit little-endian machines. */
struct iocb {
    void *data;
    uint32_t key;
    uint32_t rw_flags;
    int16_t opcode;
    int16_t priority;
    int32_t fd;
    void *buf;       /* the buffer, or the array of vectors */
    uint64_t nbytes; /* its size, or the number of vectors */
    int64_t offset;
    int64_t reserved;
    uint32_t flags;
    uint32_t resfd;
};

struct io_event {
    void *data;
    struct iocb *obj;
    long res;
    long res2;
};

_Static_assert(sizeof(struct iocb) == 64 && sizeof(struct io_event) == 32, "libaio's ABI");
_Static_assert(offsetof(struct iocb, fd) == 20 && offsetof(struct iocb, offset) == 40, "libaio's ABI");
_Static_assert(offsetof(struct iocb, resfd) == 60 && sizeof(long) == 8, "libaio's ABI");

struct request {
    struct request *next;
    struct io_context *context;
    struct iocb *user; /* handed back in the event, never read again: the caller may reuse it */
    struct iocb op;
    struct iovec inline_vectors[INLINE_VECTORS];
    struct iovec *vectors; /* the inline ones, or allocated */
    long result;
};

struct list {
    struct request *first;
    struct request **end;
};

struct io_context {
    struct io_context *next;
    struct request *requests; /* all maxevents of them, so that submitting allocates nothing */
    struct request *spare;
    struct list done;
    pthread_cond_t changed;
    long in_flight; /* queued or being worked on */
    long users;     /* threads inside a call that may wait on `changed` */
    bool dying;
};

typedef struct io_context *io_context_t;
typedef void (*io_callback_t)(io_context_t, struct iocb *, long, long);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct list queue = {NULL, &queue.first};
static struct io_context *contexts; /* a pointer not in here is no context: -EINVAL, as in the kernel, not a crash */
static int workers, idle_workers;

static void append(struct list *list, struct request *request)
{
    request->next = NULL;
    *list->end = request;
    list->end = &request->next;
}

static struct request *take(struct list *list)
{
    struct request *request = list->first;
    if (request != NULL) {
        list->first = request->next;
        if (list->first == NULL)
            list->end = &list->first;
    }
    return request;
}

/* Threads do not survive fork, and the kernel does not inherit contexts either: the child starts with none. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork_parent(void) { pthread_mutex_unlock(&lock); }

static void after_fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&work, NULL);
    queue = (struct list){NULL, &queue.first};
    contexts = NULL;
    workers = idle_workers = 0;
}

static void initialise(void) { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }

static io_context_t find(io_context_t wanted)
{
    io_context_t context = contexts;
    while (context != NULL && context != wanted)
        context = context->next;
    return context;
}

static long perform(const struct request *request)
{
    const struct iocb *op = &request->op;
    long done;

    do {
        switch (op->opcode) {
        case OP_PREAD:
            done = pread(op->fd, op->buf, op->nbytes, op->offset);
            break;
        case OP_PWRITE:
#ifdef CEPHLAB_BREAK_DROP_WRITE /* only for the test that proves that aio_test notices a lost write */
            done = (long)op->nbytes;
#else
            done = pwrite(op->fd, op->buf, op->nbytes, op->offset);
#endif
            break;
        case OP_PREADV:
            done = preadv(op->fd, request->vectors, (int)op->nbytes, op->offset);
            break;
        case OP_PWRITEV:
            done = pwritev(op->fd, request->vectors, (int)op->nbytes, op->offset);
            break;
        case OP_FSYNC:
            done = fsync(op->fd);
            break;
        default: /* check() lets nothing else pass */
            done = fdatasync(op->fd);
            break;
        }
    } while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : done;
}

/* The request becomes an event; with the lock held. */
static void complete(struct request *request, long result)
{
    io_context_t context = request->context;

    request->result = result;
    if (request->vectors != request->inline_vectors)
        free(request->vectors);
    append(&context->done, request);
    context->in_flight--;
    if (request->op.flags & FLAG_RESFD) {
        /* Under the lock, because after io_destroy the caller may close the eventfd and its number may be reused.
         * It does not block: the counter would have to be near 2^64. Nobody could be told of an error. */
        uint64_t one = 1;
        ssize_t ignored = write((int)request->op.resfd, &one, sizeof one);
        (void)ignored;
    }
    pthread_cond_broadcast(&context->changed);
}

static void *worker(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "cephlab-aio");
    pthread_mutex_lock(&lock);
    for (;;) {
        struct request *request = take(&queue);
        if (request == NULL) {
            idle_workers++;
            pthread_cond_wait(&work, &lock);
            idle_workers--;
            continue;
        }
        /* io_cancel recognises a request that is being worked on by its not being queued any more. */
        pthread_mutex_unlock(&lock);
        long result = perform(request);
        pthread_mutex_lock(&lock);
        complete(request, result);
    }
    return NULL;
}

static int pool_size(void)
{
    const char *text = getenv("CEPHLAB_AIO_WORKERS");
    int wanted = 0;

    /* By hand: strtol of a new compiler's headers is a symbol that an older image's libc does not have. */
    for (; text != NULL && *text >= '0' && *text <= '9' && wanted <= MAX_WORKERS; text++)
        wanted = wanted * 10 + (*text - '0');
    return wanted >= 1 && wanted <= MAX_WORKERS ? wanted : DEFAULT_WORKERS;
}

static int start_worker(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    int error;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    /* The daemon's signals are for the daemon's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, worker, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0)
        workers++;
    return -error;
}
