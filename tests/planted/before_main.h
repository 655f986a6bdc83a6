/*
 * Calls plant() between a program's constructors and its main(): takes the place of __libc_start_main, since a library
 * that a constructor of the program fills in is not ready before. Whoever includes it defines plant() first.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef int (*main_t)(int, char **, char **);
typedef int (*start_t)(main_t, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static main_t real_main;

static int plant_then_main(int count, char **arguments, char **environment)
{
    plant();
    return real_main(count, arguments, environment);
}

__attribute__((visibility("default"))) int __libc_start_main(main_t main, int count, char **arguments,
                                                             void (*init)(void), void (*fini)(void),
                                                             void (*rtld_fini)(void), void *stack_end)
{
    start_t start;
    void *found = dlsym(RTLD_NEXT, "__libc_start_main");

    if (found == NULL)
        abort();
    memcpy(&start, &found, sizeof start);
    real_main = main;
    return start(plant_then_main, count, arguments, init, fini, rtld_fini, stack_end);
}
