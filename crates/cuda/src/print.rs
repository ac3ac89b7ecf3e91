//! The printer: a description as CUDA C++.
//!
//! Integers have 32 bits where every value fits, otherwise 64: a GPU has no 64-bit integer unit, and divides such numbers
//! by a subroutine.

use crate::description::{
    AddressSpace, BlockProgram, IntegerOp, KernelCond, KernelExpr, KernelStmt, MoveElement,
    TensorSide, VectorRegister,
};
use crate::formats;
use crate::gpu::Gpu;
use std::fmt::Write;

/// The C++ type of an integer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IntegerType {
    U32,
    U64,
    I64,
}

impl IntegerType {
    fn for_expr(expr: &KernelExpr) -> IntegerType {
        match expr.value_range() {
            (0.., ..=0xffff_ffff) => IntegerType::U32,
            (0.., _) => IntegerType::U64,
            _ => IntegerType::I64,
        }
    }

    fn c_name(self) -> &'static str {
        match self {
            IntegerType::U32 => "u32",
            IntegerType::U64 => "u64",
            IntegerType::I64 => "i64",
        }
    }
}

/// The whole text: the helpers, a function for each part, and a kernel for each group of parts. The blocks of a kernel
/// are divided among its parts, in their order.
pub(crate) fn print_program(
    parts: &[BlockProgram],
    kernels: &[(String, Vec<usize>)],
    head: &str,
) -> String {
    let mut text = String::new();
    for line in head.lines() {
        let _ = writeln!(text, "// {line}");
    }
    text.push_str(HELPER_SOURCE);
    let pairs = formats::used_conversions(parts);
    text.push_str(&formats::conversion_source(&pairs));
    for (k, part) in parts.iter().enumerate() {
        text.push_str(&print_device_function(part, k));
    }
    for (name, members) in kernels {
        text.push_str(&print_kernel(parts, name, members));
    }
    text
}

/// The helpers at the beginning of every text.
//
// Loads are marked to leave the cache first and stores to stay: measured on an H200 (18 November 2026), stores that stay
// in the cache are faster than evict-first ones, which cost the memory its writes before the kernel ends and the next
// kernel a read.
const HELPER_SOURCE: &str = "\
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
  asm volatile(\"cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\" :: \"r\"((u32)__cvta_generic_to_shared(shared)), \"l\"(p) : \"memory\");
#else
  *(uint4*)shared = __ldcs((const uint4*)p);
#endif
}
static __device__ __forceinline__ void barrier() {
#if __CUDA_ARCH__ >= 800
  asm volatile(\"cp.async.wait_all;\" ::: \"memory\");
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
";

/// Bytes of shared memory of a kernel of these parts.
fn declared_shared_bytes<'a>(parts: impl Iterator<Item = &'a BlockProgram>) -> u32 {
    parts.map(|p| p.shared).max().unwrap_or(0)
}

/// The same where it is more than a kernel may declare statically, so that the launch requests it; otherwise 0.
pub(crate) fn requested_shared_bytes<'a>(parts: impl Iterator<Item = &'a BlockProgram>) -> u32 {
    let bytes = declared_shared_bytes(parts);
    if i64::from(bytes) > Gpu::DECLARED_SHARED_BYTES { bytes } else { 0 }
}

fn print_kernel(parts: &[BlockProgram], name: &str, members: &[usize]) -> String {
    // The launch bounds let the compiler use as many registers as such blocks leave room for.
    let threads = members.iter().map(|k| parts[*k].threads).max().unwrap_or(32);
    let shared = declared_shared_bytes(members.iter().map(|k| &parts[*k]));
    let asked = requested_shared_bytes(members.iter().map(|k| &parts[*k]));
    let mut text = format!(
        "\nextern \"C\" __global__ void __launch_bounds__({threads}) {name}(const u8* __restrict__ src, u8* __restrict__ dst) {{\n"
    );
    if asked > 0 {
        text.push_str("  extern __shared__ __align__(16) u8 shared[];\n");
    } else if shared > 0 {
        let _ = writeln!(text, "  __shared__ __align__(16) u8 shared[{shared}];");
    }
    let argument = |k: usize| if parts[k].shared > 0 { ", shared" } else { "" };
    // Blocks find their part by comparisons with constants, which all threads of a block answer alike.
    let mut first = 0;
    for (i, k) in members.iter().enumerate() {
        let block = if first == 0 { "blockIdx.x".into() } else { format!("blockIdx.x - {first}u") };
        let call = format!("part{k}(src, dst, {block}{});", argument(*k));
        first += parts[*k].blocks;
        let _ = match (i, i + 1 == members.len()) {
            (0, true) => writeln!(text, "  {call}"),
            (0, false) => writeln!(text, "  if (blockIdx.x < {first}u) {call}"),
            (_, false) => writeln!(text, "  else if (blockIdx.x < {first}u) {call}"),
            (_, true) => writeln!(text, "  else {call}"),
        };
    }
    text.push_str("}\n");
    text
}

