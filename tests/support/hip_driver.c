/* A stand-in for AMD's libamdhip64 with one device, whose memory is the host's. Kernels are not run: a launch succeeds
   and does nothing. The device is of the architecture STUB_GFX (gfx1100), with wavefronts of STUB_WAVEFRONT (32)
   threads. Each code object that is loaded is stored as a file in the folder STUB_OBJECTS, if this is set, by the
   process and a number. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101 };
enum { INTEGRATED = 16, MAX_BLOCK_DIM_X = 26, MULTIPROCESSORS = 63, WARP_SIZE = 87, MEMORY_POOLS = 88 };
enum { VERSION = 70051831 }; /* 7.0.51831 */
static const size_t TOTAL = (size_t)16 << 30, FREE = (size_t)15 << 30;

static int wavefront(void) { return getenv("STUB_WAVEFRONT") ? atoi(getenv("STUB_WAVEFRONT")) : 32; }

static const char *gfx(void) { return getenv("STUB_GFX") ? getenv("STUB_GFX") : "gfx1100"; }

/* ------------------------------------------------------------------------------------------------------- the device */
int hipInit(unsigned flags) { return (void)flags, SUCCESS; }

int hipGetDeviceCount(int *count) { return *count = 1, SUCCESS; }

int hipDriverGetVersion(int *version) { return *version = VERSION, SUCCESS; }

int hipRuntimeGetVersion(int *version) { return *version = VERSION, SUCCESS; }

const char *hipGetErrorName(int code) { return code == INVALID_DEVICE ? "hipErrorInvalidDevice" : "hipErrorUnknown"; }

const char *hipGetErrorString(int code) { return (void)code, "the stand-in refuses"; }

int hipDeviceGet(int *device, int place) { return *device = place, SUCCESS; }

int hipGetDevice(int *device) { return *device = 0, SUCCESS; }

int hipSetDevice(int device) { return device ? INVALID_DEVICE : SUCCESS; }

int hipDeviceGetName(char *name, int size, int device) {
    snprintf(name, (size_t)size, "Stand-in %d", device);
    return SUCCESS;
}

int hipDeviceTotalMem(size_t *bytes, int device) { return (void)device, *bytes = TOTAL, SUCCESS; }

int hipMemGetInfo(size_t *left, size_t *total) { return *left = FREE, *total = TOTAL, SUCCESS; }

int hipDeviceGetAttribute(int *value, int key, int device) {
    (void)device;
    *value = key == WARP_SIZE ? wavefront()
           : key == MAX_BLOCK_DIM_X ? 1024
           : key == MULTIPROCESSORS ? 96
           : key == MEMORY_POOLS;
    return SUCCESS;
}

/* Fill the struct of properties, of which each of HIP's two layouts has these fields at places of its own. */
static int properties(char *to, size_t size, size_t memory, size_t threads, size_t major, size_t name) {
    const size_t bytes[2] = {TOTAL, 64 << 10}; /* of the device, and of what a block shares */
    const int capability[2] = {(int)strtol(gfx() + 3, 0, 10) / (strlen(gfx()) > 6 ? 100 : 1), 0};
    const int registers_and_wavefront[2] = {65536, wavefront()}, most = 1024;
    memset(to, 0, size);
    memcpy(to + memory, bytes, sizeof bytes);
    memcpy(to + memory + 16, registers_and_wavefront, sizeof registers_and_wavefront);
    memcpy(to + threads, &most, sizeof most);
    memcpy(to + major, capability, sizeof capability);
    snprintf(to + name, 256, "%s:sramecc+:xnack-", gfx());
    return SUCCESS;
}

/* as ROCm 5 lays them out, and so in later ones under this name */
int hipGetDeviceProperties(void *to, int device) { return (void)device, properties(to, 792, 256, 288, 328, 396); }

int hipGetDevicePropertiesR0600(void *to, int device) {
    return (void)device, properties(to, 1472, 288, 320, 360, 1160);
}

int hipDevicePrimaryCtxRetain(void **context, int device) { return (void)device, *context = (void *)1, SUCCESS; }

int hipDevicePrimaryCtxRelease(int device) { return (void)device, SUCCESS; }

int hipCtxCreate(void **context, int flags, int device) {
    return (void)flags, (void)device, *context = (void *)1, SUCCESS;
}

int hipCtxSetCurrent(void *context) { return (void)context, SUCCESS; }

int hipCtxGetCurrent(void **context) { return *context = (void *)1, SUCCESS; }

int hipDeviceSynchronize(void) { return SUCCESS; }

/* ----------------------------------------------------------------------------------------------------------- memory */
int hipMalloc(void **at, size_t size) { return (*at = calloc(1, size ? size : 1)) ? SUCCESS : OUT_OF_MEMORY; }

int hipMallocAsync(void **at, size_t size, void *stream) { return (void)stream, hipMalloc(at, size); }

int hipMallocManaged(void **at, size_t size, unsigned flags) { return (void)flags, hipMalloc(at, size); }

int hipHostMalloc(void **at, size_t size, unsigned flags) { return (void)flags, hipMalloc(at, size); }

int hipFree(void *at) { return free(at), SUCCESS; }

