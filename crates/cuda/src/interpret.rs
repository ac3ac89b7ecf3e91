//! An interpreter of descriptions, block by block and thread by thread, for tests and for the analysis of accesses.
//!
//! Everything that would fail on a GPU is an error with its witness: an access that is not aligned, a load outside of
//! what the plan reads, an address that is written twice, a shared byte that is read before it was written.

use crate::description::{
    AddressSpace, BlockProgram, KernelCond, KernelExpr, KernelStmt, MoveElement, TensorSide,
    VectorRegister,
};
use std::collections::HashMap;
use zellige_float::Converter;

/// One access of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadAccess {
    /// The memory.
    pub space: AddressSpace,
    /// Whether it is written.
    pub store: bool,
    /// The address in bytes.
    pub at: i64,
    /// Bytes.
    pub bytes: u32,
    /// The thread.
    pub thread: u32,
    /// The number of the access in its thread: equal for accesses that the lanes of a warp make together.
    pub site: u64,
}

/// The two tensors, and how they may be accessed.
pub struct InterpretedMemory<'a> {
    /// The source.
    pub src: &'a [u8],
    /// The destination.
    pub dst: &'a mut [u8],
    /// The number of writes to each byte of the destination.
    pub written: &'a mut [u8],
    /// The bytes of the source that may be read.
    pub readable: std::ops::Range<i64>,
    /// The last five bits of the two addresses.
    pub low: (i64, i64),
    /// Whether there are no tensors: accesses are checked and reported, and reads give zeros.
    pub dry: bool,
}

/// Runs every block of a part.
///
/// # Errors
/// The first access that a GPU would not allow or that breaks the law of a plan, in words.
pub fn interpret_program(
    part: &BlockProgram,
    memory: &mut InterpretedMemory<'_>,
) -> Result<(), String> {
    for block in 0..part.blocks {
        interpret_block(part, block, memory, &mut |_| {})?;
    }
    Ok(())
}

/// Runs one block, and reports every access to `tell`.
///
/// # Errors
/// As [`interpret_program`].
pub fn interpret_block(
    part: &BlockProgram,
    block: u64,
    memory: &mut InterpretedMemory<'_>,
    tell: &mut dyn FnMut(ThreadAccess),
) -> Result<(), String> {
    let registers: u32 = part.registers.iter().map(|r| r.1).sum();
    let mut threads: Vec<ThreadState> = (0..part.threads)
        .map(|number| ThreadState {
            number,
            block,
            frame: vec![0; part.slots],
            registers: vec![[0; 16]; registers as usize],
        })
        .collect();
    let mut shared = SharedBytes {
        bytes: vec![0; part.shared as usize],
        written: vec![false; part.shared as usize],
    };
    // Between two barriers the threads of a block may run in any order, so one after another will do. A read
    // of what a thread with a higher number writes in the same phase is found, because the byte is not yet marked.
    for phase in part.body.split(|s| *s == KernelStmt::Sync) {
        for thread in &mut threads {
            let mut run =
                BlockInterpreter { part, memory, shared: &mut shared, tell, path: 0, site: 0 };
            run.run_statements(thread, phase)
                .map_err(|e| format!("block {block}, thread {}: {e}", thread.number))?;
        }
    }
    Ok(())
}

struct SharedBytes {
    bytes: Vec<u8>,
    written: Vec<bool>,
}

struct ThreadState {
    number: u32,
    block: u64,
    frame: Vec<i64>,
    registers: Vec<[u8; 16]>,
}

struct BlockInterpreter<'a, 'b> {
    part: &'a BlockProgram,
    memory: &'a mut InterpretedMemory<'b>,
    shared: &'a mut SharedBytes,
    tell: &'a mut dyn FnMut(ThreadAccess),
    /// The iterations of the loops around, as one number.
    path: u64,
    site: u64,
}

/// The distance from one access of a statement to its next: a large odd number, so that accesses of different iterations
/// and statements get different numbers.
const NEXT_SITE: u64 = 0x5851_f42d_4c95_7f2d;

