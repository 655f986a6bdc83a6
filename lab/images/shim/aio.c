/*
 * libaio's interface over plain system calls and a few threads: the preload that lets BlueStore run emulated.
 *
 * qemu-user has no Linux AIO (io_setup answers ENOSYS), and BlueStore refuses to work without ("non-aio not
 * supported"). Preloaded into an emulated daemon, this object takes the place of libaio: a submitted operation is
 * queued, a worker does it with pread, pwrite, preadv, pwritev, fsync or fdatasync, and the result is reaped as from
 * the kernel. A native daemon never gets it.
 *
 * One lock guards everything. Emulated daemons are bound by the CPU; the lock is held for a few instructions while
 * each operation costs a system call, and one lock is easy to see through.
 *
 * Differences from the kernel, all harmless to BlueStore:
 * - a queued operation holds no reference to its file: closing it early makes the operation fail with EBADF;
 * - a context takes exactly `maxevents` operations not yet reaped, where the kernel rounds up;
 * - per-operation flags (RWF_*) are refused with EOPNOTSUPP: qemu-user has no preadv2;
 * - waiting is never interrupted by a signal, so EINTR is never returned.
 *
 * CEPHLAB_AIO_WORKERS (1 to 16) sets the size of the pool. Emulated mkfs and fsck take the same time with 1, 2 and 4;
 * the default is two so that a read need not wait behind a slow write.
 */
#include "aio_queue.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int io_setup(int maxevents, io_context_t *result)
{
    io_context_t context;
    pthread_condattr_t attributes;
    int error = 0;

    if (result == NULL)
        return -EFAULT;
    if (maxevents <= 0 || *result != NULL)
        return -EINVAL;
    if (maxevents > MAX_EVENTS)
        return -EAGAIN;
    pthread_once(&once, initialise);
    context = calloc(1, sizeof *context);
    if (context == NULL)
        return -ENOMEM;
    context->requests = calloc((size_t)maxevents, sizeof *context->requests);
    if (context->requests == NULL) {
        free(context);
        return -ENOMEM;
    }
    for (int i = 0; i < maxevents; i++) {
        context->requests[i].context = context;
        context->requests[i].next = i + 1 < maxevents ? &context->requests[i + 1] : NULL;
    }
    context->spare = context->requests;
    context->done.end = &context->done.first;
    /* Timeouts must not stretch or shrink when somebody sets the wall clock. */
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&context->changed, &attributes);
    pthread_condattr_destroy(&attributes);

    pthread_mutex_lock(&lock);
    /* All workers start here, where a failure can still be reported; one is enough to go on. */
    while (workers < pool_size() && error == 0)
        error = start_worker();
    if (workers > 0) {
        context->next = contexts;
        contexts = context;
        *result = context;
        error = 0;
    }
    pthread_mutex_unlock(&lock);
    if (error != 0) {
        pthread_cond_destroy(&context->changed);
        free(context->requests);
        free(context);
    }
    return error;
}

EXPORT int io_destroy(io_context_t wanted)
{
    pthread_mutex_lock(&lock);
    io_context_t context = find(wanted);
    if (context == NULL) {
        pthread_mutex_unlock(&lock);
        return -EINVAL;
    }
    io_context_t *link = &contexts;
    while (*link != context)
        link = &(*link)->next;
    *link = context->next;
    context->dying = true;
    pthread_cond_broadcast(&context->changed);
    while (context->in_flight > 0 || context->users > 0)
        pthread_cond_wait(&context->changed, &lock);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&context->changed);
    free(context->requests);
    free(context);
    return 0;
}

/* What the kernel refuses at submission; 0 when the operation may be queued. */
static int check(const struct iocb *op)
{
    bool reads = op->opcode == OP_PREAD || op->opcode == OP_PREADV;
    bool writes = op->opcode == OP_PWRITE || op->opcode == OP_PWRITEV;
    bool vectored = op->opcode == OP_PREADV || op->opcode == OP_PWRITEV;
    int mode = fcntl(op->fd, F_GETFL);

    if (mode < 0)
        return -EBADF;
    if (!reads && !writes && op->opcode != OP_FSYNC && op->opcode != OP_FDSYNC)
        return -EINVAL;
    if ((reads && (mode & O_ACCMODE) == O_WRONLY) || (writes && (mode & O_ACCMODE) == O_RDONLY))
        return -EBADF;
    if ((op->flags & FLAG_RESFD) && fcntl((int)op->resfd, F_GETFL) < 0)
        return -EBADF;
    if (op->nbytes > (vectored ? IOV_MAX : SSIZE_MAX))
        return -EINVAL;
    return op->rw_flags != 0 ? -EOPNOTSUPP : 0;
}