fn print_device_function(part: &BlockProgram, k: usize) -> String {
    let mut text = String::from("\n");
    for line in &part.title {
        let _ = writeln!(text, "// {line}");
    }
    for (t, table) in part.tables.iter().enumerate() {
        let _ = write!(text, "static __device__ const i64 part{k}_table{t}[{}] = {{", table.len());
        for (i, n) in table.iter().enumerate() {
            let _ = write!(
                text,
                "{}{n}",
                match i {
                    0 => "",
                    _ if i % 16 == 0 => ",\n  ",
                    _ => ", ",
                }
            );
        }
        text.push_str("};\n");
    }
    let shared = if part.shared > 0 { ", u8* shared" } else { "" };
    let _ = writeln!(
        text,
        "static __device__ __forceinline__ void part{k}(const u8* __restrict__ src, u8* __restrict__ dst, u32 block{shared}) {{"
    );
    for (name, count) in &part.registers {
        let _ = writeln!(text, "  Vec {name}[{count}] = {{}};");
    }
    let printer = ProgramPrinter { part, k };
    printer.print_block(&mut text, &part.body, 1);
    text.push_str("}\n");
    text
}

struct ProgramPrinter<'a> {
    part: &'a BlockProgram,
    k: usize,
}

impl ProgramPrinter<'_> {
    fn print_block(&self, text: &mut String, body: &[KernelStmt], depth: usize) {
        for stmt in body {
            self.print_stmt(text, stmt, depth);
        }
    }

    fn print_stmt(&self, text: &mut String, stmt: &KernelStmt, depth: usize) {
        let pad = "  ".repeat(depth);
        let _ = match stmt {
            KernelStmt::Let(v, value) => {
                let var = KernelExpr::Var(v.clone());
                let ty = IntegerType::for_expr(&var);
                let value = self.print_cast(value, ty);
                writeln!(text, "{pad}const {} {} = {value};", ty.c_name(), v.name)
            }
            // Arrays of registers stay registers only where every index is a constant, which needs unrolled loops.
            KernelStmt::For(v, count, body) | KernelStmt::Loop(v, count, body) => {
                let factor = if matches!(stmt, KernelStmt::Loop(..)) { " 1" } else { "" };
                let _ = writeln!(text, "{pad}#pragma unroll{factor}");
                let _ =
                    writeln!(text, "{pad}for (u32 {n} = 0; {n} < {count}; {n}++) {{", n = v.name);
                self.print_block(text, body, depth + 1);
                writeln!(text, "{pad}}}")
            }
            KernelStmt::If(cond, then, otherwise) => {
                let _ = writeln!(text, "{pad}if ({}) {{", self.print_cond(cond));
                self.print_block(text, then, depth + 1);
                if !otherwise.is_empty() {
                    let _ = writeln!(text, "{pad}}} else {{");
                    self.print_block(text, otherwise, depth + 1);
                }
                writeln!(text, "{pad}}}")
            }
            KernelStmt::Load { into, from: AddressSpace::Shared, at, bytes: 16, .. } => {
                let (r, at) = (self.print_register(into), self.print_unbracketed(at));
                writeln!(text, "{pad}{r} = *(const Vec*)(shared + {at});")
            }
            KernelStmt::Load { into, from, at, bytes, piece } => {
                let (r, p) = (self.print_register(into), self.print_address(*from, at));
                writeln!(text, "{pad}{}", print_split_access("load", &r, &p, *bytes, *piece))
            }
            KernelStmt::Store { from, to: AddressSpace::Shared, at, .. } => {
                let (r, at) = (self.print_register(from), self.print_unbracketed(at));
                writeln!(
                    text,
                    "{pad}*(uint4*)(shared + {at}) = make_uint4({r}.w[0], {r}.w[1], {r}.w[2], {r}.w[3]);"
                )
            }
            KernelStmt::Store { from, to, at, bytes, piece } => {
                let (r, p) = (self.print_register(from), self.print_address(*to, at));
                writeln!(text, "{pad}{}", print_split_access("store", &r, &p, *bytes, *piece))
            }
            KernelStmt::Set(reg, bytes) => {
                writeln!(text, "{pad}{}", print_register_constant(&self.print_register(reg), bytes))
            }
            KernelStmt::PutFill { into, fill, width: 16, .. } => {
                writeln!(text, "{pad}{}", print_register_constant(&self.print_register(into), fill))
            }
            KernelStmt::PutFill { into, element, fill, width } => {
                let (r, e) = (self.print_register(into), self.print_unbracketed(element));
                let mut bytes = [0; 8];
                bytes[..*width as usize].copy_from_slice(&fill[..*width as usize]);
                let x = u64::from_le_bytes(bytes);
                writeln!(text, "{pad}put({r}, {e}, {x:#x}ull, {width});")
            }
            KernelStmt::Put { into, element, from, at, kind } => {
                let (r, e, p) = (
                    self.print_register(into),
                    self.print_unbracketed(element),
                    self.print_address(*from, at),
                );
                if kind.src == 16 {
                    writeln!(text, "{pad}{r} = *(const Vec*)({p});")
                } else {
                    let x = print_conversion(kind, &format!("read({p}, {})", kind.src));
                    writeln!(text, "{pad}put({r}, {e}, {x}, {});", kind.dst)
                }
            }
            KernelStmt::Copy { from, at, to, kind } => {
                let (p, q) =
                    (self.print_address(*from, at), self.print_address(AddressSpace::Dst, to));
                if kind.src == 16 {
                    writeln!(text, "{pad}__stwb((uint4*)({q}), *(const uint4*)({p}));")
                } else {
                    let x = print_conversion(kind, &format!("read({p}, {})", kind.src));
                    writeln!(text, "{pad}write({q}, {x}, {});", kind.dst)
                }
            }
            KernelStmt::Convert { from, into, count, kind } => {
                let (a, b) = (self.print_register(from), self.print_register(into));
                let _ = writeln!(text, "{pad}{b} = Vec();");
                let x = print_conversion(kind, &format!("get({a}, e, {})", kind.src));
                let _ = writeln!(text, "{pad}#pragma unroll");
                let put = format!("put({b}, e, {x}, {});", kind.dst);
                writeln!(text, "{pad}for (u32 e = 0; e < {count}; e++) {put}")
            }
            KernelStmt::Transpose { from, into, width } => {
                let [a, b] = [from, into].map(|k| self.part.registers[*k].0);
                let _ = writeln!(text, "{pad}#pragma unroll");
                let n = 16 / width;
                writeln!(
                    text,
                    "{pad}for (u32 r = 0; r < {n}; r++) {b}[r] = turned({a}, r, {width});"
                )
            }
            KernelStmt::CopyAsync { from, to } => {
                let (p, q) = (
                    self.print_address(AddressSpace::Src, from),
                    self.print_address(AddressSpace::Shared, to),
                );
                writeln!(text, "{pad}bring({q}, {p});")
            }
            KernelStmt::Sync => writeln!(text, "{pad}barrier();"),
        };
    }

    fn print_register(&self, reg: &VectorRegister) -> String {
        format!("{}[{}]", self.part.registers[reg.array].0, self.print_unbracketed(&reg.index))
    }

    fn print_address(&self, space: AddressSpace, at: &KernelExpr) -> String {
        let base = match space {
            AddressSpace::Src => "src",
            AddressSpace::Dst => "dst",
            AddressSpace::Shared => "shared",
        };
        if at.is_zero() { base.into() } else { format!("{base} + {}", self.print_unbracketed(at)) }
    }

    fn print_cond(&self, cond: &KernelCond) -> String {
        let pair = |a: &KernelExpr, b: &KernelExpr| {
            let ty = IntegerType::for_expr(a).max(IntegerType::for_expr(b));
            (self.print_cast(a, ty), self.print_cast(b, ty))
        };
        match cond {
            KernelCond::Less(a, b) => {
                let (a, b) = pair(a, b);
                format!("{a} < {b}")
            }
            KernelCond::AtMost(a, b) => {
                let (a, b) = pair(a, b);
                format!("{a} <= {b}")
            }
            KernelCond::All(all) if all.is_empty() => "true".into(),
            KernelCond::All(all) => {
                all.iter().map(|c| self.print_cond(c)).collect::<Vec<_>>().join(" && ")
            }
        }
    }

    /// The expression with the type that it is to have.
    fn print_cast(&self, expr: &KernelExpr, ty: IntegerType) -> String {
        match expr {
            KernelExpr::Int(n) => print_number(*n, ty),
            _ if IntegerType::for_expr(expr) == ty => self.print_unbracketed(expr),
            _ => format!("({}){}", ty.c_name(), self.print_bracketed(expr)),
        }
    }

    /// The expression without brackets around it.
    fn print_unbracketed(&self, expr: &KernelExpr) -> String {
        let text = self.print_bracketed(expr);
        match expr {
            KernelExpr::Op(op, ..) if *op != IntegerOp::Min => text[1..text.len() - 1].to_string(),
            _ => text,
        }
    }

    /// The expression, in brackets where it is an operation.
    fn print_bracketed(&self, expr: &KernelExpr) -> String {
        match expr {
            KernelExpr::Int(n) => print_number(*n, IntegerType::for_expr(expr)),
            KernelExpr::Var(v) => v.name.clone(),
            KernelExpr::Block(_) => "block".into(),
            KernelExpr::Thread(_) => "threadIdx.x".into(),
            KernelExpr::Low(TensorSide::Src, modulus) => {
                format!("((u32)(u64)src & {}u)", modulus - 1)
            }
            KernelExpr::Low(TensorSide::Dst, modulus) => {
                format!("((u32)(u64)dst & {}u)", modulus - 1)
            }
            KernelExpr::Entry(t, at) => {
                format!("part{}_table{t}[{}]", self.k, self.print_unbracketed(at))
            }
            KernelExpr::Op(op, a, b) => {
                // Every operand in the type of the result, or of the wider operand: C++ would otherwise compute a sum of two
                // 32-bit numbers in 32 bits and drop its carry.
                let ty = IntegerType::for_expr(expr)
                    .max(IntegerType::for_expr(a))
                    .max(IntegerType::for_expr(b));
                let sign = match op {
                    IntegerOp::Add => "+",
                    IntegerOp::Sub => "-",
                    IntegerOp::Mul => "*",
                    IntegerOp::Div => "/",
                    IntegerOp::Rem => "%",
                    IntegerOp::Xor => "^",
                    IntegerOp::Min => {
                        let (a, b) = (self.print_cast(a, ty), self.print_cast(b, ty));
                        return format!("min({a}, {b})");
                    }
                };
                let operand = |e: &KernelExpr| match e {
                    KernelExpr::Int(n) => print_number(*n, ty),
                    _ if IntegerType::for_expr(e) == ty => self.print_bracketed(e),
                    _ => format!("({}){}", ty.c_name(), self.print_bracketed(e)),
                };
                // A sum of products needs no brackets, and texts are read by people.
                let left = operand(a);
                let left = match (op, &**a) {
                    (
                        IntegerOp::Add,
                        KernelExpr::Op(IntegerOp::Add | IntegerOp::Mul | IntegerOp::Sub, ..),
                    ) if IntegerType::for_expr(a) == ty => left[1..left.len() - 1].to_string(),
                    _ => left,
                };
                let right = operand(b);
                let right = match (op, &**b) {
                    (IntegerOp::Add, KernelExpr::Op(IntegerOp::Mul, ..))
                        if IntegerType::for_expr(b) == ty =>
                    {
                        right[1..right.len() - 1].to_string()
                    }
                    _ => right,
                };
                format!("({left} {sign} {right})")
            }
        }
    }
}

