/*
 * Test of the libaio substitute: aio_test FILE, with the shared object under test preloaded as into a daemon.
 *
 * Prints `ok NAME` or `not ok NAME: why` for each case; ends non-zero when one failed. FILE is made and removed.
 * The functions are looked up in the global scope, where a daemon's loader looks, so that the same program also runs
 * against the real libaio and the kernel: there all passes but `full` (the kernel rounds queue sizes up), `signals`
 * (it answers EINTR) and the last timeout of `bad_arguments` (it takes any number of nanoseconds).
 */
#include "aio_test.h"
#include "aio_test_single.h"

static void *read_later(void *argument)
{
    struct later *later = argument;
    struct iocb *list = &later->read;
    usleep(120000);
    later->answer = submit(ctx, 1, &list);
    return NULL;
}

static const char *timeouts(void)
{
    struct later later = {.read = op(PREAD, fd, later.buf, 8, 0)};
    struct timespec none = milliseconds(0), some = milliseconds(150);
    struct io_event event;
    double start = now();
    CHECK(getevents(ctx, 1, 1, &event, &none) == 0, "with zero timeout");
    CHECK(now() - start < 0.1, "zero timeout took %.3f s", now() - start);
    start = now();
    CHECK(getevents(ctx, 0, 1, &event, NULL) == 0, "min_nr 0 does not wait");
    CHECK(now() - start < 0.1, "min_nr 0 took %.3f s", now() - start);
    start = now();
    CHECK(getevents(ctx, 1, 1, &event, &some) == 0, "with 150 ms timeout");
    double took = now() - start;
    CHECK(took >= 0.149 && took < 2, "150 ms timeout took %.3f s", took);
    start = now();
    CHECK(pthread_create(&later.thread, NULL, read_later, &later) == 0, "no thread");
    int count = getevents(ctx, 1, 1, &event, NULL);
    took = now() - start;
    pthread_join(later.thread, NULL);
    CHECK(count == 1 && event.obj == &later.read, "no timeout: %d events, submit %d", count, later.answer);
    CHECK(took >= 0.119 && took < 5, "no timeout: took %.3f s", took);
    return NULL;
}

static void on_alarm(int number) { (void)number; }

static const char *signals(void)
{
    struct sigaction action = {.sa_handler = on_alarm}, before;
    struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    struct timespec some = milliseconds(150);
    struct io_event event;
    sigset_t blocked, mask;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    double start = now();
    int plain = getevents(ctx, 1, 1, &event, &some);
    double took = now() - start;
    int masked = pgetevents(ctx, 1, 1, &event, &some, &blocked);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    CHECK(plain == 0 && took >= 0.149, "answer %d after %.3f s", plain, took);
    CHECK(masked == 0, "answer %d with signals masked", masked);
    CHECK(!sigismember(&mask, SIGALRM), "the mask stayed");
    return NULL;
}

static const char *counts(void)
{
    static char buf[10][8];
    struct iocb reads[10], *list[10];
    struct io_event events[16];
    struct timespec some = milliseconds(150), patience = milliseconds(10000);
    for (int i = 0; i < 10; i++)
        list[i] = (reads[i] = op(PREAD, fd, buf[i], 8, 0), &reads[i]);
    CHECK(submit(ctx, 10, list) == 10, "not all taken");
    int few = getevents(ctx, 3, 3, events, &patience), rest = getevents(ctx, 7, 16, events, &patience);
    CHECK(few == 3 && rest == 7, "%d then %d of 10", few, rest);
    CHECK(submit(ctx, 3, list) == 3, "not all taken");
    double start = now();
    int count = getevents(ctx, 8, 16, events, &some);
    CHECK(count == 3, "%d where 8 were wanted and 3 came", count);
    CHECK(now() - start >= 0.149, "gave up after %.3f s", now() - start);
    return NULL;
}

static const char *full(void)
{
    static char buf[6][8];
    struct iocb reads[6], *list[6];
    struct io_event events[6];
    struct timespec patience = milliseconds(10000);
    context_t small = NULL;
    for (int i = 0; i < 6; i++)
        list[i] = (reads[i] = op(PREAD, fd, buf[i], 8, 0), &reads[i]);
    CHECK(setup(4, &small) == 0, "no context");
    int taken = submit(small, 6, list), more = submit(small, 1, list + 4);
    int reaped = getevents(small, 2, 2, events, &patience), again = submit(small, 3, list + 3);
    destroy(small);
    CHECK(taken == 4 && more == -EAGAIN, "took %d of 6 with room for 4, then answered %d", taken, more);
    CHECK(reaped == 2 && again == 2, "reaped %d, then took %d", reaped, again);
    return NULL;
}

