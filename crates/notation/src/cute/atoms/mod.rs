//! MMA and copy atoms by name: which element each value of each thread holds.
//!
//! An atom is known by the name that CuTe gives it, and its thread-value layouts follow from rules on
//! that name: the shape and the widths of the types of a matrix instruction, the number of matrices of
//! an `ldmatrix`, the lanes and bits of a tensor memory access. [`find`] knows every atom of these
//! families, [`names`] lists them (of those with a free size, the sizes that CuTe lists).
//!
//! For an MMA the layouts map (thread, value) to `m + M k` for A, `n + N k` for B and `m + M n` for C;
//! for a copy, to bits. Operands in shared memory have thread stride 0: every thread names the whole.

mod copy;
mod mma;

use super::atom_text::{AtomBlock, AtomField, AtomText};
use super::modes::{Look, Mode, Modes};
use super::nest::{Nest, tuple_of};
use super::text::{Int, Value};

/// An MMA or copy atom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom {
    /// Its name in CuTe.
    pub name: String,
    /// The threads that take part: from their number in the atom to that in the warp or cluster.
    pub threads: Modes,
    /// Its layouts.
    pub layouts: AtomLayouts,
}

/// The thread-value layouts of an atom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtomLayouts {
    /// A matrix instruction.
    Mma {
        /// M, N and K.
        shape: [i64; 3],
        /// (thread, value) to `m + M k`.
        a: Modes,
        /// (thread, value) to `n + N k`.
        b: Modes,
        /// (thread, value) to `m + M n`.
        c: Modes,
    },
    /// A copy; in bits.
    Copy {
        /// (thread, value) to the bit that is read.
        src: Modes,
        /// (thread, value) to the bit that is written.
        dst: Modes,
        /// The side whose bits are counted.
        reference: Modes,
    },
}

impl Atom {
    /// Its layouts with the names that CuTe prints.
    pub fn fields(&self) -> Vec<(&'static str, &Modes)> {
        match &self.layouts {
            AtomLayouts::Mma { a, b, c, .. } => {
                vec![("LayoutA_TV", a), ("LayoutB_TV", b), ("LayoutC_TV", c)]
            }
            AtomLayouts::Copy { src, dst, reference } => {
                vec![("ValLayoutSrc", src), ("ValLayoutDst", dst), ("ValLayoutRef", reference)]
            }
        }
    }

    /// The type of the elements of A, B or C (0, 1 or 2) of a matrix instruction, by its PyTorch name, where its name says one
    /// that PyTorch has.
    pub fn dtype(&self, operand: usize) -> Option<&'static str> {
        mma::dtype(&self.name, operand)
    }

    /// The block that CuTe prints; of a copy, in bits.
    pub fn block(&self) -> AtomText {
        let modes = |m: &Modes| AtomField::Modes(m.written(Look::Static));
        let mut fields = vec![("ThrID", modes(&self.threads))];
        if let AtomLayouts::Mma { shape, .. } = &self.layouts {
            let sizes = shape.iter().map(|n| Nest::Leaf(Value::Int(Int::Static(*n)))).collect();
            fields.push(("Shape_MNK", AtomField::Value(Nest::Tuple(sizes))));
        }
        fields.extend(self.fields().into_iter().map(|(name, m)| (name, modes(m))));
        let title = match &self.layouts {
            AtomLayouts::Mma { .. } => "MMA_Atom",
            AtomLayouts::Copy { .. } => {
                fields.push(("ValueType", AtomField::Bits(1)));
                "Copy_Atom"
            }
        };
        AtomText { blocks: vec![AtomBlock { title, fields }] }
    }
}

/// The atom of that name.
pub fn find(name: &str) -> Option<Atom> {
    let (threads, layouts) = mma::find(name).or_else(|| copy::find(name))?;
    Some(Atom { name: name.into(), threads, layouts })
}

/// The names of the atoms, by architecture.
pub fn names() -> Vec<String> {
    let mut names = mma::names();
    names.extend(copy::names());
    names
}

/// `(extent:stride, ..)` as one mode; modes of one step go, and a mode of nothing else is `1:0`.
fn mode(leaves: &[(i64, i64)]) -> Modes {
    let moving = leaves.iter().filter(|(e, _)| *e != 1).map(|(e, s)| Mode::new(*e, *s)).collect();
    tuple_of(moving, Mode::unit())
}

/// A mode with all its leaves, also those of one step.
fn whole(leaves: &[(i64, i64)]) -> Modes {
    Nest::Tuple(leaves.iter().map(|(e, s)| Nest::Leaf(Mode::new(*e, *s))).collect())
}

/// A thread mode and a value mode.
fn thread_value(thread: Modes, value: Modes) -> Modes {
    Nest::Tuple(vec![thread, value])
}

/// One mode.
fn one(extent: i64, stride: i64) -> Modes {
    Nest::Leaf(Mode::new(extent, stride))
}

/// A number at the front of a text, without a sign or a zero before it, and what follows.
fn number(text: &str) -> Option<(i64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if text.starts_with('0') || digits > 9 {
        return None;
    }
    Some((text[..digits].parse().ok()?, &text[digits..]))
}
