// Moves 268435456 elements (elements of 2 bytes) as this plan says:
//   for i in 64, j in 16384, k in 256: dst[i*4194304 + j*256 + k] = src[i*4194304 + j + k*16384]
// reads 536870912 bytes of 536870912, writes 536870912 of 536870912
// launch move0<<<16384, 256>>>(src, dst)
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct Vec { u32 w[4]; };  // 16 bytes in registers

// Global memory is read and written once: streaming accesses of `bytes` bytes to the words of a register.
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
  if (bytes == 16) __stcs((uint4*)p, make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]));
  else if (bytes == 8) __stcs((uint2*)p, make_uint2(v.w[first / 4], v.w[first / 4 + 1]));
  else if (bytes == 4) __stcs((u32*)p, v.w[first / 4]);
  else if (bytes == 2) __stcs((u16*)p, (u16)(v.w[first / 4] >> first % 4 * 8));
  else __stcs((u8*)p, (u8)(v.w[first / 4] >> first % 4 * 8));
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
  if (bytes == 8) __stcs((uint2*)p, make_uint2((u32)x, (u32)(x >> 32)));
  else if (bytes == 4) __stcs((u32*)p, (u32)x);
  else if (bytes == 2) __stcs((u16*)p, (u16)x);
  else __stcs(p, (u8)x);
}
// Row `row` of the turned square of elements of `bytes` bytes whose rows are `in`.
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

// Squares of 8 x 8 elements of 2 bytes, turned in registers.
static __device__ __forceinline__ void part0(const u8* __restrict__ src, u8* __restrict__ dst, u32 block) {
  Vec v[8] = {};
  Vec t[8] = {};
  const u32 a = (((threadIdx.x / 32u) % 2u) * 8u + ((threadIdx.x % 32u) % 8u)) * 8u;
  const u32 b = (((threadIdx.x / 32u) / 2u) * 4u + ((threadIdx.x % 32u) / 8u)) * 8u;
  const u32 d0 = block % 2u;
  const u32 rest0 = block / 2u;
  const u32 d1 = rest0 % 128u;
  const u32 rest1 = rest0 / 128u;
  const u32 from = d0 * 4194304u + d1 * 256u + rest1 * 8388608u + a * 2u + b * 32768u;
  const u32 to = d0 * 256u + d1 * 65536u + rest1 * 8388608u + a * 512u + b * 2u;
  #pragma unroll
  for (u32 r = 0; r < 8; r++) {
    load(v[r], 0, src + from + r * 32768u, 16);
  }
  #pragma unroll
  for (u32 r = 0; r < 8; r++) t[r] = turned(v, r, 2);
  #pragma unroll
  for (u32 r = 0; r < 8; r++) {
    store(t[r], 0, dst + to + r * 512u, 16);
  }
}

extern "C" __global__ void __launch_bounds__(256) move0(const u8* __restrict__ src, u8* __restrict__ dst) {
  part0(src, dst, blockIdx.x);
}
