//! The printed form of MMA and copy atoms: a title, and a line for each of its layouts. It is what CuTe's
//! `print` writes of an atom (CuTe documentation, "MMA Atom").
//!
//! ```text
//! MMA_Atom
//!   ThrID:      _32:_1
//!   Shape_MNK:  (_16,_8,_8)
//!   LayoutA_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))
//!   LayoutB_TV: ((_4,_8),_2):((_16,_1),_8)
//!   LayoutC_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))
//! ```

use super::nest::NestedTuple;
use super::parse::CuteReader;
use super::text::{CuteValue, WrittenModes, print_modes};
use crate::Diagnostic;
use crate::cursor::TextCursor;

/// The kind of value in a line of an atom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtomField {
    /// A layout.
    Modes(WrittenModes),
    /// A tuple, such as the shape of a matrix instruction.
    Value(NestedTuple<CuteValue>),
    /// The bits of a value.
    Bits(i64),
}

/// A title and its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtomBlock {
    /// `MMA_Atom`, `Copy_Atom`, `TiledMMA`, `TiledCopy`, `ThrMMA` or `ThrCopy`.
    pub title: &'static str,
    /// The lines, each with its name.
    pub fields: Vec<(&'static str, AtomField)>,
}

/// An atom; one that is tiled has the tiling before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtomText {
    /// The blocks, the atom last.
    pub blocks: Vec<AtomBlock>,
}

#[derive(Clone, Copy)]
enum AtomTitleKind {
    Modes,
    Value,
    Bits,
}

struct AtomTitle {
    name: &'static str,
    fields: &'static [(&'static str, AtomTitleKind)],
    /// The block that must follow.
    then: Option<&'static str>,
}

const TITLES: [AtomTitle; 6] = [
    AtomTitle {
        name: "MMA_Atom",
        fields: &[
            ("ThrID", AtomTitleKind::Modes),
            ("Shape_MNK", AtomTitleKind::Value),
            ("LayoutA_TV", AtomTitleKind::Modes),
            ("LayoutB_TV", AtomTitleKind::Modes),
            ("LayoutC_TV", AtomTitleKind::Modes),
        ],
        then: None,
    },
    AtomTitle {
        name: "Copy_Atom",
        fields: &[
            ("ThrID", AtomTitleKind::Modes),
            ("ValLayoutSrc", AtomTitleKind::Modes),
            ("ValLayoutDst", AtomTitleKind::Modes),
            ("ValLayoutRef", AtomTitleKind::Modes),
            ("ValueType", AtomTitleKind::Bits),
        ],
        then: None,
    },
    AtomTitle {
        name: "TiledMMA",
        fields: &[
            ("ThrLayoutVMNK", AtomTitleKind::Modes),
            ("PermutationMNK", AtomTitleKind::Value),
        ],
        then: Some("MMA_Atom"),
    },
    AtomTitle {
        name: "TiledCopy",
        fields: &[("Tiler_MN", AtomTitleKind::Value), ("TiledLayout_TV", AtomTitleKind::Modes)],
        then: Some("Copy_Atom"),
    },
    AtomTitle {
        name: "ThrMMA",
        fields: &[("Thr VMNK", AtomTitleKind::Value)],
        then: Some("TiledMMA"),
    },
    AtomTitle {
        name: "ThrCopy",
        fields: &[("ThrIdx", AtomTitleKind::Value)],
        then: Some("TiledCopy"),
    },
];

/// The title that comes next, if one does.
pub(super) fn find_atom_title(c: &TextCursor<'_>) -> Option<usize> {
    let word = c.clone().read_word()?.value;
    TITLES.iter().position(|t| t.name == word)
}

impl AtomText {
    pub(super) fn read_atom(r: &mut CuteReader<'_>) -> Result<AtomText, Diagnostic> {
        let mut blocks = Vec::new();
        let mut expected: Option<&'static str> = None;
        loop {
            // A tiled atom prints its tiling first and the atom after it, so the title of each
            // block fixes that of the next one.
            let found = find_atom_title(&r.c).map(|i| &TITLES[i]);
            let Some(title) = found.filter(|t| expected.is_none_or(|e| e == t.name)) else {
                let what = expected.unwrap_or("MMA_Atom");
                return Err(r.c.refuse_next_token(&format!("`{what}`")));
            };
            r.c.read_word();
            let mut fields = Vec::new();
            for (name, kind) in title.fields {
                if !name.split(' ').all(|word| r.c.eat_word(word)) {
                    return Err(r.c.refuse_next_token(&format!(
                        "`{name}:`, the next line of `{}`",
                        title.name
                    )));
                }
                r.c.expect_char(':', &format!("after `{name}`"))?;
                let field = match kind {
                    AtomTitleKind::Modes => AtomField::Modes(r.read_modes()?),
                    AtomTitleKind::Value => AtomField::Value(r.read_value()?),
                    AtomTitleKind::Bits => AtomField::Bits(r.read_element_bits()?),
                };
                fields.push((*name, field));
            }
            blocks.push(AtomBlock { title: title.name, fields });
            expected = title.then;
            if expected.is_none() {
                return Ok(AtomText { blocks });
            }
        }
    }

    /// The lines that hold layouts, by name.
    pub fn layouts_by_name(&self) -> impl Iterator<Item = (&'static str, &WrittenModes)> + '_ {
        self.blocks.iter().flat_map(|b| &b.fields).filter_map(|(name, field)| match field {
            AtomField::Modes(modes) => Some((*name, modes)),
            _ => None,
        })
    }

    /// Its text, the values of a block under one another.
    pub fn print_cute_text(&self) -> String {
        let mut lines = Vec::new();
        for block in &self.blocks {
            lines.push(block.title.to_string());
            let width = block.fields.iter().map(|(name, _)| name.len() + 2).max().unwrap_or(0);
            for (name, field) in &block.fields {
                let value = match field {
                    AtomField::Modes(modes) => print_modes(modes),
                    AtomField::Value(value) => value.print_nested(&CuteValue::print_cute_text),
                    AtomField::Bits(bits) => format!("{bits}b"),
                };
                lines.push(format!("  {:width$}{value}", format!("{name}:")));
            }
        }
        lines.join("\n")
    }
}
