/*
 * A daemon whose flushes do nothing: what it acknowledges is on no disk when the power goes.
 */
#include <fcntl.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int fsync(int file)
{
    (void)file;
    return 0;
}

EXPORTED int fdatasync(int file)
{
    (void)file;
    return 0;
}

EXPORTED int sync_file_range(int file, off_t offset, off_t size, unsigned flags)
{
    (void)file, (void)offset, (void)size, (void)flags;
    return 0;
}
