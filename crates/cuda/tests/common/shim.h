// CUDA's names on a CPU: the threads of a block are fibers that take turns at barriers.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __align__(n) __attribute__((aligned(n)))

struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(8) uint2 { unsigned x, y; };
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
template <class T> static inline T __ldcs(const T* p) { return *p; }
template <class T> static inline void __stwb(T* p, T v) { *p = v; }
template <class To, class From> static inline To same_bits(From x) { To y; static_assert(sizeof x == sizeof y, ""); memcpy(&y, &x, sizeof y); return y; }
static inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  unsigned long long both = (unsigned long long)b << 32 | a; unsigned out = 0;
  for (int k = 0; k < 4; k++) out |= (unsigned)(both >> 8 * (s >> 4 * k & 7) & 0xff) << 8 * k;
  return out;
}

struct Index { unsigned x; };
static Index threadIdx, blockIdx;

typedef void (*Kernel)(const unsigned char*, unsigned char*);
struct Fiber { ucontext_t at; std::vector<char> stack; bool done; unsigned number; };
static ucontext_t scheduler;
static Fiber* running;
static Kernel kernel;
static const unsigned char* kernel_src;
static unsigned char* kernel_dst;

static inline void __syncthreads() { swapcontext(&running->at, &scheduler); threadIdx.x = running->number; }
static void enter() { kernel(kernel_src, kernel_dst); running->done = true; swapcontext(&running->at, &scheduler); }

static void launch(Kernel k, unsigned grid, unsigned block, const unsigned char* src, unsigned char* dst) {
  static std::vector<Fiber> fibers(1024);
  kernel = k; kernel_src = src; kernel_dst = dst;
  for (unsigned b = 0; b < grid; b++) {
    blockIdx.x = b;
    for (unsigned t = 0; t < block; t++) {
      Fiber& f = fibers[t];
      f.stack.resize(1 << 16); f.done = false; f.number = t;
      getcontext(&f.at);
      f.at.uc_stack.ss_sp = f.stack.data(); f.at.uc_stack.ss_size = f.stack.size(); f.at.uc_link = nullptr;
      makecontext(&f.at, enter, 0);
    }
    for (bool left = true; left;) {
      left = false;
      for (unsigned t = 0; t < block; t++) if (!fibers[t].done) {
        running = &fibers[t]; threadIdx.x = t;
        swapcontext(&scheduler, &running->at);
        left = left || !fibers[t].done;
      }
    }
  }
}