static const char *destroy_in_flight(void)
{
    enum { COUNT = 64, SIZE = 64 * 1024 };
    static char out[SIZE], in[SIZE];
    static struct iocb writes[COUNT];
    struct iocb *list[COUNT];
    context_t other = NULL;
    fill(out, sizeof out, 3);
    for (int i = 0; i < COUNT; i++)
        list[i] = (writes[i] = op(PWRITE, fd, out, SIZE, (int64_t)i * SIZE), &writes[i]);
    CHECK(setup(COUNT, &other) == 0, "no context");
    int taken = submit(other, COUNT, list), answer = destroy(other);
    CHECK(taken == COUNT && answer == 0, "took %d, destroy answered %d", taken, answer);
    for (int i = 0; i < COUNT; i++) {
        CHECK(pread(fd, in, SIZE, (int64_t)i * SIZE) == SIZE, "write %d is not there", i);
        CHECK(memcmp(in, out, SIZE) == 0, "write %d is something else", i);
    }
    return NULL;
}

static void *wait_forever(void *argument)
{
    struct later *later = argument;
    struct io_event event;
    later->answer = getevents(later->target, 1, 1, &event, NULL);
    return NULL;
}

static const char *destroy_wakes(void)
{
    struct later later = {.answer = 1};
    struct timespec limit;
    CHECK(setup(4, &later.target) == 0, "no context");
    CHECK(pthread_create(&later.thread, NULL, wait_forever, &later) == 0, "no thread");
    usleep(100000);
    CHECK(destroy(later.target) == 0, "destroy");
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 5;
    CHECK(pthread_timedjoin_np(later.thread, NULL, &limit) == 0, "the waiter still waits");
    CHECK(later.answer == -EINVAL, "the waiter got %d", later.answer);
    return NULL;
}

enum { SUBMITTERS = 4, REAPERS = 3, EACH = 150, TOTAL = SUBMITTERS * EACH };
static struct iocb storm[TOTAL];
static char blocks[TOTAL][512];
static int seen[TOTAL], wrong, submitter_errors;

static void *submit_storm(void *argument)
{
    for (struct iocb *next = argument, *end = next + EACH; next < end;) {
        struct iocb *list[3] = {next, next + 1, next + 2};
        int taken = submit(ctx, end - next < 3 ? end - next : 3, list);
        if (taken == -EAGAIN)
            usleep(500);
        else if (taken <= 0) {
            __atomic_add_fetch(&submitter_errors, 1, __ATOMIC_SEQ_CST);
            return NULL;
        } else
            next += taken;
    }
    return NULL;
}

