//! The fields after the colon of an XLA layout, in the grammar of XLA's `Layout::ToString` and its parser.

use super::{XlaLayout, check_dimension_count};
use crate::Diagnostic;
use crate::cursor::TextCursor;
use std::fmt::Write;

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The fields that move no element inside its memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UnmovingFields {
    /// `#(u32)`: the type of indices of sparse arrays.
    index_type: Option<&'static str>,
    /// `*(u32)`: the type of pointers of sparse arrays.
    pointer_type: Option<&'static str>,
    /// `SC(0:2,4)(1:8)`: a dimension, and where it is split between memories.
    splits: Vec<(i64, Vec<i64>)>,
    /// `M(8)`: the bytes before the elements, for the sizes of dynamic dimensions.
    metadata: i64,
}

impl UnmovingFields {
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
    pub(super) fn check_one_memory(&self) -> Result<()> {
        match self.splits.first() {
            None => Ok(()),
            Some((dim, _)) => {
                let message = format!(
                    "SC(..) splits dimension {dim} between memories, and a layout is a position in one"
                );
                Err(Diagnostic::syntax_error(0..0, message, "in several memories").with_id("Z008"))
            }
        }
    }
}

/// The fields in the order in which XLA reads them.
// XLA's parser reads the fields in this order only, so that another order is an error there too.
const FIELDS: [&str; 9] = ["D", "T", "L", "#", "*", "E", "S", "SC", "M"];

const HELP: &str = "T(..) tiles, L(..) alignment of the end, #(..) and *(..) types of sparse arrays, E(..) bits of an element, S(..) memory space, SC(..) splits between memories, M(..) bytes of metadata, in this order";

