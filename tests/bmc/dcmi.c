/*
 * A module for OpenIPMI's ipmi_sim, which knows no DCMI: it answers "Get Power Reading" (DCMI 1.5, 6.6.1), and any other
 * DCMI command alike, with the watts in a file. Its option is the file's path. A file that is not there or holds no
 * number is a reading that is not active.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DCMI 0xDC
#define ACTIVE 0x40
#define PERIOD_MS 1000

/* Of OpenIPMI's lanserv (mcserv.h); what they point to is not looked into here. */
typedef void handler(void *mc, void *message, unsigned char *answer, unsigned int *length, void *data);
extern void ipmi_emu_register_group_extension_handler(uint8_t extension, handler *called, void *data);

__attribute__((visibility("default"))) int ipmi_sim_module_print_version(void *sys, char *options);
__attribute__((visibility("default"))) int ipmi_sim_module_init(void *sys, const char *options);

static char path[4096];

static void put(unsigned char *to, uint32_t value, int bytes)
{
    for (int at = 0; at < bytes; at++)
        to[at] = (unsigned char)(value >> (8 * at));
}

static void answered(void *mc, void *message, unsigned char *answer, unsigned int *length, void *data)
{
    FILE *file = fopen(path, "r");
    unsigned int watts = 0;
    int known = file != NULL && fscanf(file, "%u", &watts) == 1;

    (void)mc, (void)message, (void)data;
    if (file != NULL)
        fclose(file);
    memset(answer, 0, 19);
    answer[1] = DCMI;
    for (int at = 2; at < 10; at += 2) /* now, least, most, mean */
        put(answer + at, watts, 2);
    put(answer + 14, PERIOD_MS, 4);
    answer[18] = known ? ACTIVE : 0;
    *length = 19;
}

int ipmi_sim_module_print_version(void *sys, char *options)
{
    (void)sys, (void)options;
    return printf("DCMI\n") < 0;
}

int ipmi_sim_module_init(void *sys, const char *options)
{
    (void)sys;
    snprintf(path, sizeof path, "%s", options != NULL ? options : "");
    ipmi_emu_register_group_extension_handler(DCMI, answered, NULL);
    return 0;
}