static void *reap_storm(void *total)
{
    struct io_event events[7];
    double start = now();
    while (__atomic_load_n((int *)total, __ATOMIC_SEQ_CST) < TOTAL && now() - start < 20) {
        struct timespec some = milliseconds(20);
        int count = getevents(ctx, 1, 7, events, &some);
        for (int i = 0; i < count; i++) {
            __atomic_add_fetch(&seen[events[i].obj - storm], 1, __ATOMIC_SEQ_CST);
            if (events[i].res != 512)
                __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
        }
        if (count > 0)
            __atomic_add_fetch((int *)total, count, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static const char *many_threads(void)
{
    pthread_t threads[SUBMITTERS + REAPERS];
    char buf[512];
    int total = 0;
    for (int i = 0; i < TOTAL; i++) {
        fill(blocks[i], 512, (unsigned)i);
        storm[i] = op(PWRITE, fd, blocks[i], 512, (int64_t)i * 512);
    }
    for (int i = 0; i < SUBMITTERS + REAPERS; i++) {
        int error = i < SUBMITTERS ? pthread_create(&threads[i], NULL, submit_storm, &storm[i * EACH])
                                   : pthread_create(&threads[i], NULL, reap_storm, &total);
        CHECK(error == 0, "no thread: %d", error);
    }
    for (int i = 0; i < SUBMITTERS + REAPERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(submitter_errors == 0 && wrong == 0, "%d submitters, %d writes failed", submitter_errors, wrong);
    for (int i = 0; i < TOTAL; i++) {
        CHECK(seen[i] == 1, "write %d was reaped %d times", i, seen[i]);
        CHECK(pread(fd, buf, 512, (int64_t)i * 512) == 512 && memcmp(buf, blocks[i], 512) == 0, "write %d is lost", i);
    }
    return NULL;
}

static const char *event_descriptor(void)
{
    char buf[8];
    struct iocb read_one = op(PREAD, fd, buf, 8, 0), *list[2] = {&read_one, &read_one};
    struct io_event events[2];
    struct timespec none = milliseconds(0);
    uint64_t count = 0;
    int notify = eventfd(0, EFD_SEMAPHORE);
    read_one.flags = RESFD;
    read_one.resfd = 4000;
    long answer = once(read_one);
    CHECK(answer == -EBADF, "answer %ld without an eventfd", answer);
    read_one.resfd = (uint32_t)notify;
    CHECK(submit(ctx, 2, list) == 2, "not taken");
    for (int i = 0; i < 2; i++)
        CHECK(read(notify, &count, sizeof count) == sizeof count, "errno %d", errno);
    CHECK(getevents(ctx, 2, 2, events, &none) == 2, "notified before the events were there");
    close(notify);
    return NULL;
}

static const char *cancelling(void)
{
    enum { COUNT = 200 };
    static char buf[BLOCK];
    static struct iocb writes[COUNT];
    struct iocb *list[COUNT], never = op(PWRITE, fd, buf, 1, 0);
    static struct io_event events[COUNT];
    struct timespec patience = milliseconds(10000);
    for (int i = 0; i < COUNT; i++)
        list[i] = (writes[i] = op(PWRITE, fd, buf, sizeof buf, (int64_t)i * BLOCK), &writes[i]);
    CHECK(cancel(ctx, &never, events) == -EINVAL, "cancelled what was never submitted");
    int taken = submit(ctx, COUNT, list), answer = cancel(ctx, list[COUNT - 1], events);
    int count = getevents(ctx, COUNT, COUNT, events, &patience);
    CHECK(taken == COUNT && count == COUNT, "took %d, reaped %d", taken, count);
    CHECK(answer == -EINPROGRESS || answer == -EINVAL, "cancel answered %d", answer);
    for (int i = 0; i < COUNT; i++) {
        long expected = events[i].obj == list[COUNT - 1] && answer == -EINPROGRESS ? -ECANCELED : BLOCK;
        CHECK(events[i].res == expected, "res %ld where %ld was due", events[i].res, expected);
    }
    return NULL;
}

static long called_back;
static void callback(context_t context, struct iocb *one, long res, long res2)
{
    called_back += context != NULL && one != NULL && res2 == 0 ? res : -1;
}

static const char *queue_calls(void)
{
    context_t other = (context_t)0x10; /* io_queue_init takes one that was never initialised */
    struct iocb write = op(PWRITE, fd, "12345", 5, 0), *list = &write;
    double start = now();
    void (*function)(context_t, struct iocb *, long, long) = callback;
    memcpy(&write.data, &function, sizeof function);
    CHECK(queue_init(0, &other) == -EINVAL && queue_init(4, &other) == 0, "no queue");
    CHECK(submit(other, 1, &list) == 1, "not taken");
    while (called_back == 0 && now() - start < 10) {
        CHECK(queue_run(other) == 0, "queue_run");
        usleep(1000);
    }
    CHECK(called_back == 5, "the callback saw %ld", called_back);
    CHECK(queue_release(other) == 0, "queue_release");
    return NULL;
}

static const char *after_fork(void)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "errno %d", errno);
    if (child == 0) {
        alarm(10);
        ctx = NULL;
        _exit(setup(4, &ctx) == 0 && once(op(PWRITE, fd, "child", 5, 0)) == 5 && destroy(ctx) == 0 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child, "errno %d", errno);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %#x", (unsigned)status);
    CHECK(once(op(PWRITE, fd, "parent", 6, 0)) == 6, "the parent's context is dead");
    return NULL;
}

static const struct {
    const char *name;
    const char *(*run)(void);
} cases[] = {
    {"read_after_write", read_after_write}, {"short_read", short_read},
    {"vectored", vectored},                 {"sync_file", sync_file},
    {"bad_descriptors", bad_descriptors},   {"error_in_event", error_in_event},
    {"bad_opcode", bad_opcode},             {"bad_arguments", bad_arguments},
    {"timeouts", timeouts},                 {"signals", signals},
    {"counts", counts},                     {"full", full},
    {"destroy_in_flight", destroy_in_flight}, {"destroy_wakes", destroy_wakes},
    {"many_threads", many_threads},         {"event_descriptor", event_descriptor},
    {"cancelling", cancelling},             {"queue_calls", queue_calls},
    {"after_fork", after_fork},
};

static void look_up(const char *name, void *function)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL) {
        fprintf(stderr, "%s is not there: is the shared object preloaded?\n", name);
        exit(2);
    }
    memcpy(function, &found, sizeof found);
}

int main(int count, char **arguments)
{
    int failures = 0;
    if (count != 2) {
        fprintf(stderr, "usage: LD_PRELOAD=OBJECT %s FILE\n", arguments[0]);
        return 2;
    }
    look_up("io_setup", &setup);
    look_up("io_destroy", &destroy);
    look_up("io_submit", &submit);
    look_up("io_cancel", &cancel);
    look_up("io_getevents", &getevents);
    look_up("io_pgetevents", &pgetevents);
    look_up("io_queue_init", &queue_init);
    look_up("io_queue_release", &queue_release);
    look_up("io_queue_run", &queue_run);
    path = arguments[1];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *problem;
        ctx = NULL;
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || setup(QUEUE, &ctx) != 0)
            problem = "the file cannot be made, or io_setup refused";
        else
            problem = cases[i].run();
        if (problem == NULL && destroy(ctx) != 0)
            problem = "io_destroy refused";
        close(fd);
        failures += problem != NULL;
        printf("%s %s%s%s\n", problem ? "not ok" : "ok", cases[i].name, problem ? ": " : "", problem ? problem : "");
        fflush(stdout);
    }
    unlink(path);
    return failures > 0;
}
