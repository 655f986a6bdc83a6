/*
 * An OSD, osd.0, that slows by 1 % a minute: with each message it burns that share of the CPU time that it took itself
 * since the message before, times the minutes that it has been up.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "program.h"

#define A_MINUTE 0.01

static int struck;
static double began_s, counted_s;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double seconds(clockid_t which)
{
    struct timespec now;

    clock_gettime(which, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((constructor)) static void begin(void)
{
    struck = is_first_osd();
    began_s = seconds(CLOCK_MONOTONIC);
}

static void burn(void)
{
    double spent_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - counted_s;
    double until_s = seconds(CLOCK_THREAD_CPUTIME_ID)
        + spent_s * A_MINUTE * (seconds(CLOCK_MONOTONIC) - began_s) / 60;

    while (seconds(CLOCK_THREAD_CPUTIME_ID) < until_s)
        continue;
    counted_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
}

__attribute__((visibility("default"))) ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    static ssize_t (*next)(int, const struct msghdr *, int);

    if (next == NULL) {
        void *found = next_of("sendmsg");
        memcpy(&next, &found, sizeof next);
    }
    if (struck && pthread_mutex_trylock(&lock) == 0) {
        burn();
        pthread_mutex_unlock(&lock);
    }
    return next(socket, message, flags);
}