int hipFreeAsync(void *at, void *stream) { return (void)stream, hipFree(at); }

int hipHostFree(void *at) { return hipFree(at); }

int hipMemset(void *at, int value, size_t size) { return memset(at, value, size), SUCCESS; }

int hipMemcpy(void *to, const void *from, size_t size, int kind) { return (void)kind, memcpy(to, from, size), SUCCESS; }

int hipMemcpyHtoD(void *to, const void *from, size_t size) { return hipMemcpy(to, from, size, 0); }

int hipMemcpyDtoH(void *to, const void *from, size_t size) { return hipMemcpy(to, from, size, 0); }

int hipMemcpyDtoD(void *to, const void *from, size_t size) { return hipMemcpy(to, from, size, 0); }

int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    return (void)stream, hipMemcpy(to, from, size, kind);
}

int hipMemcpyHtoDAsync(void *to, const void *from, size_t size, void *stream) {
    return hipMemcpyAsync(to, from, size, 0, stream);
}

int hipMemcpyDtoHAsync(void *to, const void *from, size_t size, void *stream) {
    return hipMemcpyAsync(to, from, size, 0, stream);
}

int hipDeviceGetDefaultMemPool(void **pool, int device) { return (void)device, *pool = (void *)1, SUCCESS; }

int hipMemPoolSetAttribute(void *pool, int key, void *value) { return (void)pool, (void)key, (void)value, SUCCESS; }

int hipMemPoolTrimTo(void *pool, size_t size) { return (void)pool, (void)size, SUCCESS; }

int hipPointerGetAttribute(void *to, int key, void *at) { return (void)to, (void)key, (void)at, INVALID_VALUE; }

int hipPointerGetAttributes(void *to, void *at) { return (void)to, (void)at, INVALID_VALUE; }

/* -------------------------------------------------------------------------------------------- code and its launches */
/* Its size is not given: an ELF file of ld.lld ends with the table of its sections. */
static size_t size_of(const unsigned char *object) {
    uint64_t sections;
    uint16_t size, count;
    memcpy(&sections, object + 40, 8);
    memcpy(&size, object + 58, 2);
    memcpy(&count, object + 60, 2);
    return (size_t)sections + (size_t)size * count;
}

static void store(const void *object, long count) {
    char path[4096];
    if (!getenv("STUB_OBJECTS"))
        return;
    snprintf(path, sizeof path, "%s/%ld-%03ld.elf", getenv("STUB_OBJECTS"), (long)getpid(), count);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(object, 1, size_of(object), file) < size_of(object) || fclose(file))
        abort();
}

int hipModuleLoadData(void **module, const void *object) {
    static long count;
    if (memcmp(object, "\177ELF", 4))
        return INVALID_VALUE;
    store(object, count);
    *module = (void *)++count;
    return SUCCESS;
}

int hipModuleUnload(void *module) { return (void)module, SUCCESS; }

int hipModuleGetFunction(void **function, void *module, const char *name) {
    return (void)module, (void)name, *function = (void *)1, SUCCESS;
}

int hipModuleLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,
                          unsigned threads_z, unsigned shared, void *stream, void **arguments, void **extra) {
    (void)function, (void)x, (void)y, (void)z, (void)threads_x, (void)threads_y, (void)threads_z, (void)shared;
    return (void)stream, (void)arguments, (void)extra, SUCCESS;
}

int hipFuncGetAttribute(int *value, int key, void *function) { return (void)key, (void)function, *value = 64, SUCCESS; }

int hipFuncSetAttribute(const void *function, int key, int value) {
    return (void)function, (void)key, (void)value, SUCCESS;
}

int hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
    return (void)function, (void)threads, (void)shared, *blocks = 2, SUCCESS;
}

/* ----------------------------------------------------------------------------------------------- streams and events */
int hipStreamCreateWithFlags(void **stream, unsigned flags) { return (void)flags, *stream = (void *)1, SUCCESS; }

int hipStreamDestroy(void *stream) { return (void)stream, SUCCESS; }

int hipStreamSynchronize(void *stream) { return (void)stream, SUCCESS; }

int hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
    return (void)stream, (void)event, (void)flags, SUCCESS;
}

int hipEventCreateWithFlags(void **event, unsigned flags) { return (void)flags, *event = (void *)1, SUCCESS; }

int hipEventDestroy(void *event) { return (void)event, SUCCESS; }

int hipEventRecord(void *event, void *stream) { return (void)event, (void)stream, SUCCESS; }

int hipEventSynchronize(void *event) { return (void)event, SUCCESS; }

int hipEventElapsedTime(float *milliseconds, void *first, void *second) {
    return (void)first, (void)second, *milliseconds = 0, SUCCESS;
}

/* --------------------------------------------------------------------- graphs, which are looked up but never called */
#define NEVER(name) \
    int name(void) { return INVALID_VALUE; }
NEVER(hipGraphCreate)
NEVER(hipGraphAddKernelNode)
NEVER(hipGraphInstantiate)
NEVER(hipGraphLaunch)
NEVER(hipGraphDestroy)
NEVER(hipGraphExecDestroy)
