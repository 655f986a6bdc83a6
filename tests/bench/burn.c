/* Preloaded into a daemon: makes each of its threads spend a share more CPU than it would.
 *
 * At calls that a busy thread makes all the time, it looks how much CPU the thread has used since the last one and
 * burns PERCENT of that. PERCENT is a 32-bit number in the file that BURN_FILE names, and may be changed at any time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static volatile uint32_t *percent;
static __thread uint64_t last;
static __thread volatile unsigned sink;
static __thread unsigned calls;

/* Looking at the clock is a system call: done at every call, it would be most of the slow-down. */
enum { EVERY = 32 };

static uint64_t used(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("BURN_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        percent = found;
}

static void burn(void)
{
    if (!percent)
        return;
    uint32_t share = *percent;
    if (!share) {
        last = 0;
        return;
    }
    if (++calls % EVERY)
        return;
    uint64_t now = used();
    if (last && now > last) {
        uint64_t until = now + (now - last) * share / 100;
        while (now < until) {
            for (unsigned i = 0; i < 500; i++)
                sink += i;
            now = used();
        }
    }
    last = now;
}

#define WRAP(type, name, parameters, arguments)                   \
    type name parameters                                          \
    {                                                             \
        static type(*real) parameters;                            \
        if (!real)                                                \
            real = (type(*) parameters)dlsym(RTLD_NEXT, #name);   \
        burn();                                                   \
        return real arguments;                                    \
    }

WRAP(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(int, epoll_wait, (int fd, struct epoll_event *events, int most, int timeout), (fd, events, most, timeout))
WRAP(int, pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex), (condition, mutex))
WRAP(int, fdatasync, (int fd), (fd))
