// Moves 268435456 elements (elements of 2 bytes) as this plan says:
//   for i in 256, j in 256, k in 64, l in 64: dst[i*1048576 + j*4096 + k*64 + l] = src[i*4096 + j*1048576 + k + l*64]
// reads 536870912 bytes of 536870912, writes 536870912 of 536870912
// launch move0<<<32768, 256>>>(src, dst)
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct Vec { u32 w[4]; };  // 16 bytes in registers

// `bytes` bytes of global memory and the words of a register. What is read is not needed again and leaves the cache first; what
// is written stays there as long as it may, and the next kernel finds it.
static __device__ __forceinline__ void load(Vec& v, u32 first, const u8* p, u32 bytes) {
  if (bytes == 16) { uint4 q = __ldcs((const uint4*)p); v.w[0] = q.x; v.w[1] = q.y; v.w[2] = q.z; v.w[3] = q.w; }
  else if (bytes == 8) { uint2 q = __ldcs((const uint2*)p); v.w[first / 4] = q.x; v.w[first / 4 + 1] = q.y; }
  else if (bytes == 4) v.w[first / 4] = __ldcs((const u32*)p);
  else {
    u32 x = bytes == 2 ? (u32)__ldcs((const u16*)p) : (u32)__ldcs((const u8*)p), shift = first % 4 * 8;
    u32 mask = (bytes == 2 ? 0xffffu : 0xffu) << shift;
    v.w[first / 4] = (v.w[first / 4] & ~mask) | (x << shift);
  }
}
static __device__ __forceinline__ void store(const Vec& v, u32 first, u8* p, u32 bytes) {
  if (bytes == 16) __stwb((uint4*)p, make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]));
  else if (bytes == 8) __stwb((uint2*)p, make_uint2(v.w[first / 4], v.w[first / 4 + 1]));
  else if (bytes == 4) __stwb((u32*)p, v.w[first / 4]);
  else if (bytes == 2) __stwb((u16*)p, (u16)(v.w[first / 4] >> first % 4 * 8));
  else __stwb((u8*)p, (u8)(v.w[first / 4] >> first % 4 * 8));
}
// 16 bytes of global memory into shared memory, where the hardware can without registers on the way; `barrier` waits for
// them and for every thread of the block.
static __device__ __forceinline__ void bring(u8* shared, const u8* p) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"((u32)__cvta_generic_to_shared(shared)), "l"(p) : "memory");
#else
  *(uint4*)shared = __ldcs((const uint4*)p);
#endif
}
static __device__ __forceinline__ void barrier() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncthreads();
}
// Elements as integers, from any memory and from registers.
static __device__ __forceinline__ u64 read(const u8* p, u32 bytes) {
  if (bytes == 8) { uint2 q = *(const uint2*)p; return q.x | (u64)q.y << 32; }
  return bytes == 4 ? *(const u32*)p : bytes == 2 ? *(const u16*)p : *p;
}
static __device__ __forceinline__ u64 get(const Vec& v, u32 element, u32 bytes) {
  if (bytes == 8) return v.w[element * 2] | (u64)v.w[element * 2 + 1] << 32;
  u32 at = element * bytes, x = v.w[at / 4] >> at % 4 * 8;
  return bytes == 4 ? x : bytes == 2 ? x & 0xffff : x & 0xff;
}
// Registers are cleared before elements are put into them.
static __device__ __forceinline__ void put(Vec& v, u32 element, u64 x, u32 bytes) {
  if (bytes == 8) { v.w[element * 2] = (u32)x; v.w[element * 2 + 1] = (u32)(x >> 32); }
  else v.w[element * bytes / 4] |= ((u32)x & (bytes == 1 ? 0xffu : bytes == 2 ? 0xffffu : ~0u)) << element * bytes % 4 * 8;
}
static __device__ __forceinline__ void write(u8* p, u64 x, u32 bytes) {
  if (bytes == 8) __stwb((uint2*)p, make_uint2((u32)x, (u32)(x >> 32)));
  else if (bytes == 4) __stwb((u32*)p, (u32)x);
  else if (bytes == 2) __stwb((u16*)p, (u16)x);
  else __stwb(p, (u8)x);
}
// Row `row` of the transposed square of elements of `bytes` bytes whose rows are `in`.
static __device__ __forceinline__ Vec turned(const Vec* in, u32 row, u32 bytes) {
  Vec out;
  #pragma unroll
  for (u32 k = 0; k < 4; k++) {
    if (bytes == 8) out.w[k] = in[k / 2].w[row * 2 + k % 2];
    else if (bytes == 4) out.w[k] = in[k].w[row];
    else if (bytes == 2) out.w[k] = __byte_perm(in[2 * k].w[row / 2], in[2 * k + 1].w[row / 2], row % 2 ? 0x7632 : 0x5410);
    else {
      u32 s = row % 4, pick = s | (s + 4) << 4;
      u32 low = __byte_perm(in[4 * k].w[row / 4], in[4 * k + 1].w[row / 4], pick);
      u32 high = __byte_perm(in[4 * k + 2].w[row / 4], in[4 * k + 3].w[row / 4], pick);
      out.w[k] = __byte_perm(low, high, 0x5410);
    }
  }
  return out;
}

// Tiles of 4 rows of 4096 bytes in the source, 256 rows of 64 bytes in the destination,
// transposed in shared memory.
static __device__ __forceinline__ void part0(const u8* __restrict__ src, u8* __restrict__ dst, u32 block, u8* shared) {
  Vec edge[1] = {};
  Vec out[1] = {};
  const u32 tile0 = block % 2u;
  const u32 tiles0 = block / 2u;
  const u32 tile2 = tiles0 % 64u;
  const u32 tiles2 = tiles0 / 64u;
  const u32 from = tile0 * 4096u + tile2 * 8388608u + tiles2 * 8192u;
  const u32 to = tile0 * 64u + tile2 * 32768u + tiles2 * 2097152u;
  #pragma unroll
  for (u32 u = 0; u < 4; u++) {
    const u32 slot = threadIdx.x + u * 256u;
    const u32 vector = slot % 256u;
    const u32 row = slot / 256u;
    const u32 start = from + row * 2097152u;
    const u32 at = start + vector * 16u;
    bring(shared + row * 4096u + vector * 16u, src + at);
  }
  barrier();
  #pragma unroll
  for (u32 u = 0; u < 4; u++) {
    const u32 slot = threadIdx.x + u * 256u;
    const u32 vector = slot % 4u;
    const u32 row = slot / 4u;
    const u32 t1 = row % 64u;
    const u32 t2 = row / 64u;
    const u32 at = to + t1 * 128u + t2 * 8192u + vector * 16u;
    const u32 first = vector * 8u;
    out[0u] = Vec();
    #pragma unroll
    for (u32 e = 0; e < 8; e++) {
      const u32 p = first + e;
      const u32 b = t1 * 2u + p * 128u;
      put(out[0u], e, read(shared + t2 * 4096u + b, 2), 2);
    }
    store(out[0u], 0, dst + at, 16);
  }
}

extern "C" __global__ void __launch_bounds__(256) move0(const u8* __restrict__ src, u8* __restrict__ dst) {
  __shared__ __align__(16) u8 shared[16384];
  part0(src, dst, blockIdx.x, shared);
}
