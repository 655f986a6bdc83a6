/*
 * A daemon that prints what a sanitizer would, ten seconds after its start, and goes on as if nothing had happened.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *say(void *nothing)
{
    sleep(10);
    fprintf(stderr, "==%d==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000010\n", getpid());
    return nothing;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, say, NULL) == 0)
        pthread_detach(thread);
}
