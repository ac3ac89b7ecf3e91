//! The work of one thread of a kernel, as data.
//!
//! A [`BlockProgram`] is the work of a range of blocks: statements over integer expressions, registers of 16
//! bytes, and three memories. The printer writes it as CUDA C++ and the interpreter runs it, so that what is checked on a
//! machine without a GPU is what a GPU runs.

use std::ops::{Add, BitXor, Div, Mul, Rem, Sub};
use zellige_float::Format;

/// An integer expression. Operators fold constants, so that what is printed is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelExpr {
    /// A constant.
    Int(i64),
    /// A variable.
    Var(KernelVar),
    /// The number of the block among those of the part, with its greatest value.
    Block(i64),
    /// The number of the thread in its block, with its greatest value.
    Thread(i64),
    /// The remainder of an address by a power of two, 16 or 32.
    Low(TensorSide, u32),
    /// An operation on two expressions.
    Op(IntegerOp, Box<KernelExpr>, Box<KernelExpr>),
    /// An entry of a table of the part.
    Entry(usize, Box<KernelExpr>),
}

/// An operation on two integers. Quotients and remainders are of numbers that are 0 or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the usual names")]
pub enum IntegerOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Xor,
    Min,
}

/// Which tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorSide {
    /// The one that is read.
    Src,
    /// The one that is written.
    Dst,
}

/// A variable: its place in the frame of a thread, its name in the text, and the values that it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelVar {
    /// Index in the frame.
    pub slot: usize,
    /// The name that is printed.
    pub name: String,
    /// The least value.
    pub low: i64,
    /// The greatest value.
    pub high: i64,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelCond {
    /// The first is less than the second.
    Less(KernelExpr, KernelExpr),
    /// The first is at most the second.
    AtMost(KernelExpr, KernelExpr),
    /// All of them.
    All(Vec<KernelCond>),
}

/// A memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressSpace {
    /// The source tensor.
    Src,
    /// The destination tensor.
    Dst,
    /// The memory that the threads of a block share.
    Shared,
}

/// A register of 16 bytes: one of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorRegister {
    /// The array, by its place in [`BlockProgram::registers`].
    pub array: usize,
    /// The index in it.
    pub index: KernelExpr,
}

/// A statement. Addresses are in bytes from the start of the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelStmt {
    /// Declares a variable with its value.
    Let(KernelVar, KernelExpr),
    /// Repeats, unrolled.
    For(KernelVar, i64, Vec<KernelStmt>),
    /// Repeats as a loop, for statements that few threads run: machine code stays short. Its variable may not index
    /// registers, which need constants.
    Loop(KernelVar, i64, Vec<KernelStmt>),
    /// Branches.
    If(KernelCond, Vec<KernelStmt>, Vec<KernelStmt>),
    /// The first `bytes` bytes of a register from memory, by accesses of `piece` bytes.
    Load {
        /// The register.
        into: VectorRegister,
        /// The memory.
        from: AddressSpace,
        /// The address.
        at: KernelExpr,
        /// Bytes.
        bytes: u32,
        /// Bytes of one access; the address is a multiple of it.
        piece: u32,
    },
    /// The first `bytes` bytes of a register to memory.
    Store {
        /// The register.
        from: VectorRegister,
        /// The memory.
        to: AddressSpace,
        /// The address.
        at: KernelExpr,
        /// Bytes.
        bytes: u32,
        /// Bytes of one access.
        piece: u32,
    },
    /// A constant.
    Set(VectorRegister, [u8; 16]),
    /// One element of a register from memory, converted where `convert` is given.
    Put {
        /// The register.
        into: VectorRegister,
        /// Which element.
        element: KernelExpr,
        /// The memory.
        from: AddressSpace,
        /// The address.
        at: KernelExpr,
        /// The widths, and the conversion.
        kind: MoveElement,
    },
    /// One element of a register from a pattern of 16 bytes that repeats an element of `width` bytes.
    PutFill {
        /// The register.
        into: VectorRegister,
        /// Which element.
        element: KernelExpr,
        /// The pattern.
        fill: [u8; 16],
        /// Bytes of an element.
        width: u32,
    },
    /// One element from memory to the destination.
    Copy {
        /// The memory that is read.
        from: AddressSpace,
        /// The address there.
        at: KernelExpr,
        /// The address in the destination.
        to: KernelExpr,
        /// The widths, and the conversion.
        kind: MoveElement,
    },
    /// The first `count` elements of a register, converted into another.
    Convert {
        /// The register that is read.
        from: VectorRegister,
        /// The register that is written.
        into: VectorRegister,
        /// Elements.
        count: u32,
        /// The conversion.
        kind: MoveElement,
    },
    /// Transposes a square of elements of `width` bytes: `16 / width` registers each.
    Transpose {
        /// The array that is read.
        from: usize,
        /// The array that is written.
        into: usize,
        /// Bytes of an element.
        width: u32,
    },
    /// Copies 16 bytes of the source to shared memory, without registers where the hardware can. They may be read after
    /// the next [`KernelStmt::Sync`].
    CopyAsync {
        /// The address in the source.
        from: KernelExpr,
        /// The address in shared memory.
        to: KernelExpr,
    },
    /// Waits for every thread of the block. Only at the top level of a part.
    Sync,
}

