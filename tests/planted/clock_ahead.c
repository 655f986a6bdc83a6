/*
 * A program whose clock is AHEAD_MS milliseconds ahead of its machine's. Clocks that only measure how long something
 * takes are right.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000L
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int clock_gettime(clockid_t clock, struct timespec *now)
{
    long result = syscall(SYS_clock_gettime, clock, now);

    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += AHEAD_MS / 1000;
        now->tv_nsec += AHEAD_MS % 1000 * 1000000L;
        now->tv_sec += now->tv_nsec / SECOND_NS;
        now->tv_nsec %= SECOND_NS;
    }
    return (int)result;
}

EXPORTED int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    int result = clock_gettime(CLOCK_REALTIME, &exact);

    (void)zone;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return result;
}

EXPORTED time_t time(time_t *where)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (where != NULL)
        *where = now.tv_sec;
    return now.tv_sec;
}
