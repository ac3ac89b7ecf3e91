//! What one thread of a kernel does, as data.
//!
//! A [`Part`] is the work of a range of blocks: statements over integer expressions, registers of 16
//! bytes, and three memories. The printer writes it as CUDA C++ and the interpreter runs it, so what
//! is checked on a machine without a GPU is what a GPU runs.

use std::ops::{Add, BitXor, Div, Mul, Rem, Sub};
use zellige_float::Format;

/// An integer expression. Operators fold constants, so that what is printed is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expr {
    /// A constant.
    Int(i64),
    /// A variable.
    Var(Var),
    /// The number of the block among those of the part, at most so much.
    Block(i64),
    /// The number of the thread in its block.
    Thread(i64),
    /// The remainder of an address by a power of two, 16 or 32.
    Low(Side, u32),
    /// An operation on two expressions.
    Op(Op, Box<Expr>, Box<Expr>),
    /// An entry of a table of the part.
    Entry(usize, Box<Expr>),
}

/// An operation on two integers. Quotients and remainders are of numbers that are 0 or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the usual names")]
pub enum Op {
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
pub enum Side {
    /// The one that is read.
    Src,
    /// The one that is written.
    Dst,
}

/// A variable: its place in the frame of a thread, its name in the text, and the values that it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Var {
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
pub enum Cond {
    /// The first is less than the second.
    Less(Expr, Expr),
    /// The first is at most the second.
    AtMost(Expr, Expr),
    /// All of them.
    All(Vec<Cond>),
}

/// A memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The source tensor.
    Src,
    /// The destination tensor.
    Dst,
    /// The memory that the threads of a block share.
    Shared,
}

/// A register of 16 bytes: one of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reg {
    /// The array, by its place in [`Part::registers`].
    pub array: usize,
    /// The index in it.
    pub index: Expr,
}

/// A statement. Addresses are in bytes from the start of the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stmt {
    /// Gives a variable its value.
    Let(Var, Expr),
    /// Repeats, unrolled.
    For(Var, i64, Vec<Stmt>),
    /// Repeats as a loop, for what few threads do: machine code stays short. Its variable picks no register.
    Loop(Var, i64, Vec<Stmt>),
    /// Branches.
    If(Cond, Vec<Stmt>, Vec<Stmt>),
    /// The first `bytes` bytes of a register from memory, by accesses of `piece` bytes.
    Load {
        /// The register.
        into: Reg,
        /// The memory.
        from: Space,
        /// The address.
        at: Expr,
        /// Bytes.
        bytes: u32,
        /// Bytes of one access; the address is a multiple of it.
        piece: u32,
    },
    /// The first `bytes` bytes of a register to memory.
    Store {
        /// The register.
        from: Reg,
        /// The memory.
        to: Space,
        /// The address.
        at: Expr,
        /// Bytes.
        bytes: u32,
        /// Bytes of one access.
        piece: u32,
    },
    /// A constant.
    Set(Reg, [u8; 16]),
    /// One element of a register from memory, converted on the way where `convert` says so.
    Put {
        /// The register.
        into: Reg,
        /// Which element.
        element: Expr,
        /// The memory.
        from: Space,
        /// The address.
        at: Expr,
        /// The widths, and the conversion.
        kind: Element,
    },
    /// One element of a register as in a pattern of 16 bytes that repeats elements of `width` bytes.
    PutFill {
        /// The register.
        into: Reg,
        /// Which element.
        element: Expr,
        /// The pattern.
        fill: [u8; 16],
        /// Bytes of an element.
        width: u32,
    },
    /// One element from memory to the destination.
    Copy {
        /// The memory that is read.
        from: Space,
        /// The address there.
        at: Expr,
        /// The address in the destination.
        to: Expr,
        /// The widths, and the conversion.
        kind: Element,
    },
    /// The first `count` elements of a register, converted into another.
    Convert {
        /// The register that is read.
        from: Reg,
        /// The register that is written.
        into: Reg,
        /// Elements.
        count: u32,
        /// The conversion.
        kind: Element,
    },
    /// A square of elements of `width` bytes, rows become columns: `16 / width` registers each.
    Turn {
        /// The array that is read.
        from: usize,
        /// The array that is written.
        into: usize,
        /// Bytes of an element.
        width: u32,
    },
    /// 16 bytes of the source to shared memory, past the registers. They have arrived after the next
    /// [`Stmt::Sync`].
    Bring {
        /// The address in the source.
        from: Expr,
        /// The address in shared memory.
        to: Expr,
    },
    /// Waits for every thread of the block. Only at the top level of a part.
    Sync,
}

/// Elements of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Bytes in the source.
    pub src: u32,
    /// Bytes in the destination.
    pub dst: u32,
    /// The formats, where they differ.
    pub convert: Option<(Format, Format)>,
}

/// The work of a range of blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it does, in words: printed above the function.
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
    /// What every thread does.
    pub body: Vec<Stmt>,
    /// Places in the frame of a thread.
    pub slots: usize,
}

impl Expr {
    /// The least and the greatest value.
    pub fn range(&self) -> (i64, i64) {
        match self {
            Expr::Int(n) => (*n, *n),
            Expr::Var(v) => (v.low, v.high),
            Expr::Block(high) | Expr::Thread(high) => (0, *high),
            Expr::Low(_, modulus) => (0, i64::from(*modulus) - 1),
            Expr::Entry(..) => (i64::MIN, i64::MAX),
            Expr::Op(op, a, b) => op.range(a.range(), b.range()),
        }
    }