/// Elements of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveElement {
    /// Bytes in the source.
    pub src: u32,
    /// Bytes in the destination.
    pub dst: u32,
    /// The formats, where they differ.
    pub convert: Option<(Format, Format)>,
}

/// The work of a range of blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockProgram {
    /// A description in words, which is printed above the function.
    pub title: Vec<String>,
    /// Blocks.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Arrays of registers of 16 bytes: the name and the count.
    pub registers: Vec<(&'static str, u32)>,
    /// Tables of constants.
    pub tables: Vec<Vec<i64>>,
    /// The statements that every thread runs.
    pub body: Vec<KernelStmt>,
    /// Places in the frame of a thread.
    pub slots: usize,
}

impl KernelExpr {
    /// The least and the greatest value.
    pub fn value_range(&self) -> (i64, i64) {
        match self {
            KernelExpr::Int(n) => (*n, *n),
            KernelExpr::Var(v) => (v.low, v.high),
            KernelExpr::Block(high) | KernelExpr::Thread(high) => (0, *high),
            KernelExpr::Low(_, modulus) => (0, i64::from(*modulus) - 1),
            KernelExpr::Entry(..) => (i64::MIN, i64::MAX),
            KernelExpr::Op(op, a, b) => op.result_range(a.value_range(), b.value_range()),
        }
    }

    /// The remainder by `modulus` of an address that is known to be a multiple of `align` bytes.
    pub fn address_remainder(side: TensorSide, align: u32, modulus: u32) -> KernelExpr {
        if align >= modulus { KernelExpr::Int(0) } else { KernelExpr::Low(side, modulus) }
    }

    /// Whether it is the constant 0.
    pub fn is_zero(&self) -> bool {
        *self == KernelExpr::Int(0)
    }

    /// The smaller of two.
    pub fn smaller_of(self, other: impl Into<KernelExpr>) -> KernelExpr {
        fold_operation(IntegerOp::Min, self, other.into())
    }
}

impl IntegerOp {
    fn result_range(self, (a, b): (i64, i64), (c, d): (i64, i64)) -> (i64, i64) {
        let corners = |f: fn(i64, i64) -> i64| {
            let all = [f(a, c), f(a, d), f(b, c), f(b, d)];
            (all.into_iter().min().unwrap_or(0), all.into_iter().max().unwrap_or(0))
        };
        match self {
            IntegerOp::Add => (a.saturating_add(c), b.saturating_add(d)),
            IntegerOp::Sub => (a.saturating_sub(d), b.saturating_sub(c)),
            IntegerOp::Mul => corners(i64::saturating_mul),
            IntegerOp::Div => (a / d.max(1), b / c.max(1)),
            IntegerOp::Rem => (0, b.min(d - 1)),
            // The smallest number of ones that covers both operands.
            IntegerOp::Xor => (0, i64::MAX >> (b.max(d).max(0)).leading_zeros().saturating_sub(1)),
            IntegerOp::Min => (a.min(c), b.min(d)),
        }
    }

    /// The result for two numbers.
    pub fn evaluate_op(self, a: i64, b: i64) -> i64 {
        match self {
            IntegerOp::Add => a + b,
            IntegerOp::Sub => a - b,
            IntegerOp::Mul => a * b,
            IntegerOp::Div => a / b,
            IntegerOp::Rem => a % b,
            IntegerOp::Xor => a ^ b,
            IntegerOp::Min => a.min(b),
        }
    }
}

