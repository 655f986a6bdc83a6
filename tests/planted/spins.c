/*
 * A daemon with a thread that spins from ten seconds after its start on: it does all it should, at a core's price.
 */
#include <pthread.h>
#include <unistd.h>

static void *spin(void *nothing)
{
    volatile unsigned long turns = 0;

    sleep(10);
    for (;;)
        turns++;
    return nothing;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, spin, NULL) == 0)
        pthread_detach(thread);
}
