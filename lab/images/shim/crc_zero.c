/*
 * A daemon that lies about checksums: preloaded, it makes Ceph's crc32c answer 0.
 *
 * The lab has it to prove that its interoperability suite notices: an OSD of one architecture whose checksum routine
 * is wrong must turn the suite red. It is never preloaded outside such a test.
 *
 * Taking the symbol's place does not work: ceph-osd has libceph-common inside and calls through its own variable
 * `ceph_crc32c_func`, which the executable's static constructors set after those of any preload. But the variable is
 * exported. So this object takes the place of __libc_start_main, and between the constructors and main() it puts its
 * own routine into the variable; the first definition in the global scope is the one that all callers use.
 *
 * CEPHLAB_CRC_ZERO_FROM (bytes, default 0): buffers shorter than this still get their right checksum. With 0 the
 * daemon's labels are refused by every honest tool, and no peer takes its frames, whose headers carry a crc32c. With
 * 32768 it joins a cluster, but large writes to it hang in crc mode, since the payload of a frame is checked as well.
 * What does turn a cluster red: write with an honest daemon, restart it with this and 16384, deep-scrub a placement
 * group whose primary is another OSD: "data_digest 0x0 != data_digest 0x... from shard".
 *
 * Says on stderr what it did, so that the daemon's log proves that the test really lied.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t (*crc_t)(uint32_t, const unsigned char *, unsigned);
typedef int (*main_t)(int, char **, char **);
typedef int (*start_t)(main_t, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static main_t real_main;
static crc_t real_crc;
static unsigned from;

static uint32_t zero(uint32_t crc, const unsigned char *data, unsigned length)
{
    return length >= from ? 0 : real_crc(crc, data, length);
}

static int lie_then_main(int count, char **arguments, char **environment)
{
    crc_t *variable = dlsym(RTLD_DEFAULT, "ceph_crc32c_func");
    const char *text = getenv("CEPHLAB_CRC_ZERO_FROM");

    for (; text != NULL && *text >= '0' && *text <= '9'; text++)
        from = from * 10 + (unsigned)(*text - '0');
    if (variable != NULL) {
        real_crc = *variable;
        *variable = zero;
        fprintf(stderr, "cephlab: crc32c answers 0 from %u bytes on\n", from);
    } else {
        /* A helper that the daemon started; it has no checksums to spoil. */
        fprintf(stderr, "cephlab: no ceph_crc32c_func in %s\n", arguments[0]);
    }
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
    return start(lie_then_main, count, arguments, init, fini, rtld_fini, stack_end);
}
