/* A clock that is wrong by CEPHLAB_SKEW_NS nanoseconds, for one program: what the kernel says is the time of day, moved.
 *
 * Preloaded into a daemon. Clocks that only measure durations stay right. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SECOND_NS 1000000000LL

static long long skew_ns;

/* By hand: strtoll of a new compiler's headers is a symbol that an older image's libc does not have. */
static long long number(const char *text) {
  long long value = 0;
  for (const char *digit = text + (*text == '-'); *digit >= '0' && *digit <= '9'; digit++) {
    value = value * 10 + (*digit - '0');
  }
  return *text == '-' ? -value : value;
}

__attribute__((constructor)) static void read_skew(void) {
  const char *text = getenv("CEPHLAB_SKEW_NS");
  skew_ns = text ? number(text) : 0;
}

static void move(struct timespec *now) {
  long long ns = now->tv_sec * SECOND_NS + now->tv_nsec + skew_ns;
  now->tv_sec = ns / SECOND_NS;
  now->tv_nsec = ns % SECOND_NS;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, id, now);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    move(now);
  }
  return failed;
}

EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &precise)) {
    return -1;
  }
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

EXPORT time_t time(time_t *result) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) {
    return (time_t)-1;
  }
  if (result) {
    *result = now.tv_sec;
  }
  return now.tv_sec;
}