pub(super) fn read_layout_fields(c: &mut TextCursor<'_>, layout: &mut XlaLayout) -> Result<()> {
    let mut next = 0;
    loop {
        let start = c.next_token_start();
        let name = if c.eat_char('#') {
            "#"
        } else if c.eat_char('*') {
            "*"
        } else {
            match c.read_word() {
                Some(word) => word.value,
                None => return Ok(()),
            }
        };
        let span = start..c.last_token_end();
        let Some(k) = FIELDS.iter().position(|f| *f == name) else {
            let shown: String = name.chars().take(40).collect();
            let message = match name {
                "P" => "the physical shape of a sparse array has no place for every element".into(),
                _ => format!("unknown field `{shown}` of a layout"),
            };
            return Err(Diagnostic::syntax_error(span, message, "no field of a dense array")
                .with_help(HELP));
        };
        if k < next {
            let message = format!("`{name}` is out of order or given twice");
            return Err(Diagnostic::syntax_error(span, message, "not here").with_help(HELP));
        }
        next = k + 1;
        match name {
            "D" => read_dense_dims(c)?,
            "T" => read_tiles(c, layout)?,
            "#" => layout.others.index_type = Some(read_index_type(c)?),
            "*" => layout.others.pointer_type = Some(read_index_type(c)?),
            "SC" => layout.others.splits = read_split_config(c)?,
            _ => {
                let value = read_number_field(c, i64::from(name == "L"))?;
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
fn read_number_field(c: &mut TextCursor<'_>, least: i64) -> Result<i64> {
    c.expect_char('(', "after the name of a field")?;
    let value = c.read_integer("an integer")?;
    if value.value < least {
        let message = format!("{} is out of range", value.value);
        return Err(Diagnostic::syntax_error(value.span, message, "too small"));
    }
    c.expect_char(')', "at the end of a field")?;
    Ok(value.value)
}

/// `(D,D)`: dense dimensions, the default, which XLA does not print.
fn read_dense_dims(c: &mut TextCursor<'_>) -> Result<()> {
    c.expect_char('(', "after the name of a field")?;
    loop {
        let Some(kind) = c.read_word() else {
            return Err(c.refuse_next_token("`D`, a dense dimension"));
        };
        let mark = c.peek_char().filter(|ch| matches!(ch, '+' | '~'));
        if kind.value != "D" || mark.is_some() {
            let message = "a sparse dimension has no place for every element";
            return Err(Diagnostic::syntax_error(
                kind.span,
                message,
                "expected `D`, a dense dimension",
            ));
        }
        if c.eat_char(')') {
            return Ok(());
        }
        c.expect_char(',', "between dimensions, or `)`")?;
    }
}

/// `(u32)`.
fn read_index_type(c: &mut TextCursor<'_>) -> Result<&'static str> {
    c.expect_char('(', "and a type of indices")?;
    let Some(word) = c.read_word() else {
        return Err(c.refuse_next_token("a type of indices, such as u32"));
    };
    let Some(name) = ["u8", "u16", "u32", "u64"].into_iter().find(|t| *t == word.value) else {
        let shown: String = word.value.chars().take(40).collect();
        let message = format!("`{shown}` is not a type of indices");
        return Err(Diagnostic::syntax_error(word.span, message, "expected u8, u16, u32 or u64"));
    };
    c.expect_char(')', "after the type")?;
    Ok(name)
}

/// `(0:2,4)(1:8)`.
fn read_split_config(c: &mut TextCursor<'_>) -> Result<Vec<(i64, Vec<i64>)>> {
    let mut found = Vec::new();
    if c.peek_char() != Some('(') {
        return Err(c.refuse_next_token("`(` and where a dimension is split, such as SC(0:8)"));
    }
    while c.eat_char('(') {
        let dim = c.read_integer("a dimension")?;
        check_dimension_count(found.len(), &dim)?;
        c.expect_char(':', "after the dimension")?;
        let mut at = vec![c.read_integer("an index")?.value];
        while c.eat_char(',') {
            at.push(c.read_integer("an index")?.value);
        }
        c.expect_char(')', "after the indices")?;
        if dim.value < 0 || at.iter().any(|i| *i < 0) {
            let message = "a dimension is split at an index that it has";
            return Err(Diagnostic::syntax_error(dim.span, message, "0 or more"));
        }
        found.push((dim.value, at));
    }
    Ok(found)
}

fn read_tiles(c: &mut TextCursor<'_>, layout: &mut XlaLayout) -> Result<()> {
    // The number of dimensions after the tiles so far: each tile adds one for each of its extents that is not `*`.
    let mut rank = layout.minor_to_major.len();
    if c.peek_char() != Some('(') {
        return Err(c.refuse_next_token("`(` and a tile, such as T(8,128)"));
    }
    while c.peek_char() == Some('(') {
        let start = c.next_token_start();
        c.eat_char('(');
        if c.eat_char(')') {
            // A tile without dimensions has no effect; XLA parses it and prints it again.
            layout.tiles.push(Vec::new());
            continue;
        }
        let mut tile = Vec::new();
        loop {
            let at = c.next_token_start();
            if c.eat_char('*') {
                tile.push(None);
            } else {
                let t = c.read_integer("a tile extent or `*`")?;
                if t.value < 1 {
                    let message = format!("a tile of {}", t.value);
                    return Err(Diagnostic::syntax_error(t.span, message, "1 or more, or `*`"));
                }
                check_dimension_count(rank.saturating_add(tile.len()), &t)?;
                tile.push(Some(t.value));
            }
            if c.eat_char(')') {
                if tile.last() == Some(&None) {
                    let message =
                        "`*` merges a dimension into the next faster one, and there is none";
                    return Err(Diagnostic::syntax_error(
                        at..at + 1,
                        message,
                        "the fastest dimension",
                    ));
                }
                break;
            }
            if !c.eat_char(',') {
                return Err(c.refuse_next_token("`,` or `)`"));
            }
        }
        // A tile over more dimensions than there are adds dimensions of extent 1 in front, and merging these has no meaning.
        if tile.contains(&None) && tile.len() > rank {
            let message = format!("a tile with `*` over {} dimensions, of {rank}", tile.len());
            return Err(Diagnostic::syntax_error(
                start..c.last_token_end(),
                message,
                "more than there are",
            ));
        }
        rank = rank.max(tile.len()) - tile.iter().filter(|t| t.is_none()).count();
        rank += tile.iter().flatten().count();
        layout.tiles.push(tile);
    }
    Ok(())
}
