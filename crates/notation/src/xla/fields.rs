//! What may follow the colon of an XLA layout.

use super::{XlaLayout, limit};
use crate::Diagnostic;
use crate::cursor::Cursor;
use std::fmt::Write;

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The fields that move no element inside its memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// `#(u32)`: the type of indices of sparse arrays.
    index_type: Option<&'static str>,
    /// `*(u32)`: the type of pointers of sparse arrays.
    pointer_type: Option<&'static str>,
    /// `SC(0:2,4)(1:8)`: a dimension, and where it is split between memories.
    splits: Vec<(i64, Vec<i64>)>,
    /// `M(8)`: the bytes before the elements, for the sizes of dynamic dimensions.
    metadata: i64,
}

impl Others {
    /// The fields before `E`.
    pub(super) fn write_types(&self, out: &mut String) {
        for (mark, name) in [('#', self.index_type), ('*', self.pointer_type)] {
            if let Some(name) = name {
                let _ = write!(out, "{mark}({name})");
            }
        }
    }

    /// The fields after `S`.
    pub(super) fn write_end(&self, out: &mut String) {
        if !self.splits.is_empty() {
            out.push_str("SC");
        }
        for (dim, at) in &self.splits {
            let at: Vec<String> = at.iter().map(ToString::to_string).collect();
            let _ = write!(out, "({dim}:{})", at.join(","));
        }
        if self.metadata != 0 {
            let _ = write!(out, "M({})", self.metadata);
        }
    }

    /// Refuses a layout whose elements are in several memories.
    pub(super) fn one_memory(&self) -> Result<()> {
        match self.splits.first() {
            None => Ok(()),
            Some((dim, _)) => {
                let message = format!(
                    "SC(..) splits dimension {dim} between memories, and a layout is a position in one"
                );
                Err(Diagnostic::syntax(0..0, message, "in several memories").id("Z008"))
            }
        }
    }
}

/// The fields in the order in which XLA reads them.
const FIELDS: [&str; 9] = ["D", "T", "L", "#", "*", "E", "S", "SC", "M"];

const HELP: &str = "T(..) tiles, L(..) alignment of the end, #(..) and *(..) types of sparse arrays, E(..) bits of an element, S(..) memory space, SC(..) splits between memories, M(..) bytes of metadata, in this order";

pub(super) fn fields(c: &mut Cursor<'_>, layout: &mut XlaLayout) -> Result<()> {
    let mut next = 0;
    loop {
        let start = c.at();
        let name = if c.eat('#') {
            "#"
        } else if c.eat('*') {
            "*"
        } else {
            match c.word() {
                Some(word) => word.value,
                None => return Ok(()),
            }
        };
        let span = start..c.here();
        let Some(k) = FIELDS.iter().position(|f| *f == name) else {
            let shown: String = name.chars().take(40).collect();
            let message = match name {
                "P" => "the physical shape of a sparse array has no place for every element".into(),
                _ => format!("unknown field `{shown}` of a layout"),
            };
            return Err(Diagnostic::syntax(span, message, "no field of a dense array").help(HELP));
        };
        if k < next {
            let message = format!("`{name}` is out of order or given twice");
            return Err(Diagnostic::syntax(span, message, "not here").help(HELP));
        }
        next = k + 1;
        match name {
            "D" => dense(c)?,
            "T" => tiles(c, layout)?,
            "#" => layout.others.index_type = Some(index_type(c)?),
            "*" => layout.others.pointer_type = Some(index_type(c)?),
            "SC" => layout.others.splits = splits(c)?,
            _ => {
                let value = number(c, i64::from(name == "L"))?;
                match name {
                    "L" => layout.tail_alignment = value,
                    "E" => layout.element_bits = Some(value).filter(|bits| *bits != 0),
                    "M" => layout.others.metadata = value,
                    _ => layout.memory_space = value,
                }
            }
        }
    }
}

/// `(8)`.
fn number(c: &mut Cursor<'_>, least: i64) -> Result<i64> {
    c.expect('(', "after the name of a field")?;
    let value = c.int("an integer")?;
    if value.value < least {
        let message = format!("{} is out of range", value.value);
        return Err(Diagnostic::syntax(value.span, message, "too small"));
    }
    c.expect(')', "at the end of a field")?;
    Ok(value.value)
}

