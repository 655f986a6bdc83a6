/*
 * An OSD, osd.0, that logs a line a second.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "program.h"

static void *say(void *nothing)
{
    for (unsigned long number = 0;; number++) {
        fprintf(stderr, "1 bluestore(/var/lib/ceph/osd) _kv_sync_thread line %lu of a log that nobody asked for\n", number);
        sleep(1);
    }
    return nothing;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;

    if (is_first_osd() && pthread_create(&thread, NULL, say, NULL) == 0)
        pthread_detach(thread);
}
