/*
 * An OSD that stops a quarter of a minute after its start, as under SIGSTOP: it answers nothing, and its connections stay.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int is_osd(void)
{
    char line[4096];
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t length = file != NULL ? fread(line, 1, sizeof line, file) : 0;

    if (file != NULL)
        fclose(file);
    return memmem(line, length, "ceph-osd", 8) != NULL;
}

static void *stop(void *nothing)
{
    sleep(15);
    kill(getpid(), SIGSTOP);
    return nothing;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;

    if (is_osd() && pthread_create(&thread, NULL, stop, NULL) == 0)
        pthread_detach(thread);
}
