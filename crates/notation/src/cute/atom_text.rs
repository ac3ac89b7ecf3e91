//! The printed form of MMA and copy atoms: a title, and a line for each of its layouts.
//!
//! ```text
//! MMA_Atom
//!   ThrID:      _32:_1
//!   Shape_MNK:  (_16,_8,_8)
//!   LayoutA_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))
//!   LayoutB_TV: ((_4,_8),_2):((_16,_1),_8)
//!   LayoutC_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))
//! ```

use super::nest::Nest;
use super::parse::Reader;
use super::text::{Value, WrittenModes, modes_text};
use crate::Diagnostic;
use crate::cursor::Cursor;

/// What a line of an atom holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtomField {
    /// A layout.
    Modes(WrittenModes),
    /// A tuple, such as the shape of a matrix instruction.
    Value(Nest<Value>),
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
enum Kind {
    Modes,
    Value,
    Bits,
}

struct Title {
    name: &'static str,
    fields: &'static [(&'static str, Kind)],
    /// The block that must follow.
    then: Option<&'static str>,
}

const TITLES: [Title; 6] = [
    Title {
        name: "MMA_Atom",
        fields: &[
            ("ThrID", Kind::Modes),
            ("Shape_MNK", Kind::Value),
            ("LayoutA_TV", Kind::Modes),
            ("LayoutB_TV", Kind::Modes),
            ("LayoutC_TV", Kind::Modes),
        ],
        then: None,
    },
    Title {
        name: "Copy_Atom",
        fields: &[
            ("ThrID", Kind::Modes),
            ("ValLayoutSrc", Kind::Modes),
            ("ValLayoutDst", Kind::Modes),
            ("ValLayoutRef", Kind::Modes),
            ("ValueType", Kind::Bits),
        ],
        then: None,
    },
    Title {
        name: "TiledMMA",
        fields: &[("ThrLayoutVMNK", Kind::Modes), ("PermutationMNK", Kind::Value)],
        then: Some("MMA_Atom"),
    },
    Title {
        name: "TiledCopy",
        fields: &[("Tiler_MN", Kind::Value), ("TiledLayout_TV", Kind::Modes)],
        then: Some("Copy_Atom"),
    },
    Title { name: "ThrMMA", fields: &[("Thr VMNK", Kind::Value)], then: Some("TiledMMA") },
    Title { name: "ThrCopy", fields: &[("ThrIdx", Kind::Value)], then: Some("TiledCopy") },
];

/// The title that comes next, if one does.
pub(super) fn title(c: &Cursor<'_>) -> Option<usize> {
    let word = c.clone().word()?.value;
    TITLES.iter().position(|t| t.name == word)
}

impl AtomText {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<AtomText, Diagnostic> {
        let mut blocks = Vec::new();
        let mut expected: Option<&'static str> = None;
        loop {
            let found = title(&r.c).map(|i| &TITLES[i]);
            let Some(title) = found.filter(|t| expected.is_none_or(|e| e == t.name)) else {
                let what = expected.unwrap_or("MMA_Atom");
                return Err(r.c.expected(&format!("`{what}`")));
            };
            r.c.word();
            let mut fields = Vec::new();
            for (name, kind) in title.fields {
                if !name.split(' ').all(|word| r.c.eat_word(word)) {
                    return Err(r
                        .c
                        .expected(&format!("`{name}:`, the next line of `{}`", title.name)));
                }
                r.c.expect(':', &format!("after `{name}`"))?;
                let field = match kind {
                    Kind::Modes => AtomField::Modes(r.modes()?),
                    Kind::Value => AtomField::Value(r.value()?),
                    Kind::Bits => AtomField::Bits(r.bits()?),
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
    pub fn layouts(&self) -> impl Iterator<Item = (&'static str, &WrittenModes)> + '_ {
        self.blocks.iter().flat_map(|b| &b.fields).filter_map(|(name, field)| match field {
            AtomField::Modes(modes) => Some((*name, modes)),
            _ => None,
        })
    }

    /// Its text, the values of a block under one another.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for block in &self.blocks {
            lines.push(block.title.to_string());
            let width = block.fields.iter().map(|(name, _)| name.len() + 2).max().unwrap_or(0);
            for (name, field) in &block.fields {
                let value = match field {
                    AtomField::Modes(modes) => modes_text(modes),
                    AtomField::Value(value) => value.print(&Value::text),
                    AtomField::Bits(bits) => format!("{bits}b"),
                };
                lines.push(format!("  {:width$}{value}", format!("{name}:")));
            }
        }
        lines.join("\n")
    }
}