impl BlockInterpreter<'_, '_> {
    fn run_statements(
        &mut self,
        thread: &mut ThreadState,
        body: &[KernelStmt],
    ) -> Result<(), String> {
        for stmt in body {
            // The address of a statement is the same for all threads, and differs from those of other statements.
            self.site =
                (std::ptr::from_ref(stmt) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.path;
            self.run_statement(thread, stmt)?;
        }
        Ok(())
    }

    fn run_statement(&mut self, thread: &mut ThreadState, stmt: &KernelStmt) -> Result<(), String> {
        match stmt {
            KernelStmt::Let(v, value) => {
                let value = self.evaluate_expr(thread, value)?;
                // Ranges decide which comparisons are left out of the text, so a value outside of its range is a mistake even
                // where the result happens to be right.
                if value < v.low || value > v.high {
                    return Err(format!("{} is {value}, not in {}..={}", v.name, v.low, v.high));
                }
                thread.frame[v.slot] = value;
            }
            KernelStmt::For(v, count, body) | KernelStmt::Loop(v, count, body) => {
                let outer = self.path;
                for k in 0..*count {
                    thread.frame[v.slot] = k;
                    self.path = outer.wrapping_mul(0x100_0000_01b3) ^ (k.cast_unsigned() + 1);
                    self.run_statements(thread, body)?;
                }
                self.path = outer;
            }
            KernelStmt::If(cond, then, otherwise) => {
                let taken = if self.evaluate_cond(thread, cond)? { then } else { otherwise };
                self.run_statements(thread, taken)?;
            }
            KernelStmt::Load { into, from, at, bytes, piece } => {
                let at = self.evaluate_expr(thread, at)?;
                let to = self.register_index(thread, into)?;
                for k in (0..*bytes).step_by(*piece as usize) {
                    self.site = self.site.wrapping_add(NEXT_SITE);
                    let data = self.read_memory(thread, *from, at + i64::from(k), *piece)?;
                    let k = k as usize;
                    thread.registers[to][k..k + data.len()].copy_from_slice(&data);
                }
            }
            KernelStmt::Store { from, to, at, bytes, piece } => {
                let at = self.evaluate_expr(thread, at)?;
                let data = thread.registers[self.register_index(thread, from)?];
                for k in (0..*bytes).step_by(*piece as usize) {
                    self.site = self.site.wrapping_add(NEXT_SITE);
                    let bytes = &data[k as usize..(k + piece) as usize];
                    self.write_memory(thread, *to, at + i64::from(k), bytes)?;
                }
            }
            KernelStmt::Set(reg, bytes) => {
                let to = self.register_index(thread, reg)?;
                thread.registers[to] = *bytes;
            }
            KernelStmt::Put { into, element, from, at, kind } => {
                let (at, element) =
                    (self.evaluate_expr(thread, at)?, self.evaluate_expr(thread, element)?);
                let data = self.read_memory(thread, *from, at, kind.src)?;
                let to = self.register_index(thread, into)?;
                put_element(&mut thread.registers[to], element, kind, &data)?;
            }
            KernelStmt::PutFill { into, element, fill, width } => {
                let element = self.evaluate_expr(thread, element)?;
                let to = self.register_index(thread, into)?;
                let kind = MoveElement { src: *width, dst: *width, convert: None };
                put_element(&mut thread.registers[to], element, &kind, &fill[..*width as usize])?;
            }
            KernelStmt::Copy { from, at, to, kind } => {
                let (at, to) = (self.evaluate_expr(thread, at)?, self.evaluate_expr(thread, to)?);
                let data = self.read_memory(thread, *from, at, kind.src)?;
                self.write_memory(thread, AddressSpace::Dst, to, &convert_element(kind, &data)?)?;
            }
            KernelStmt::Convert { from, into, count, kind } => {
                let data = thread.registers[self.register_index(thread, from)?];
                let to = self.register_index(thread, into)?;
                thread.registers[to] = [0; 16];
                for e in 0..*count {
                    let one = &data[(e * kind.src) as usize..((e + 1) * kind.src) as usize];
                    put_element(&mut thread.registers[to], i64::from(e), kind, one)?;
                }
            }
            KernelStmt::Transpose { from, into, width } => {
                let n = (16 / width) as usize;
                let width = *width as usize;
                let (a, b) = (self.first_register(*from), self.first_register(*into));
                for row in 0..n {
                    for k in 0..n {
                        // Through a copy, because the two arrays are parts of one list of registers.
                        let mut one = [0; 16];
                        one[..width].copy_from_slice(
                            &thread.registers[a + k][row * width..(row + 1) * width],
                        );
                        thread.registers[b + row][k * width..(k + 1) * width]
                            .copy_from_slice(&one[..width]);
                    }
                }
            }
            KernelStmt::CopyAsync { from, to } => {
                let (from, to) =
                    (self.evaluate_expr(thread, from)?, self.evaluate_expr(thread, to)?);
                let data = self.read_memory(thread, AddressSpace::Src, from, 16)?;
                self.site = self.site.wrapping_add(NEXT_SITE);
                self.write_memory(thread, AddressSpace::Shared, to, &data)?;
            }
            KernelStmt::Sync => return Err("a barrier inside of a statement".into()),
        }
        Ok(())
    }

    fn first_register(&self, array: usize) -> usize {
        self.part.registers[..array].iter().map(|r| r.1 as usize).sum()
    }

    fn register_index(&self, thread: &ThreadState, reg: &VectorRegister) -> Result<usize, String> {
        let index = self.evaluate_expr(thread, &reg.index)?;
        let (name, count) = self.part.registers[reg.array];
        match usize::try_from(index) {
            Ok(i) if index < i64::from(count) => Ok(self.first_register(reg.array) + i),
            _ => Err(format!("register {name}[{index}] of {count}")),
        }
    }

    fn evaluate_expr(&self, thread: &ThreadState, expr: &KernelExpr) -> Result<i64, String> {
        Ok(match expr {
            KernelExpr::Int(n) => *n,
            KernelExpr::Var(v) => thread.frame[v.slot],
            KernelExpr::Block(_) => thread.block.cast_signed(),
            KernelExpr::Thread(_) => i64::from(thread.number),
            KernelExpr::Low(TensorSide::Src, modulus) => self.memory.low.0 % i64::from(*modulus),
            KernelExpr::Low(TensorSide::Dst, modulus) => self.memory.low.1 % i64::from(*modulus),
            KernelExpr::Op(op, a, b) => {
                let (a, b) = (self.evaluate_expr(thread, a)?, self.evaluate_expr(thread, b)?);
                op.evaluate_op(a, b)
            }
            KernelExpr::Entry(t, at) => {
                let at = self.evaluate_expr(thread, at)?;
                let table = &self.part.tables[*t];
                let entry = usize::try_from(at).ok().and_then(|i| table.get(i));
                *entry.ok_or_else(|| format!("entry {at} of a table of {}", table.len()))?
            }
        })
    }

    fn evaluate_cond(&self, thread: &ThreadState, cond: &KernelCond) -> Result<bool, String> {
        Ok(match cond {
            KernelCond::Less(a, b) => {
                self.evaluate_expr(thread, a)? < self.evaluate_expr(thread, b)?
            }
            KernelCond::AtMost(a, b) => {
                self.evaluate_expr(thread, a)? <= self.evaluate_expr(thread, b)?
            }
            KernelCond::All(all) => {
                for c in all {
                    if !self.evaluate_cond(thread, c)? {
                        return Ok(false);
                    }
                }
                true
            }
        })
    }

    fn check_alignment(&self, space: AddressSpace, at: i64, bytes: u32) -> Result<(), String> {
        let low = match space {
            AddressSpace::Src => self.memory.low.0,
            AddressSpace::Dst => self.memory.low.1,
            AddressSpace::Shared => 0,
        };
        if (at + low).rem_euclid(i64::from(bytes)) == 0 {
            return Ok(());
        }
        Err(format!("{space:?} address {at} (base {low} mod 32) is no multiple of {bytes}"))
    }

    fn read_memory(
        &mut self,
        thread: &ThreadState,
        space: AddressSpace,
        at: i64,
        bytes: u32,
    ) -> Result<Vec<u8>, String> {
        self.check_alignment(space, at, bytes)?;
        let (thread, site) = (thread.number, self.site);
        // Reported before it is refused, so that a drawing shows the access that is wrong.
        (self.tell)(ThreadAccess { space, store: false, at, bytes, thread, site });
        let end = at + i64::from(bytes);
        let data = match space {
            AddressSpace::Src
                if at < self.memory.readable.start || end > self.memory.readable.end =>
            {
                return Err(format!("reads {at}..{end} of a source of {:?}", self.memory.readable));
            }
            AddressSpace::Src if self.memory.dry => return Ok(vec![0; bytes as usize]),
            AddressSpace::Src => self.memory.src,
            AddressSpace::Dst => return Err("the destination is never read".into()),
            AddressSpace::Shared => {
                let range = checked_range(at, end, self.shared.bytes.len())?;
                if !self.shared.written[range.clone()].iter().all(|w| *w) {
                    return Err(format!("shared {at}..{end} is read before it is written"));
                }
                &self.shared.bytes
            }
        };
        Ok(data[checked_range(at, end, data.len())?].to_vec())
    }

    fn write_memory(
        &mut self,
        thread: &ThreadState,
        space: AddressSpace,
        at: i64,
        data: &[u8],
    ) -> Result<(), String> {
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.check_alignment(space, at, bytes)?;
        let (thread, site) = (thread.number, self.site);
        (self.tell)(ThreadAccess { space, store: true, at, bytes, thread, site });
        let end = at + i64::from(bytes);
        match space {
            AddressSpace::Src => return Err("the source is never written".into()),
            AddressSpace::Dst if self.memory.dry => {}
            AddressSpace::Dst => {
                let range = checked_range(at, end, self.memory.dst.len())?;
                self.memory.dst[range.clone()].copy_from_slice(data);
                for w in &mut self.memory.written[range] {
                    *w += 1;
                    if *w > 1 {
                        return Err(format!("destination {at}..{end} is written twice"));
                    }
                }
            }
            AddressSpace::Shared => {
                let range = checked_range(at, end, self.shared.bytes.len())?;
                if self.shared.written[range.clone()].iter().any(|w| *w) {
                    return Err(format!("shared {at}..{end} is written twice"));
                }
                self.shared.bytes[range.clone()].copy_from_slice(data);
                self.shared.written[range].fill(true);
            }
        }
        Ok(())
    }
}

fn checked_range(at: i64, end: i64, len: usize) -> Result<std::ops::Range<usize>, String> {
    match (usize::try_from(at), usize::try_from(end)) {
        (Ok(a), Ok(b)) if b <= len => Ok(a..b),
        _ => Err(format!("{at}..{end} of {len} bytes")),
    }
}

fn put_element(
    reg: &mut [u8; 16],
    element: i64,
    kind: &MoveElement,
    data: &[u8],
) -> Result<(), String> {
    let data = convert_element(kind, data)?;
    let at = usize::try_from(element).map_err(|_| "a negative element")? * kind.dst as usize;
    let place = reg.get_mut(at..at + data.len()).ok_or("an element past its register")?;
    place.copy_from_slice(&data);
    Ok(())
}

fn convert_element(kind: &MoveElement, data: &[u8]) -> Result<Vec<u8>, String> {
    let Some((from, to)) = kind.convert else { return Ok(data.to_vec()) };
    let mut out = vec![0; kind.dst as usize];
    Converter::new(from, to).convert(data, &mut out, 1).map_err(|e| e.to_string())?;
    Ok(out)
}

/// Groups the accesses that the lanes of one warp make together.
pub(crate) fn group_by_warp(accesses: &[ThreadAccess]) -> Vec<Vec<ThreadAccess>> {
    let mut order: Vec<(u64, u32)> = Vec::new();
    let mut groups: HashMap<(u64, u32), Vec<ThreadAccess>> = HashMap::new();
    for a in accesses {
        // Lanes that branch apart have different sites, as the hardware serves them one after the other.
        let key = (a.site, a.thread / 32);
        groups.entry(key).or_insert_with(|| {
            order.push(key);
            Vec::new()
        });
        groups.entry(key).and_modify(|g| g.push(*a));
    }
    order.into_iter().filter_map(|k| groups.remove(&k)).collect()
}
