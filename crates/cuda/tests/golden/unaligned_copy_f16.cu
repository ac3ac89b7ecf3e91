// Moves 16773120 elements (elements of 2 bytes) as this plan says:
//   for i in 16773120: dst[i] = src[i]
// reads 33546240 bytes of 33546240, writes 33546240 of 33546240
// launch move0<<<4096, 256>>>(src, dst)
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

// Tiles of 1 rows of 8222 bytes in the source, 1 rows of 8192 bytes in the destination,
// which begin at multiples of 32 bytes,
// transposed in shared memory, where each row has its address in the source modulo 16 bytes.
static __device__ __forceinline__ void part0(const u8* __restrict__ src, u8* __restrict__ dst, u32 block, u8* shared) {
  Vec edge[1] = {};
  Vec out[1] = {};
  const u32 left0 = min(16773135u - (block * 4096u), 4111u);
  const i64 from = (i64)(block * 8192u) - 30ll;
  const u32 to = block * 8192u;
  const u32 src_low = (((u32)(u64)src & 15u) + (from + 32ll)) % 16u;
  const u32 row_bytes = left0 * 2u;
  #pragma unroll
  for (u32 u = 0; u < 3; u++) {
    const u32 slot = threadIdx.x + u * 256u;
    const u32 vector = slot % 515u;
    const u32 row = slot / 515u;
    if (slot < 515u) {
      const i64 start = from;
      const u32 shift = (((u32)(u64)src & 15u) + (start + 32ll)) % 16u;
      const i64 at = start - (i64)shift + (i64)(vector * 16u);
      if (vector * 16u < shift + row_bytes) {
        if (0ll <= at && at <= 33546224ll) {
          bring(shared + vector * 16u, src + at);
        } else {
          edge[0u] = Vec();
          #pragma unroll
          for (u32 e = 0; e < 8; e++) {
            if (0ll <= at + (i64)(e * 2u) && at + (i64)(e * 2u) <= 33546238ll) {
              put(edge[0u], e, read(src + at + (i64)(e * 2u), 2), 2);
            }
          }
          *(uint4*)(shared + vector * 16u) = make_uint4(edge[0u].w[0], edge[0u].w[1], edge[0u].w[2], edge[0u].w[3]);
        }
      }
    }
  }
  barrier();
  const u32 dst_low = (((u32)(u64)dst & 31u) + to) % 32u;
  #pragma unroll
  for (u32 u = 0; u < 2; u++) {
    const u32 slot = threadIdx.x + u * 256u;
    const u32 vector = slot;
    const u32 shift = dst_low / 2u;
    const i64 at = (i64)to - (i64)(shift * 2u) + (i64)(vector * 16u);
    const u32 first = vector * 8u;
    const i64 begin = (i64)shift - (i64)(block * 4096u);
    const u32 end = shift + (16773120u - (block * 4096u));
    if (begin <= (i64)first && first + 8u <= end) {
      out[0u] = Vec();
      #pragma unroll
      for (u32 e = 0; e < 8; e++) {
        const u32 p = (i64)(first + e) - (i64)shift + 15ll;
        put(out[0u], e, read(shared + src_low + p * 2u, 2), 2);
      }
      store(out[0u], 0, dst + at, 16);
    } else {
      #pragma unroll 1
      for (u32 e = 0; e < 8; e++) {
        if (begin <= (i64)(first + e) && first + e < end) {
          const u32 p = (i64)(first + e) - (i64)shift + 15ll;
          write(dst + at + (i64)(e * 2u), read(shared + src_low + p * 2u, 2), 2);
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) move0(const u8* __restrict__ src, u8* __restrict__ dst) {
  __shared__ __align__(16) u8 shared[8256];
  part0(src, dst, blockIdx.x, shared);
}