    /// The remainder by `modulus` of an address that is known to be a multiple of `align` bytes.
    pub fn low(side: Side, align: u32, modulus: u32) -> Expr {
        if align >= modulus { Expr::Int(0) } else { Expr::Low(side, modulus) }
    }

    /// Whether it is the constant 0.
    pub fn is_zero(&self) -> bool {
        *self == Expr::Int(0)
    }

    /// The smaller of two.
    pub fn min(self, other: impl Into<Expr>) -> Expr {
        op(Op::Min, self, other.into())
    }
}

impl Op {
    fn range(self, (a, b): (i64, i64), (c, d): (i64, i64)) -> (i64, i64) {
        let corners = |f: fn(i64, i64) -> i64| {
            let all = [f(a, c), f(a, d), f(b, c), f(b, d)];
            (all.into_iter().min().unwrap_or(0), all.into_iter().max().unwrap_or(0))
        };
        match self {
            Op::Add => (a.saturating_add(c), b.saturating_add(d)),
            Op::Sub => (a.saturating_sub(d), b.saturating_sub(c)),
            Op::Mul => corners(i64::saturating_mul),
            Op::Div => (a / d.max(1), b / c.max(1)),
            Op::Rem => (0, b.min(d - 1)),
            Op::Xor => (0, i64::MAX >> (b.max(d).max(0)).leading_zeros().saturating_sub(1)),
            Op::Min => (a.min(c), b.min(d)),
        }
    }

    /// What it computes.
    pub fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::Div => a / b,
            Op::Rem => a % b,
            Op::Xor => a ^ b,
            Op::Min => a.min(b),
        }
    }
}

/// The operation, folded where the result is known.
fn op(op: Op, a: Expr, b: Expr) -> Expr {
    if let (Expr::Int(x), Expr::Int(y)) = (&a, &b) {
        return Expr::Int(op.apply(*x, *y));
    }
    let (low, high) = a.range();
    match (op, &b) {
        (Op::Add | Op::Sub | Op::Xor, Expr::Int(0)) => return a,
        (Op::Add | Op::Xor, _) if a.is_zero() => return b,
        (Op::Mul, _) if a.is_zero() || b.is_zero() => return Expr::Int(0),
        (Op::Mul | Op::Div, Expr::Int(1)) => return a,
        (Op::Div, Expr::Int(n)) if low >= 0 && high < *n => return Expr::Int(0),
        (Op::Rem, Expr::Int(n)) if low >= 0 && high < *n => return a,
        (Op::Min, Expr::Int(n)) if high <= *n => return a,
        _ => {}
    }
    Expr::Op(op, Box::new(a), Box::new(b))
}

impl From<i64> for Expr {
    fn from(n: i64) -> Expr {
        Expr::Int(n)
    }
}

impl From<&Expr> for Expr {
    fn from(e: &Expr) -> Expr {
        e.clone()
    }
}

macro_rules! operators {
    ($($name:ident, $method:ident, $op:ident;)*) => {$(
        impl<T: Into<Expr>> $name<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                op(Op::$op, self, other.into())
            }
        }
        impl<T: Into<Expr>> $name<T> for &Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                op(Op::$op, self.clone(), other.into())
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

impl Cond {
    /// Both; a condition that always holds is left out.
    pub fn and(self, other: Cond) -> Cond {
        let mut all = match self {
            Cond::All(all) => all,
            one => vec![one],
        };
        match other {
            Cond::All(more) => all.extend(more),
            one => all.push(one),
        }
        Cond::All(all)
    }

    /// One that always holds.
    pub fn always() -> Cond {
        Cond::All(Vec::new())
    }

    /// `a < b`, or what is known of it.
    pub fn less(a: impl Into<Expr>, b: impl Into<Expr>) -> Cond {
        let (a, b) = (a.into(), b.into());
        if a.range().1 < b.range().0 { Cond::always() } else { Cond::Less(a, b) }
    }

    /// `a <= b`, or what is known of it.
    pub fn at_most(a: impl Into<Expr>, b: impl Into<Expr>) -> Cond {
        let (a, b) = (a.into(), b.into());
        if a.range().1 <= b.range().0 { Cond::always() } else { Cond::AtMost(a, b) }
    }

    /// Whether it is known to hold.
    pub fn holds(&self) -> bool {
        matches!(self, Cond::All(all) if all.is_empty())
    }
}

/// Variables of a part that is being written.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    slots: usize,
}

impl Frame {
    /// A new variable with these values.
    pub(crate) fn var(&mut self, name: impl Into<String>, low: i64, high: i64) -> Var {
        self.slots += 1;
        Var { slot: self.slots - 1, name: name.into(), low, high }
    }

    /// Names an expression, unless it is a constant or a variable already.
    pub(crate) fn name(&mut self, body: &mut Vec<Stmt>, name: &str, value: Expr) -> Expr {
        if matches!(value, Expr::Int(_) | Expr::Var(_) | Expr::Thread(_) | Expr::Block(_)) {
            return value;
        }
        let (low, high) = value.range();
        let var = self.var(name, low, high);
        body.push(Stmt::Let(var.clone(), value));
        Expr::Var(var)
    }

    /// Places that the variables take.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }
}

/// A branch that is left out where the condition is known to hold.
pub(crate) fn when(cond: Cond, then: Vec<Stmt>) -> Vec<Stmt> {
    if cond.holds() { then } else { vec![Stmt::If(cond, then, Vec::new())] }
}
