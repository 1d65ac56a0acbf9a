// SPDX-License-Identifier: Apache-2.0 OR MIT
// Measures what an NVIDIA GPU reads and writes of its host's memory, as the table that
// `crosslane validate LAB --csv` and `crosslane calibrate` read (docs/calibrate.md):
//
//   nvcc -O3 -arch=native -o gpu-flows tools/gpu-flows.cu && ./gpu-flows > gpu.csv
//
// Copy engines move sizes from 64 KiB on, one copy of a stream after the other. Smaller operations
// are those of warps: each reads or writes SIZE bytes at a random multiple of SIZE in the window,
// one operation at a time, so that as many are in flight as warps run. A latency is that of one
// warp, whose next address depends on what it read. The host's memory is pinned, and read past all
// caches of the GPU. Each figure is the median of five runs; the note has the least and the
// greatest.
//
// `--copies` and `--warps` measure only these: to a lab they are two requesters, since only one of
// them takes time for each operation and only the other one asks for lines.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t error = (call);                                                     \
        if (error != cudaSuccess) {                                                     \
            fprintf(stderr, "error: %s: %s\n", #call, cudaGetErrorString(error));       \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

namespace {

constexpr int RUNS = 5;
constexpr size_t MEMORY = size_t(1) << 30;
constexpr size_t DEFAULT_WINDOW = size_t(4) << 20;

char *pinned;         // host memory
char *on_device;      // the same, as the GPU addresses it
char *device_memory;  // the GPU's own

std::string gpu = "gpu0", host = "host";

// Median, least and greatest of some runs, the first of which does not count.
struct Figure {
    double median, least, greatest;
};

Figure measure(const std::function<double()> &run) {
    std::vector<double> all;
    run();
    for (int i = 0; i < RUNS; i++) all.push_back(run());
    std::sort(all.begin(), all.end());
    return {all[RUNS / 2], all.front(), all.back()};
}

std::string bytes(size_t size) {
    if (size % (1 << 20) == 0) return std::to_string(size >> 20) + "M";
    if (size % (1 << 10) == 0) return std::to_string(size >> 10) + "K";
    return std::to_string(size);
}

void row(const std::string &flow, size_t size, const Figure &figure, const char *unit, int outstanding, size_t window,
         const char *note) {
    printf("%s,%s,%.4g,%s,%d,%s,%s; %.4g to %.4g\n", flow.c_str(), bytes(size).c_str(), figure.median, unit,
           outstanding, window ? bytes(window).c_str() : "", note, figure.least, figure.greatest);
    fflush(stdout);
}

// Seconds that some work on one stream or two takes, between events before and behind all of it.
double seconds(cudaStream_t first, cudaStream_t second, const std::function<void()> &work) {
    static cudaEvent_t before, after, other;
    if (!before) {
        CHECK(cudaEventCreate(&before));
        CHECK(cudaEventCreate(&after));
        CHECK(cudaEventCreate(&other));
    }
    CHECK(cudaEventRecord(before, first));
    CHECK(cudaStreamWaitEvent(second, before, 0));
    work();
    CHECK(cudaEventRecord(other, second));
    CHECK(cudaStreamWaitEvent(first, other, 0));
    CHECK(cudaEventRecord(after, first));
    CHECK(cudaEventSynchronize(after));
    CHECK(cudaGetLastError());
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, before, after));
    return milliseconds / 1e3;
}

// Copies of `size` bytes one behind the other, by the copy engines: GB/s, of both ways together.
void copies(cudaStream_t first, cudaStream_t second, size_t size, bool reads, bool writes) {
    int count = int(std::min<size_t>(2000, std::max<size_t>(8, (size_t(2) << 30) / size)));
    size_t half = MEMORY / 2;
    auto run = [&] {
        double time = seconds(first, second, [&] {
            for (int i = 0; i < count; i++) {
                size_t at = (i * size) % half;
                if (reads) CHECK(cudaMemcpyAsync(device_memory + at, pinned + at, size, cudaMemcpyHostToDevice, first));
                if (writes)
                    CHECK(cudaMemcpyAsync(pinned + half + at, device_memory + half + at, size, cudaMemcpyDeviceToHost,
                                          second));
            }
        });
        return double(size) * count * (reads + writes) / time / 1e9;
    };
    const char *note = reads && writes ? "two copy engines" : "a copy engine";
    std::string kind = reads && writes ? "both" : reads ? "read" : "write";
    row(gpu + ":" + host + ":" + kind, size, measure(run), "GB/s", 1, 0, note);
}

__device__ inline uint32_t next_random(uint32_t state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^ (state << 5);
}

// Each warp reads `words` x 32 lanes x 4 B (or fewer lanes) at random places, each when the one
// before has come: memory holds zeros, which the next address takes in.
template <typename Word>
__global__ void read_randomly(const char *memory, uint32_t places, int size, int count, uint32_t *out) {
    int lane = threadIdx.x % 32;
    uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    uint32_t state = warp * 2654435761u + 12345u, sum = 0;
    bool active = lane * int(sizeof(Word)) < size;
    for (int i = 0; i < count; i++) {
        state = next_random(state);
        uint32_t place = uint32_t((uint64_t(state) * places) >> 32);
        const Word *at = reinterpret_cast<const Word *>(memory + size_t(place) * size) + lane;
        uint32_t value = 0;
        if (active) {
            if constexpr (sizeof(Word) == 4) {
                asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
            } else {
                uint32_t a, b, c, d;
                asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                             : "l"(at)
                             : "memory");
                value = a | b | c | d;
            }
        }
        state += __shfl_sync(0xffffffffu, value, 0);
        sum += value;
    }
    if (sum != 0) out[0] = sum;
}

