/* A CUDA driver without a GPU: its memory is the host's, its kernels do nothing, and all is done at once.

   Taichi compiles for it as for an H200, and copies and memory can be tried. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DONE(name) int name(void) { return 0; }
#define MADE(name) int name(void **out) { *out = (void *)0x1000; return 0; }
enum { OUT_OF_MEMORY = 2 };

DONE(cuInit) DONE(cuCtxSetCurrent) DONE(cuCtxPushCurrent_v2) DONE(cuCtxSetLimit) DONE(cuCtxSynchronize)
DONE(cuDevicePrimaryCtxRelease) DONE(cuDeviceGetDefaultMemPool) DONE(cuMemPoolSetAttribute) DONE(cuMemAdvise)
DONE(cuStreamSynchronize) DONE(cuStreamQuery) DONE(cuStreamWaitEvent) DONE(cuEventRecord) DONE(cuEventQuery) DONE(cuEventSynchronize)
DONE(cuEventElapsedTime) DONE(cuEventDestroy) DONE(cuEventDestroy_v2) DONE(cuFuncGetAttribute) DONE(cuFuncSetAttribute)
DONE(cuFuncSetCacheConfig) DONE(cuLaunchKernel) DONE(cuModuleUnload) DONE(cuPointerGetAttribute) DONE(cuMemGetAttribute)
DONE(cuImportExternalMemory) DONE(cuImportExternalSemaphore) DONE(cuExternalMemoryGetMappedBuffer)
DONE(cuExternalMemoryGetMappedMipmappedArray) DONE(cuMipmappedArrayGetLevel) DONE(cuSurfObjectCreate)
DONE(cuSignalExternalSemaphoresAsync) DONE(cuWaitExternalSemaphoresAsync) DONE(cuDeviceGetPCIBusId) DONE(cuMemFreeAsync)
MADE(cuDevicePrimaryCtxRetain) MADE(cuCtxCreate_v2) MADE(cuCtxGetCurrent) MADE(cuCtxPopCurrent_v2) MADE(cuStreamCreate)
MADE(cuEventCreate) MADE(cuModuleLoadDataEx) MADE(cuModuleLoadData) MADE(cuModuleGetFunction)

int cuDriverGetVersion(int *out) { *out = 12080; return 0; }
int cuDeviceGetCount(int *out) { *out = 1; return 0; }
int cuDeviceGet(int *out, int index) { *out = index; return 0; }
int cuDeviceGetName(char *out, int size, int device) { strncpy(out, "no GPU", size); return 0; }
int cuDeviceTotalMem_v2(size_t *out, int device) { *out = 8ull << 30; return 0; }
int cuMemGetInfo_v2(size_t *left, size_t *all) { *left = 4ull << 30; *all = 8ull << 30; return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out) { *out = 2; return 0; }
int cuGetErrorString(int code, const char **out) { *out = "an error"; return 0; }
int cuGetErrorName(int code, const char **out)
{
    *out = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}

int cuDeviceGetAttribute(int *out, int key, int device)
{
    switch (key) {
    case 1: *out = 1024; break;         /* threads of a block */
    case 8: *out = 49152; break;        /* shared memory of a block */
    case 10: *out = 32; break;          /* threads of a warp */
    case 16: *out = 132; break;         /* multiprocessors */
    case 39: *out = 2048; break;        /* threads of one */
    case 75: *out = 9; break;           /* compute capability 9.0 */
    case 81: *out = 233472; break;      /* shared memory of a multiprocessor */
    case 97: *out = 232448; break;      /* of a block, if it asks for more */
    case 106: *out = 32; break;         /* blocks of a multiprocessor */
    case 115: *out = 1; break;          /* memory is allocated from pools */
    default: *out = 0;
    }
    return 0;
}

static int allocated(void **out, size_t size)
{
    *out = calloc(1, size < 4096 ? 4096 : size);
    return *out ? 0 : OUT_OF_MEMORY;
}

int cuMemAlloc_v2(void **out, size_t size) { return allocated(out, size); }
int cuMemAllocAsync(void **out, size_t size, void *stream) { return allocated(out, size); }
int cuMemAllocManaged(void **out, size_t size, unsigned flags) { return allocated(out, size); }
int cuMemHostAlloc(void **out, size_t size, unsigned flags) { return allocated(out, size); }
int cuMemFree_v2(void *memory) { free(memory); return 0; }
int cuMemFreeHost(void *memory) { free(memory); return 0; }
int cuMemcpyHtoD_v2(void *to, const void *from, size_t size) { memcpy(to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, const void *from, size_t size) { memcpy(to, from, size); return 0; }
int cuMemcpyDtoD_v2(void *to, const void *from, size_t size) { memcpy(to, from, size); return 0; }
int cuMemcpyAsync(void *to, const void *from, size_t size) { memcpy(to, from, size); return 0; }
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t size) { memcpy(to, from, size); return 0; }
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t size) { memcpy(to, from, size); return 0; }
int cuMemsetD8_v2(void *to, unsigned char value, size_t count) { memset(to, value, count); return 0; }
int cuMemsetD32_v2(uint32_t *to, unsigned value, size_t count)
{
    while (count--)
        *to++ = value;
    return 0;
}
int cuMemsetD32Async(uint32_t *to, unsigned value, size_t count) { return cuMemsetD32_v2(to, value, count); }