/// The operation, folded where the result is known.
fn fold_operation(op: IntegerOp, a: KernelExpr, b: KernelExpr) -> KernelExpr {
    if let (KernelExpr::Int(x), KernelExpr::Int(y)) = (&a, &b) {
        return KernelExpr::Int(op.evaluate_op(*x, *y));
    }
    // By ranges and not by values alone: a tile number that is less than the count of tiles needs no remainder. The texts
    // stay short, and the compiler has less to prove.
    let (low, high) = a.value_range();
    match (op, &b) {
        (IntegerOp::Add | IntegerOp::Sub | IntegerOp::Xor, KernelExpr::Int(0)) => return a,
        (IntegerOp::Add | IntegerOp::Xor, _) if a.is_zero() => return b,
        (IntegerOp::Mul, _) if a.is_zero() || b.is_zero() => return KernelExpr::Int(0),
        (IntegerOp::Mul | IntegerOp::Div, KernelExpr::Int(1)) => return a,
        (IntegerOp::Div, KernelExpr::Int(n)) if low >= 0 && high < *n => return KernelExpr::Int(0),
        (IntegerOp::Rem, KernelExpr::Int(n)) if low >= 0 && high < *n => return a,
        (IntegerOp::Min, KernelExpr::Int(n)) if high <= *n => return a,
        _ => {}
    }
    KernelExpr::Op(op, Box::new(a), Box::new(b))
}

impl From<i64> for KernelExpr {
    fn from(n: i64) -> KernelExpr {
        KernelExpr::Int(n)
    }
}

impl From<&KernelExpr> for KernelExpr {
    fn from(e: &KernelExpr) -> KernelExpr {
        e.clone()
    }
}

macro_rules! operators {
    ($($name:ident, $method:ident, $op:ident;)*) => {$(
        impl<T: Into<KernelExpr>> $name<T> for KernelExpr {
            type Output = KernelExpr;
            fn $method(self, other: T) -> KernelExpr {
                fold_operation(IntegerOp::$op, self, other.into())
            }
        }
        impl<T: Into<KernelExpr>> $name<T> for &KernelExpr {
            type Output = KernelExpr;
            fn $method(self, other: T) -> KernelExpr {
                fold_operation(IntegerOp::$op, self.clone(), other.into())
            }
        }
    )*};
}

operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
    Rem, rem, Rem;
    BitXor, bitxor, Xor;
}

impl KernelCond {
    /// Both; a condition that always holds is left out.
    pub fn and_also(self, other: KernelCond) -> KernelCond {
        let mut all = match self {
            KernelCond::All(all) => all,
            one => vec![one],
        };
        match other {
            KernelCond::All(more) => all.extend(more),
            one => all.push(one),
        }
        KernelCond::All(all)
    }

    /// One that always holds.
    pub fn always_true() -> KernelCond {
        KernelCond::All(Vec::new())
    }

    /// `a < b`, or true where the ranges decide it.
    pub fn less_than(a: impl Into<KernelExpr>, b: impl Into<KernelExpr>) -> KernelCond {
        let (a, b) = (a.into(), b.into());
        if a.value_range().1 < b.value_range().0 {
            KernelCond::always_true()
        } else {
            KernelCond::Less(a, b)
        }
    }

    /// `a <= b`, or true where the ranges decide it.
    pub fn at_most(a: impl Into<KernelExpr>, b: impl Into<KernelExpr>) -> KernelCond {
        let (a, b) = (a.into(), b.into());
        if a.value_range().1 <= b.value_range().0 {
            KernelCond::always_true()
        } else {
            KernelCond::AtMost(a, b)
        }
    }

    /// Whether it is known to hold.
    pub fn is_known_true(&self) -> bool {
        matches!(self, KernelCond::All(all) if all.is_empty())
    }
}

/// Variables of a part that is being written.
#[derive(Debug, Default)]
pub(crate) struct VariableFrame {
    slots: usize,
}

impl VariableFrame {
    /// A new variable with these values.
    pub(crate) fn new_variable(
        &mut self,
        name: impl Into<String>,
        low: i64,
        high: i64,
    ) -> KernelVar {
        self.slots += 1;
        KernelVar { slot: self.slots - 1, name: name.into(), low, high }
    }

    /// Names an expression, unless it is a constant or a variable already.
    pub(crate) fn bind_expression(
        &mut self,
        body: &mut Vec<KernelStmt>,
        name: &str,
        value: KernelExpr,
    ) -> KernelExpr {
        // Constants and variables are names already; a copy would only lengthen the text.
        if matches!(
            value,
            KernelExpr::Int(_) | KernelExpr::Var(_) | KernelExpr::Thread(_) | KernelExpr::Block(_)
        ) {
            return value;
        }
        let (low, high) = value.value_range();
        let var = self.new_variable(name, low, high);
        body.push(KernelStmt::Let(var.clone(), value));
        KernelExpr::Var(var)
    }

    /// Places that the variables take.
    pub(crate) fn slot_count(&self) -> usize {
        self.slots
    }
}

/// A branch that is left out where the condition is known to hold.
pub(crate) fn guard_statements(cond: KernelCond, then: Vec<KernelStmt>) -> Vec<KernelStmt> {
    if cond.is_known_true() { then } else { vec![KernelStmt::If(cond, then, Vec::new())] }
}