template <typename Word>
__global__ void write_randomly(char *memory, uint32_t places, int size, int count) {
    int lane = threadIdx.x % 32;
    uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    uint32_t state = warp * 2654435761u + 12345u;
    bool active = lane * int(sizeof(Word)) < size;
    for (int i = 0; i < count; i++) {
        state = next_random(state);
        uint32_t place = uint32_t((uint64_t(state) * places) >> 32);
        Word *at = reinterpret_cast<Word *>(memory + size_t(place) * size) + lane;
        if (!active) continue;
        if constexpr (sizeof(Word) == 4)
            asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(at), "r"(0) : "memory");
        else
            asm volatile("st.volatile.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at), "r"(0) : "memory");
    }
}

// Launches a kernel for so many warps, spread over as many multiprocessors as there are.
template <typename Kernel, typename... Arguments>
void launch(Kernel kernel, cudaStream_t stream, int warps, Arguments... arguments) {
    int processors = 0;
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    // A block has 32 warps at most.
    int each = std::min(32, std::max(1, (warps + processors - 1) / processors));
    while (warps % each) each--;
    kernel<<<warps / each, each * 32, 0, stream>>>(arguments...);
}

uint32_t *out;

void read_all(cudaStream_t stream, size_t size, int warps, size_t window, int count) {
    uint32_t places = uint32_t(window / size);
    if (size <= 128)
        launch(read_randomly<uint32_t>, stream, warps, (const char *)on_device, places, int(size), count, out);
    else
        launch(read_randomly<uint4>, stream, warps, (const char *)on_device, places, int(size), count, out);
}

double read_seconds(cudaStream_t stream, size_t size, int warps, size_t window, int count) {
    return seconds(stream, stream, [&] { read_all(stream, size, warps, window, count); });
}

void latency(cudaStream_t stream, size_t size, size_t window) {
    int count = 20000;
    auto run = [&] { return read_seconds(stream, size, 1, window, count) / count * 1e9; };
    row(gpu + ":" + host + ":read", size, measure(run), "ns", 1, window, "one warp");
}