/// `(D,D)`: dimensions that hold every index, which XLA does not print.
fn dense(c: &mut Cursor<'_>) -> Result<()> {
    c.expect('(', "after the name of a field")?;
    loop {
        let Some(kind) = c.word() else { return Err(c.expected("`D`, a dense dimension")) };
        let mark = c.peek().filter(|ch| matches!(ch, '+' | '~'));
        if kind.value != "D" || mark.is_some() {
            let message = "a sparse dimension has no place for every element";
            return Err(Diagnostic::syntax(kind.span, message, "expected `D`, a dense dimension"));
        }
        if c.eat(')') {
            return Ok(());
        }
        c.expect(',', "between dimensions, or `)`")?;
    }
}

/// `(u32)`.
fn index_type(c: &mut Cursor<'_>) -> Result<&'static str> {
    c.expect('(', "and a type of indices")?;
    let Some(word) = c.word() else { return Err(c.expected("a type of indices, such as u32")) };
    let Some(name) = ["u8", "u16", "u32", "u64"].into_iter().find(|t| *t == word.value) else {
        let shown: String = word.value.chars().take(40).collect();
        let message = format!("`{shown}` is no type of indices");
        return Err(Diagnostic::syntax(word.span, message, "expected u8, u16, u32 or u64"));
    };
    c.expect(')', "after the type")?;
    Ok(name)
}

/// `(0:2,4)(1:8)`.
fn splits(c: &mut Cursor<'_>) -> Result<Vec<(i64, Vec<i64>)>> {
    let mut found = Vec::new();
    if c.peek() != Some('(') {
        return Err(c.expected("`(` and where a dimension is split, such as SC(0:8)"));
    }
    while c.eat('(') {
        let dim = c.int("a dimension")?;
        limit(found.len(), &dim)?;
        c.expect(':', "after the dimension")?;
        let mut at = vec![c.int("an index")?.value];
        while c.eat(',') {
            at.push(c.int("an index")?.value);
        }
        c.expect(')', "after the indices")?;
        if dim.value < 0 || at.iter().any(|i| *i < 0) {
            let message = "a dimension is split at an index that it has";
            return Err(Diagnostic::syntax(dim.span, message, "0 or more"));
        }
        found.push((dim.value, at));
    }
    Ok(found)
}

fn tiles(c: &mut Cursor<'_>, layout: &mut XlaLayout) -> Result<()> {
    // The dimensions after the tiles so far: each tile adds one for each of its own that is no `*`.
    let mut rank = layout.minor_to_major.len();
    if c.peek() != Some('(') {
        return Err(c.expected("`(` and a tile, such as T(8,128)"));
    }
    while c.peek() == Some('(') {
        let start = c.at();
        c.eat('(');
        if c.eat(')') {
            // A tile of no dimensions moves nothing; XLA reads it and prints it again.
            layout.tiles.push(Vec::new());
            continue;
        }
        let mut tile = Vec::new();
        loop {
            let at = c.at();
            if c.eat('*') {
                tile.push(None);
            } else {
                let t = c.int("a tile extent or `*`")?;
                if t.value < 1 {
                    let message = format!("a tile of {}", t.value);
                    return Err(Diagnostic::syntax(t.span, message, "1 or more, or `*`"));
                }
                limit(rank.saturating_add(tile.len()), &t)?;
                tile.push(Some(t.value));
            }
            if c.eat(')') {
                if tile.last() == Some(&None) {
                    let message =
                        "`*` merges a dimension into the next faster one, and there is none";
                    return Err(Diagnostic::syntax(at..at + 1, message, "the fastest dimension"));
                }
                break;
            }
            if !c.eat(',') {
                return Err(c.expected("`,` or `)`"));
            }
        }
        if tile.contains(&None) && tile.len() > rank {
            let message = format!("a tile with `*` over {} dimensions, of {rank}", tile.len());
            return Err(Diagnostic::syntax(start..c.here(), message, "more than there are"));
        }
        rank = rank.max(tile.len()) - tile.iter().filter(|t| t.is_none()).count();
        rank += tile.iter().flatten().count();
        layout.tiles.push(tile);
    }
    Ok(())
}
