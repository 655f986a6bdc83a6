/*
 * Cases of aio_test.c that do one operation at a time: data, vectors, syncing, and every way of being refused.
 */
static const char *read_after_write(void)
{
    static char out[16 * BLOCK], in[16 * BLOCK], plain[16 * BLOCK];
    fill(out, sizeof out, 1);
    long wrote = once(op(PWRITE, fd, out, sizeof out, 3 * BLOCK));
    CHECK(wrote == sizeof out, "res %ld", wrote);
    long got = once(op(PREAD, fd, in, sizeof in, 3 * BLOCK));
    CHECK(got == sizeof in, "res %ld", got);
    CHECK(memcmp(in, out, sizeof in) == 0, "read back something else");
    CHECK(pread(fd, plain, sizeof plain, 3 * BLOCK) == sizeof plain, "errno %d", errno);
    CHECK(memcmp(plain, out, sizeof out) == 0, "the file holds something else");
    return NULL;
}

static const char *short_read(void)
{
    char buf[BLOCK];
    CHECK(pwrite(fd, "0123456789", 10, 0) == 10, "errno %d", errno);
    long got = once(op(PREAD, fd, buf, sizeof buf, 4));
    CHECK(got == 6 && memcmp(buf, "456789", 6) == 0, "res %ld", got);
    got = once(op(PREAD, fd, buf, sizeof buf, BLOCK));
    CHECK(got == 0, "res %ld behind the end", got);
    return NULL;
}

static const char *vectored(void)
{
    static char out[20 * 100], in[20 * 100];
    struct iovec pieces[20], halves[2] = {{in, 777}, {in + 777, sizeof in - 777}};
    struct iocb write = op(PWRITEV, fd, pieces, 20, 50), *list = &write;
    struct io_event event;
    struct timespec patience = milliseconds(10000);
    fill(out, sizeof out, 2);
    for (int count = 3; count <= 20; count += 17) { /* few and many: copied in two ways */
        for (int i = 0; i < 20; i++)
            pieces[i] = (struct iovec){out + i * 100, 100};
        write.nbytes = (uint64_t)count;
        CHECK(submit(ctx, 1, &list) == 1, "with %d pieces", count);
        memset(pieces, 0, sizeof pieces); /* the caller's array is its own again */
        CHECK(getevents(ctx, 1, 1, &event, &patience) == 1, "with %d pieces", count);
        CHECK(event.res == count * 100, "res %ld with %d pieces", event.res, count);
    }
    long got = once(op(PREADV, fd, halves, 2, 50));
    CHECK(got == sizeof in, "res %ld", got);
    CHECK(memcmp(in, out, sizeof in) == 0, "read back something else");
    long tooMany = once(op(PREADV, fd, halves, 1 << 20, 0));
    CHECK(tooMany == -EINVAL, "answer %ld to a million pieces", tooMany);
    return NULL;
}

static const char *sync_file(void)
{
    int ends[2];
    CHECK(pwrite(fd, "x", 1, 0) == 1, "errno %d", errno);
    long full = once(op(FSYNC, fd, NULL, 0, 0)), data = once(op(FDSYNC, fd, NULL, 0, 0));
    CHECK(full == 0 && data == 0, "fsync %ld, fdatasync %ld", full, data);
    CHECK(pipe(ends) == 0, "errno %d", errno);
    long answer = once(op(FSYNC, ends[0], NULL, 0, 0));
    close(ends[0]);
    close(ends[1]);
    CHECK(answer == -EINVAL, "answer %ld on a pipe", answer);
    return NULL;
}

static const char *bad_descriptors(void)
{
    char buf[BLOCK];
    int closed = dup(fd), reader = open(path, O_RDONLY), writer = open(path, O_WRONLY);
    close(closed);
    long none = once(op(PREAD, -1, buf, 1, 0)), gone = once(op(PWRITE, closed, buf, 1, 0));
    long read_only = once(op(PWRITE, reader, buf, 1, 0)), write_only = once(op(PREAD, writer, buf, 1, 0));
    close(reader);
    close(writer);
    CHECK(none == -EBADF && gone == -EBADF, "answers %ld, %ld", none, gone);
    CHECK(read_only == -EBADF && write_only == -EBADF, "answers %ld, %ld", read_only, write_only);
    return NULL;
}

static const char *error_in_event(void)
{
    char buf[BLOCK] = {0};
    struct rlimit before, tight;
    struct iocb write = op(PWRITE, fd, buf, sizeof buf, 2 * BLOCK), *list = &write;
    struct io_event event = {0};
    struct timespec patience = milliseconds(10000);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0, "errno %d", errno);
    tight = (struct rlimit){BLOCK, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &tight);
    int taken = submit(ctx, 1, &list), reaped = getevents(ctx, 1, 1, &event, &patience);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(taken == 1 && reaped == 1, "submitted %d, reaped %d", taken, reaped);
    CHECK(event.res == -EFBIG, "res %ld", event.res);
    return NULL;
}

static const char *bad_opcode(void)
{
    char buf[8];
    struct iocb good = op(PWRITE, fd, "abcdefgh", 8, 0), bad = op(99, fd, buf, 8, 0), *list[] = {&good, &bad, &good};
    struct io_event events[3];
    struct timespec patience = milliseconds(10000);
    long answer = once(bad);
    CHECK(answer == -EINVAL, "answer %ld", answer);
    int taken = submit(ctx, 3, list);
    CHECK(taken == 1, "%d taken of good, bad, good", taken);
    CHECK(getevents(ctx, 1, 3, events, &patience) == 1 && events[0].obj == &good, "not the good one's event");
    return NULL;
}

static const char *bad_arguments(void)
{
    context_t other = NULL, used = (context_t)0x10;
    struct iocb *none = NULL;
    struct io_event event;
    struct timespec nonsense = {0, 1000000000};
    int zero = setup(0, &other), full = setup(4, &used);
    CHECK(zero == -EINVAL && full == -EINVAL, "setup: %d, %d", zero, full);
    CHECK(getevents(ctx, 2, 1, &event, NULL) == -EINVAL, "min_nr above nr");
    CHECK(getevents(ctx, -1, 1, &event, NULL) == -EINVAL, "negative min_nr");
    CHECK(getevents(ctx, 1, 1, &event, &nonsense) == -EINVAL, "a second of nanoseconds");
    CHECK(submit(ctx, -1, &none) == -EINVAL && submit(ctx, 0, &none) == 0, "submit of -1 and 0");
    CHECK(setup(4, &other) == 0 && destroy(other) == 0, "setup and destroy");
    CHECK(destroy(other) == -EINVAL, "destroyed twice");
    CHECK(submit(other, 0, &none) == -EINVAL, "submit to a destroyed context");
    return NULL;
}

struct later {
    pthread_t thread;
    context_t target;
    struct iocb read;
    char buf[8];
    int answer;
};