/* Queue one operation; with the lock held. */
static int submit(io_context_t context, struct iocb *user)
{
    if (user == NULL)
        return -EFAULT;
    int error = check(user);
    if (error != 0)
        return error;
    struct request *request = context->spare;
    if (request == NULL)
        return -EAGAIN;
    request->user = user;
    request->op = *user;
    request->vectors = request->inline_vectors;
    if (user->opcode == OP_PREADV || user->opcode == OP_PWRITEV) {
        /* Copied, as the kernel does: the caller's array may live on a stack that is gone by then. */
        size_t bytes = user->nbytes * sizeof(struct iovec);
        if (user->nbytes > INLINE_VECTORS && (request->vectors = malloc(bytes)) == NULL)
            return -ENOMEM;
        if (bytes > 0)
            memcpy(request->vectors, user->buf, bytes);
    }
    context->spare = request->next;
    context->in_flight++;
    append(&queue, request);
    if (idle_workers > 0)
        pthread_cond_signal(&work);
    return 0;
}

EXPORT int io_submit(io_context_t wanted, long nr, struct iocb **ops)
{
    int count = 0, error = 0;

    if (nr < 0)
        return -EINVAL;
    pthread_mutex_lock(&lock);
    io_context_t context = find(wanted);
    if (context == NULL)
        error = -EINVAL;
    while (error == 0 && count < nr) {
        error = submit(context, ops[count]);
        if (error == 0)
            count++;
    }
    pthread_mutex_unlock(&lock);
    /* An error is told only when nothing was taken; else the caller submits the rest again and meets it then. */
    return count > 0 ? count : error;
}

EXPORT int io_cancel(io_context_t wanted, struct iocb *user, struct io_event *event)
{
    int answer = -EINVAL;

    (void)event; /* as in kernels since 3.11 the event is reaped like any other */
    pthread_mutex_lock(&lock);
    io_context_t context = find(wanted);
    for (struct request **link = &queue.first; context != NULL && *link != NULL; link = &(*link)->next) {
        struct request *request = *link;
        if (request->context != context || request->user != user)
            continue;
        *link = request->next;
        if (queue.end == &request->next)
            queue.end = link;
        complete(request, -ECANCELED);
        answer = -EINPROGRESS;
        break;
    }
    pthread_mutex_unlock(&lock);
    return answer;
}

/* Move up to nr events out; with the lock held. */
static long reap(io_context_t context, long nr, struct io_event *events)
{
    long count = 0;
    struct request *request;

    while (count < nr && (request = take(&context->done)) != NULL) {
        events[count++] = (struct io_event){request->op.data, request->user, request->result, 0};
        request->next = context->spare;
        context->spare = request;
    }
    return count;
}

static struct timespec deadline_after(const struct timespec *timeout)
{
    const time_t longest = 1000000000; /* 30 years; keeps the sum from overflowing */
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += timeout->tv_sec < longest ? timeout->tv_sec : longest;
    at.tv_nsec += timeout->tv_nsec;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

EXPORT int io_getevents(io_context_t wanted, long min_nr, long nr, struct io_event *events, struct timespec *timeout)
{
    struct timespec deadline = {0, 0};
    int waited = 0;

    if (min_nr < 0 || min_nr > nr)
        return -EINVAL;
    if (timeout != NULL) {
        if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000)
            return -EINVAL;
        deadline = deadline_after(timeout);
    }
    pthread_mutex_lock(&lock);
    io_context_t context = find(wanted);
    if (context == NULL) {
        pthread_mutex_unlock(&lock);
        return -EINVAL;
    }
    context->users++;
    long count = reap(context, nr, events);
    while (count < min_nr && waited != ETIMEDOUT && !context->dying) {
        if (timeout == NULL)
            pthread_cond_wait(&context->changed, &lock);
        else
            waited = pthread_cond_timedwait(&context->changed, &lock, &deadline);
        count += reap(context, nr - count, events + count);
    }
    context->users--;
    bool destroyed = context->dying;
    if (destroyed)
        pthread_cond_broadcast(&context->changed);
    pthread_mutex_unlock(&lock);
    return destroyed && count == 0 ? -EINVAL : (int)count;
}

EXPORT int io_pgetevents(io_context_t context, long min_nr, long nr, struct io_event *events,
                         struct timespec *timeout, sigset_t *mask)
{
    sigset_t before;

    if (mask != NULL)
        pthread_sigmask(SIG_SETMASK, mask, &before);
    int count = io_getevents(context, min_nr, nr, events, timeout);
    if (mask != NULL)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    return count;
}

EXPORT int io_queue_init(int maxevents, io_context_t *result)
{
    if (maxevents <= 0 || result == NULL)
        return -EINVAL;
    *result = NULL; /* unlike io_setup it takes an uninitialised one */
    return io_setup(maxevents, result);
}

EXPORT int io_queue_release(io_context_t context) { return io_destroy(context); }

EXPORT int io_queue_run(io_context_t context)
{
    struct timespec none = {0, 0};
    struct io_event event;
    int count;

    while ((count = io_getevents(context, 0, 1, &event, &none)) == 1)
        ((io_callback_t)event.data)(context, event.obj, event.res, event.res2);
    return count;
}
