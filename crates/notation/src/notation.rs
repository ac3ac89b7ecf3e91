//! The table of notations, and telling them apart.
//!
//! A notation is one file of this crate with its `ROW`, and that row in [`TABLE`]: nothing else
//! lists notations. Everything about a text that was read is asked of [`Parsed`].

use crate::convert::Refusal;
use crate::cursor::Cursor;
use crate::{Diagnostic, Parsed, spyre, tirx, torch};
use std::fmt;
use zellige_layout::{AxisTable, Layout};
use zellige_stick::DataFormat;

/// Every notation, in the order of the documentation.
static TABLE: [&NotationRow; 11] = [
    &tirx::ROW,
    &spyre::ROW,
    &torch::ROW,
    &NotationRow::not_yet("cute", "CuTe shape and stride"),
    &NotationRow::not_yet("linear", "Triton linear layouts"),
    &NotationRow::not_yet("xla", "XLA minor-to-major with tiles"),
    &NotationRow::not_yet("onednn", "oneDNN format tags"),
    &NotationRow::not_yet("pack", "MLIR `linalg.pack`"),
    &NotationRow::not_yet("jax", "JAX `PartitionSpec`"),
    &NotationRow::not_yet("hlo", "HLO sharding"),
    &NotationRow::not_yet("dtensor", "PyTorch `DTensor` placements"),
];

/// One notation of the field.
pub(crate) struct NotationRow {
    /// The name that requests use.
    pub(crate) name: &'static str,
    /// What it is, in a few words.
    pub(crate) doc: &'static str,
    /// What reads and writes it; none where it is not supported yet.
    pub(crate) functions: Option<NotationFunctions>,
}

/// Writes a layout over a shape, with the format of its elements on the device.
type Express = fn(&Layout, &[i64], Option<DataFormat>) -> Result<String, Refusal>;

/// What reads and writes a notation.
pub(crate) struct NotationFunctions {
    /// A text of it, as it is printed.
    pub(crate) example: &'static str,
    /// Whether a text looks like it. At most one notation recognises a text.
    pub(crate) recognises: fn(&str) -> bool,
    /// Reads a text.
    pub(crate) parse: fn(&str, &AxisTable) -> Result<Parsed, Diagnostic>,
    /// The text of what `parse` has read: reading it gives the same again.
    pub(crate) print: fn(&Parsed) -> String,
    /// The text of any layout over a shape, or why there is none.
    pub(crate) express: Express,
    /// Whether `express` needs the format of the elements on the device.
    pub(crate) needs_format: bool,
}

impl NotationRow {
    const fn not_yet(name: &'static str, doc: &'static str) -> NotationRow {
        NotationRow { name, doc, functions: None }
    }
}

/// A notation of the field: a row of the table.
#[derive(Clone, Copy)]
pub struct Notation(&'static NotationRow);

impl Notation {
    /// Shard, replica and offset on named axes: the notation that writes every layout.
    pub const TIRX: Notation = Notation(&tirx::ROW);
    /// A Spyre device layout.
    pub const SPYRE: Notation = Notation(&spyre::ROW);
    /// PyTorch size and stride.
    pub const TORCH: Notation = Notation(&torch::ROW);

    /// Every notation, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Notation> {
        TABLE.iter().map(|row| Notation(row))
    }

    /// Those that are read and written.
    pub fn supported() -> impl Iterator<Item = Notation> {
        Notation::all().filter(|n| n.is_supported())
    }

    /// Names in a list for people: `tirx, spyre, torch`.
    pub fn list(notations: impl Iterator<Item = Notation>) -> String {
        notations.map(Notation::name).collect::<Vec<_>>().join(", ")
    }

    /// The notation of that name.
    pub fn from_name(name: &str) -> Option<Notation> {
        Notation::all().find(|n| n.name() == name)
    }

    /// The name that requests use.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What it is, in a few words.
    pub fn doc(self) -> &'static str {
        self.0.doc
    }

    /// A text of it, where it is supported.
    pub fn example(self) -> Option<&'static str> {
        self.functions().map(|f| f.example)
    }

    /// Whether it is read and written yet.
    pub fn is_supported(self) -> bool {
        self.0.functions.is_some()
    }

    /// Whether a text of it says how elements are stored, so that a conversion has to be told.
    pub fn needs_format(self) -> bool {
        self.functions().is_some_and(|f| f.needs_format)
    }

    pub(crate) fn functions(self) -> Option<&'static NotationFunctions> {
        self.0.functions.as_ref()
    }
}

impl PartialEq for Notation {
    fn eq(&self, other: &Notation) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Notation {}

impl fmt::Debug for Notation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads a text of the notation that recognises it; what none recognises is refused as TIRx.
pub fn parse(text: &str, axes: &AxisTable) -> Result<Parsed, Diagnostic> {
    let recognised = |n: &Notation| n.functions().is_some_and(|f| (f.recognises)(text));
    parse_as(text, Notation::supported().find(recognised).unwrap_or(Notation::TIRX), axes)
}

/// Reads a text of a given notation.
pub fn parse_as(text: &str, notation: Notation, axes: &AxisTable) -> Result<Parsed, Diagnostic> {
    match notation.functions() {
        Some(functions) => (functions.parse)(text, axes),
        None => Err(Diagnostic::syntax(
            0..0,
            format!("the notation `{}` is not supported yet", notation.name()),
            "not supported",
        )
        .id("Z006")
        .help(format!("supported: {}", Notation::list(Notation::supported())))),
    }
}

/// The first word of a text, by which most notations are recognised.
pub(crate) fn first_word(text: &str) -> Option<&str> {
    Cursor::new(text).word().map(|w| w.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that is added is checked here without a line of test.
    #[test]
    fn every_row_is_complete() {
        let axes = AxisTable::new();
        for (k, n) in Notation::all().enumerate() {
            assert!(!n.name().is_empty() && !n.doc().is_empty(), "row {k} has no name or doc");
            assert_eq!(Notation::from_name(n.name()), Some(n), "another row has this name");
            assert_eq!(Notation::all().position(|m| m == n), Some(k), "{n:?} is listed twice");
            let Some(functions) = n.functions() else {
                let refused = parse_as("x", n, &axes).expect_err("not supported");
                assert_eq!(refused.id, "Z006");
                continue;
            };
            let text = functions.example;
            let claimed: Vec<_> = Notation::supported()
                .filter(|m| m.functions().is_some_and(|f| (f.recognises)(text)))
                .collect();
            assert_eq!(claimed, [n], "who recognises {text}");
            let parsed = parse(text, &axes).expect(text);
            assert_eq!(parsed.notation(), n);
            assert_eq!(parsed.text(), text, "an example is written as it is printed");
            assert_eq!(parse_as(&parsed.text(), n, &axes), Ok(parsed.clone()));
            let layout = parsed.layout(None).expect("an example has a layout");
            let shape = parsed.default_shape().expect("an example has a shape");
            layout.admit(&shape).expect("a shape of its layout");
            let format = parsed.stick().map(zellige_stick::StickLayout::device_dtype);
            assert_eq!(format.is_some(), n.needs_format(), "{n:?}");
            let expressed = (functions.express)(&layout, &shape, format).expect(text);
            let again = parse_as(&expressed, n, &axes).expect(&expressed);
            let again = again.layout(Some(&shape)).expect(&expressed);
            assert_eq!(again.difference(&layout), Ok(None), "{n:?} writes its own layout");
        }
    }
}