void reads(cudaStream_t stream, size_t size, int warps, size_t window) {
    int count = std::max(200, 400000 / warps);
    if (warps < 16) count = 20000;
    auto run = [&] { return double(size) * warps * count / read_seconds(stream, size, warps, window, count) / 1e9; };
    row(gpu + ":" + host + ":read", size, measure(run), "GB/s", warps, window, "warps");
}

void write_all(cudaStream_t stream, size_t size, int warps, size_t window, int count, size_t from) {
    uint32_t places = uint32_t(window / size);
    if (size <= 128)
        launch(write_randomly<uint32_t>, stream, warps, on_device + from, places, int(size), count);
    else
        launch(write_randomly<uint4>, stream, warps, on_device + from, places, int(size), count);
}

void writes(cudaStream_t stream, size_t size, int warps, size_t window) {
    int count = 2000;
    auto run = [&] {
        double time = seconds(stream, stream, [&] { write_all(stream, size, warps, window, count, 0); });
        return double(size) * warps * count / time / 1e9;
    };
    row(gpu + ":" + host + ":write", size, measure(run), "GB/s", warps, window, "warps");
}

// As many warps read as others write, elsewhere.
void both(cudaStream_t first, cudaStream_t second, size_t size, int warps, size_t window) {
    int count = 2000;
    auto run = [&] {
        double time = seconds(first, second, [&] {
            read_all(first, size, warps, window, count);
            write_all(second, size, warps, window, count, MEMORY / 2);
        });
        return 2 * double(size) * warps * count / time / 1e9;
    };
    row(gpu + ":" + host + ":both", size, measure(run), "GB/s", warps, window, "warps");
}

}  // namespace

int main(int count, char **arguments) {
    bool with_copies = true, with_warps = true;
    for (int i = 1; i < count; i++) {
        if (i + 1 < count && !strcmp(arguments[i], "--gpu")) {
            gpu = arguments[++i];
        } else if (i + 1 < count && !strcmp(arguments[i], "--host")) {
            host = arguments[++i];
        } else if (!strcmp(arguments[i], "--copies")) {
            with_warps = false;
        } else if (!strcmp(arguments[i], "--warps")) {
            with_copies = false;
        } else {
            fprintf(stderr,
                    "usage: gpu-flows [--copies | --warps] [--gpu NAME] [--host NAME] > FILE.csv    (names in the "
                    "lab)\n");
            return 2;
        }
    }
    cudaStream_t first, second;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaHostAlloc(reinterpret_cast<void **>(&pinned), MEMORY, cudaHostAllocMapped));
    memset(pinned, 0, MEMORY);
    CHECK(cudaHostGetDevicePointer(reinterpret_cast<void **>(&on_device), pinned, 0));
    CHECK(cudaMalloc(reinterpret_cast<void **>(&device_memory), MEMORY));
    CHECK(cudaMemset(device_memory, 0, MEMORY));
    CHECK(cudaMalloc(reinterpret_cast<void **>(&out), 4));

    printf("flow,size,value,unit,outstanding,window,note\n");
    for (size_t size = 64 << 10; with_copies && size <= size_t(64) << 20; size *= 4) {
        copies(first, second, size, true, false);
        copies(first, second, size, false, true);
        copies(first, second, size, true, true);
    }
    if (!with_warps) return 0;
    constexpr size_t SIZES[] = {32, 64, 128, 256, 512};
    for (size_t size : SIZES) latency(first, size, DEFAULT_WINDOW);
    for (size_t window = 64 << 10; window <= MEMORY; window *= 4) latency(first, 64, window);
    for (size_t size : SIZES)
        for (int warps = 1; warps <= 2048; warps *= 2) reads(first, size, warps, DEFAULT_WINDOW);
    for (size_t window = 1 << 20; window <= MEMORY; window *= 16) reads(first, 128, 1024, window);
    for (size_t size : SIZES) writes(first, size, 2048, DEFAULT_WINDOW);
    for (size_t window = 1 << 20; window <= MEMORY; window *= 16) writes(first, 128, 1024, window);
    for (size_t size : SIZES) both(first, second, size, 1024, DEFAULT_WINDOW);
    return 0;
}
