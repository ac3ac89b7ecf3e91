//! MMA and copy atoms by name: the element in each value of each thread.
//!
//! An atom is known by the name that CuTe gives it, and its thread-value layouts follow from rules on
//! that name: the shape and the widths of the types of a matrix instruction, the number of matrices of
//! an `ldmatrix`, the lanes and bits of a tensor memory access. [`find_atom`] knows every atom of these
//! families, [`list_atom_names`] lists them (of those with a free size, the sizes that CuTe lists).
//!
//! For an MMA the layouts map (thread, value) to `m + M k` for A, `n + N k` for B and `m + M n` for C; for
//! a copy, to bits. Operands in shared memory have thread stride 0, because every thread refers to the
//! whole operand.

mod copy;
mod mma;

use super::atom_text::{AtomBlock, AtomField, AtomText};
use super::modes::{CuteMode, CuteModes, IntegerStyle};
use super::nest::{NestedTuple, tuple_of_leaves};
use super::text::{CuteInt, CuteValue};

/// An MMA or copy atom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuteAtom {
    /// Its name in CuTe.
    pub name: String,
    /// The threads that take part: from their number in the atom to that in the warp or cluster.
    pub threads: CuteModes,
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
        a: CuteModes,
        /// (thread, value) to `n + N k`.
        b: CuteModes,
        /// (thread, value) to `m + M n`.
        c: CuteModes,
    },
    /// A copy; in bits.
    Copy {
        /// (thread, value) to the bit that is read.
        src: CuteModes,
        /// (thread, value) to the bit that is written.
        dst: CuteModes,
        /// The side whose bits are counted.
        reference: CuteModes,
    },
}

impl CuteAtom {
    /// Its layouts with the names that CuTe prints.
    pub fn layout_fields(&self) -> Vec<(&'static str, &CuteModes)> {
        match &self.layouts {
            AtomLayouts::Mma { a, b, c, .. } => {
                vec![("LayoutA_TV", a), ("LayoutB_TV", b), ("LayoutC_TV", c)]
            }
            AtomLayouts::Copy { src, dst, reference } => {
                vec![("ValLayoutSrc", src), ("ValLayoutDst", dst), ("ValLayoutRef", reference)]
            }
        }
    }

    /// The type of the elements of A, B or C (0, 1 or 2) of a matrix instruction, by its PyTorch name, if
    /// the atom's name states one that PyTorch has.
    pub fn operand_dtype(&self, operand: usize) -> Option<&'static str> {
        mma::operand_dtype(&self.name, operand)
    }

    /// The block that CuTe prints; of a copy, in bits.
    pub fn print_block(&self) -> AtomText {
        let modes = |m: &CuteModes| AtomField::Modes(m.written_in_style(IntegerStyle::Static));
        let mut fields = vec![("ThrID", modes(&self.threads))];
        if let AtomLayouts::Mma { shape, .. } = &self.layouts {
            let sizes = shape
                .iter()
                .map(|n| NestedTuple::Leaf(CuteValue::Int(CuteInt::Static(*n))))
                .collect();
            fields.push(("Shape_MNK", AtomField::Value(NestedTuple::Tuple(sizes))));
        }
        fields.extend(self.layout_fields().into_iter().map(|(name, m)| (name, modes(m))));
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
pub fn find_atom(name: &str) -> Option<CuteAtom> {
    let (threads, layouts) = mma::find_mma_atom(name).or_else(|| copy::find_copy_atom(name))?;
    Some(CuteAtom { name: name.into(), threads, layouts })
}

/// The names of the atoms, by architecture.
pub fn list_atom_names() -> Vec<String> {
    let mut names = mma::list_mma_atoms();
    names.extend(copy::list_copy_atoms());
    names
}

/// `(extent:stride, ..)` as one mode without leaves of extent 1; `1:0` if none is left.
fn mode_without_units(leaves: &[(i64, i64)]) -> CuteModes {
    let moving =
        leaves.iter().filter(|(e, _)| *e != 1).map(|(e, s)| CuteMode::new(*e, *s)).collect();
    tuple_of_leaves(moving, CuteMode::unit_mode())
}

/// A mode with all its leaves, also those of one step.
fn mode_with_units(leaves: &[(i64, i64)]) -> CuteModes {
    NestedTuple::Tuple(
        leaves.iter().map(|(e, s)| NestedTuple::Leaf(CuteMode::new(*e, *s))).collect(),
    )
}

/// A thread mode and a value mode.
fn thread_value_layout(thread: CuteModes, value: CuteModes) -> CuteModes {
    NestedTuple::Tuple(vec![thread, value])
}

/// One mode.
fn single_mode(extent: i64, stride: i64) -> CuteModes {
    NestedTuple::Leaf(CuteMode::new(extent, stride))
}

/// A number at the front of a text, without a sign or a zero before it, and what follows.
fn parse_leading_number(text: &str) -> Option<(i64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    // A leading zero or ten digits is no size in any name, and nine digits cannot overflow.
    if text.starts_with('0') || digits > 9 {
        return None;
    }
    Some((text[..digits].parse().ok()?, &text[digits..]))
}
