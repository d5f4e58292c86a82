/* A Vulkan driver that passes calls on to another one (LOSING_DRIVER), and whose device is lost while it carries out
   submission number LOSING_AT of a process: that one is dropped, and from then on calls fail with
   VK_ERROR_DEVICE_LOST, as the specification says. If the file LOSING_ONCE exists, nothing is lost; it is made then. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, DEVICE_LOST = -4 };
typedef void (*Function)(void);
typedef Function (*Lookup)(void *, const char *);
typedef int32_t (*Submit)(void *, uint32_t, const void *, void *);
typedef int32_t (*Idle)(void *);
typedef int32_t (*Wait)(void *, const void *, uint64_t);

static Submit submit;
static Idle idle;
static Wait wait_for;
static Lookup device_function;
static long submissions, last;

static void *driver_function(const char *name) {
    static void *driver;
    if (!driver) {
        const char *once = getenv("LOSING_ONCE");
        driver = dlopen(getenv("LOSING_DRIVER"), RTLD_NOW);
        last = once && access(once, F_OK) == 0 ? INT32_MAX : atol(getenv("LOSING_AT"));
    }
    return dlsym(driver, name);
}

static int32_t our_submit(void *queue, uint32_t count, const void *submits, void *fence) {
    if (++submissions < last)
        return submit(queue, count, submits, fence);
    if (submissions == last && getenv("LOSING_ONCE"))
        fclose(fopen(getenv("LOSING_ONCE"), "w"));
    return submissions == last ? SUCCESS : DEVICE_LOST;
}

static int32_t our_idle(void *queue) { return submissions < last ? idle(queue) : DEVICE_LOST; }

static int32_t our_wait(void *device, const void *what, uint64_t patience) {
    return submissions < last ? wait_for(device, what, patience) : DEVICE_LOST;
}

static Function ours(const char *name, Function theirs);

static Function our_device_function(void *device, const char *name) { return ours(name, device_function(device, name)); }

static Function ours(const char *name, Function theirs) {
    if (theirs && !strcmp(name, "vkQueueSubmit")) {
        submit = (Submit)theirs;
        return (Function)our_submit;
    }
    if (theirs && !strcmp(name, "vkQueueWaitIdle")) {
        idle = (Idle)theirs;
        return (Function)our_idle;
    }
    if (theirs && !strcmp(name, "vkWaitSemaphores")) {
        wait_for = (Wait)theirs;
        return (Function)our_wait;
    }
    if (theirs && !strcmp(name, "vkGetDeviceProcAddr")) {
        device_function = (Lookup)theirs;
        return (Function)our_device_function;
    }
    return theirs;
}

Function vk_icdGetInstanceProcAddr(void *instance, const char *name) {
    return ours(name, ((Lookup)driver_function("vk_icdGetInstanceProcAddr"))(instance, name));
}

Function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {
    Lookup theirs = (Lookup)driver_function("vk_icdGetPhysicalDeviceProcAddr");
    return theirs ? theirs(instance, name) : 0;
}

int32_t vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    return ((int32_t (*)(uint32_t *))driver_function("vk_icdNegotiateLoaderICDInterfaceVersion"))(version);
}