fn print_number(n: i64, ty: IntegerType) -> String {
    match ty {
        IntegerType::U32 => format!("{n}u"),
        IntegerType::U64 => format!("{n}ull"),
        IntegerType::I64 => format!("{n}ll"),
    }
}

/// The assignment of a constant to a register.
fn print_register_constant(r: &str, bytes: &[u8; 16]) -> String {
    if bytes.iter().all(|b| *b == 0) {
        return format!("{r} = Vec();");
    }
    let words = bytes.chunks_exact(4).enumerate().map(|(k, w)| {
        format!("{r}.w[{k}] = {:#x}u;", u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
    });
    words.collect::<Vec<_>>().join(" ")
}

fn print_conversion(kind: &MoveElement, x: &str) -> String {
    match kind.convert {
        None => x.into(),
        Some((from, to)) => format!("{}({x})", formats::conversion_name(from, to)),
    }
}

/// The accesses of `piece` bytes that together are one of `bytes` bytes.
fn print_split_access(call: &str, r: &str, p: &str, bytes: u32, piece: u32) -> String {
    let one = |at: u32| {
        let p = if at == 0 { p.to_string() } else { format!("{p} + {at}") };
        format!("{call}({r}, {at}, {p}, {piece});")
    };
    (0..bytes / piece.min(bytes)).map(|k| one(k * piece)).collect::<Vec<_>>().join(" ")
}
