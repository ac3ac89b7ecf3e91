//! The table of notations, and how the notation of a text is recognised.
//!
//! A notation is one file of this crate with its `ROW`, and that row in [`NOTATION_TABLE`]: nothing else
//! lists notations. [`ParsedText`] answers every question about a parsed text.

use crate::convert::ConversionRefusal;
use crate::cursor::TextCursor;
use crate::{
    Diagnostic, ParsedText, cute, dtensor, hlo, jax, linear, memref, numpy, onednn, pack, shardy,
    spyre, tirx, torch, triton, xla,
};
use std::fmt;
use zellige_float::Dtype;
use zellige_layout::{AxisTable, Layout};

/// Writes a layout over a shape, with the type of its elements.
type ExpressFunction = fn(&Layout, &[i64], Option<Dtype>) -> Result<String, ConversionRefusal>;

/// Every notation, in the order of the documentation.
// The order of lists and of the documentation. It also decides which reading is returned if several
// notations read one layout: the first.
static NOTATION_TABLE: [&NotationRow; 15] = [
    &tirx::ROW,
    &spyre::ROW,
    &torch::ROW,
    &cute::ROW,
    &linear::ROW,
    &triton::ROW,
    &xla::ROW,
    &onednn::ROW,
    &pack::ROW,
    &memref::ROW,
    &jax::ROW,
    &hlo::ROW,
    &shardy::ROW,
    &dtensor::ROW,
    &numpy::ROW,
];

/// One notation of the field.
pub(crate) struct NotationRow {
    /// The name that requests use.
    pub(crate) name: &'static str,
    /// What it is, in a few words.
    pub(crate) doc: &'static str,
    /// An example text, as it is printed.
    pub(crate) example: &'static str,
    /// Whether a text has the outward form of this notation. If several notations recognise a text and read
    /// different layouts, the user has to name one.
    pub(crate) recognises: fn(&str) -> bool,
    /// Reads a text.
    pub(crate) parse: fn(&str, &AxisTable) -> Result<ParsedText, Diagnostic>,
    /// The text of a parsed layout: parsing it gives the same layout again.
    pub(crate) print: fn(&ParsedText) -> String,
    /// The text of any layout over a shape, or why there is none.
    pub(crate) express: ExpressFunction,
    /// Whether `express` needs the type of the elements.
    pub(crate) needs_dtype: bool,
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
    /// CuTe shape and stride.
    pub const CUTE: Notation = Notation(&cute::ROW);
    /// Triton linear layouts.
    pub const LINEAR: Notation = Notation(&linear::ROW);
    /// Triton layout attributes.
    pub const TRITON: Notation = Notation(&triton::ROW);
    /// An XLA shape and layout.
    pub const XLA: Notation = Notation(&xla::ROW);
    /// A oneDNN format tag.
    pub const ONEDNN: Notation = Notation(&onednn::ROW);
    /// The attributes of MLIR's `linalg.pack`.
    pub const PACK: Notation = Notation(&pack::ROW);
    /// The layout of an MLIR memref.
    pub const MEMREF: Notation = Notation(&memref::ROW);
    /// A JAX `PartitionSpec` on a mesh.
    pub const JAX: Notation = Notation(&jax::ROW);
    /// An HLO sharding.
    pub const HLO: Notation = Notation(&hlo::ROW);
    /// A Shardy sharding on a mesh.
    pub const SHARDY: Notation = Notation(&shardy::ROW);
    /// PyTorch `DTensor` placements on a mesh.
    pub const DTENSOR: Notation = Notation(&dtensor::ROW);
    /// NumPy's array interface.
    pub const NUMPY: Notation = Notation(&numpy::ROW);

    /// Every notation, in the order of the documentation.
    pub fn all_notations() -> impl Iterator<Item = Notation> {
        NOTATION_TABLE.iter().map(|row| Notation(row))
    }

    /// Names in a list for messages: `tirx, spyre, torch`.
    pub fn list_names(notations: impl Iterator<Item = Notation>) -> String {
        notations.map(Notation::name).collect::<Vec<_>>().join(", ")
    }

    /// The notation of that name.
    pub fn from_name(name: &str) -> Option<Notation> {
        Notation::all_notations().find(|n| n.name() == name)
    }

    /// The name that requests use.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What it is, in a few words.
    pub fn short_description(self) -> &'static str {
        self.0.doc
    }

    /// A text of it.
    pub fn example_text(self) -> &'static str {
        self.0.example
    }

    /// Whether a text of it states how elements are stored, so that a conversion needs the dtype.
    pub fn needs_dtype(self) -> bool {
        self.0.needs_dtype
    }

    pub(crate) fn table_row(self) -> &'static NotationRow {
        self.0
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
///
/// # Errors
/// A text that its notation refuses; a text that several notations read as different layouts, with all readings.
pub fn parse(text: &str, axes: &AxisTable) -> Result<ParsedText, Diagnostic> {
    zellige_calls::record_call!();
    let claimed: Vec<Notation> =
        Notation::all_notations().filter(|n| (n.table_row().recognises)(text)).collect();
    let notation = match claimed.as_slice() {
        [] => {
            return parse_as(text, Notation::TIRX, axes).map_err(|refused| match refused.help {
                None => refused.with_help(format!(
                    "no notation recognises this text; there are {}",
                    Notation::list_names(Notation::all_notations())
                )),
                Some(_) => refused,
            });
        }
        [one] => *one,
        // Several notations may accept one text, such as `{1,0}`. If all but one refuse it, or all
        // read one layout, nothing is ambiguous.
        several => {
            let mut good = all_readings(text, axes);
            match good.len() {
                0 => several[0],
                1 => return Ok(good.remove(0)),
                _ => return agree_on_one_reading(text, good),
            }
        }
    };
    parse_as(text, notation, axes)
}

/// The readings of all notations that recognise a text: the choices if [`parse`] reports an ambiguity.
pub fn all_readings(text: &str, axes: &AxisTable) -> Vec<ParsedText> {
    let recognised = |n: &Notation| (n.table_row().recognises)(text);
    Notation::all_notations()
        .filter(recognised)
        .filter_map(|n| parse_as(text, n, axes).ok())
        .collect()
}

/// The common layout of several readings, or an error that lists the readings.
fn agree_on_one_reading(text: &str, mut good: Vec<ParsedText>) -> Result<ParsedText, Diagnostic> {
    let layouts: Vec<Option<Layout>> =
        good.iter().map(|p| p.layout_over_shape(None).ok()).collect();
    let same = layouts.iter().all(|l| match (l, &layouts[0]) {
        (Some(a), Some(b)) => a.find_difference(b) == Ok(None),
        _ => false,
    });
    if same {
        return Ok(good.remove(0));
    }
    let names: Vec<&str> = good.iter().map(|p| p.notation().name()).collect();
    let reading = |(p, layout): (&ParsedText, &Option<Layout>)| match layout {
        Some(layout) => format!("{}: {}", p.notation().name(), tirx::print_tirx(layout)),
        None => format!("{}: {}", p.notation().name(), p.notation().short_description()),
    };
    let readings: Vec<String> = good.iter().zip(&layouts).map(reading).collect();
    let message = format!("the text can be read as {}", names.join(" and as "));
    Err(Diagnostic::syntax_error(0..text.len(), message, "say which notation is meant")
        .with_id("Z007")
        .with_help(readings.join("\n")))
}

/// Reads a text of a given notation.
pub fn parse_as(
    text: &str,
    notation: Notation,
    axes: &AxisTable,
) -> Result<ParsedText, Diagnostic> {
    (notation.table_row().parse)(text, axes)
}

/// The first word of a text, by which most notations are recognised.
pub(crate) fn first_word(text: &str) -> Option<&str> {
    TextCursor::new(text).read_word().map(|w| w.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that two notations read are one layout, or a question with both.
    #[test]
    fn two_readings_are_one_layout_or_a_question() {
        let axes = AxisTable::new();
        let read = |text: &str, n| parse_as(text, n, &axes).expect(text);
        let cute = read("(8,4):(4,1)", Notation::CUTE);
        let same = read("S[(8,4):(4,1)]", Notation::TIRX);
        let other = read("S[(8,4):(1,8)]", Notation::TIRX);
        let found = agree_on_one_reading("text", vec![cute.clone(), same]).expect("one layout");
        assert_eq!(found, cute);
        let asked =
            agree_on_one_reading("text", vec![cute.clone(), other]).expect_err("two layouts");
        assert_eq!((asked.id, asked.span.clone()), ("Z007", 0..4));
        assert_eq!(asked.message, "the text can be read as cute and as tirx");
        assert_eq!(asked.help.as_deref(), Some("cute: S[(8,4):(4,1)]\ntirx: S[(8,4):(1,8)]"));
        assert_eq!(all_readings("(8,4):(4,1)", &axes), [cute]);
        assert_eq!(all_readings("no layout", &axes), []);
    }

    /// A row that is added is checked here without a line of test.
    #[test]
    fn every_row_is_complete() {
        let axes = AxisTable::new();
        for (k, n) in Notation::all_notations().enumerate() {
            assert!(
                !n.name().is_empty() && !n.short_description().is_empty(),
                "row {k} has no name or doc"
            );
            assert_eq!(Notation::from_name(n.name()), Some(n), "another row has this name");
            assert_eq!(
                Notation::all_notations().position(|m| m == n),
                Some(k),
                "{n:?} is listed twice"
            );
            let text = n.example_text();
            let claimed: Vec<_> =
                Notation::all_notations().filter(|m| (m.table_row().recognises)(text)).collect();
            assert_eq!(claimed, [n], "who recognises {text}");
            let parsed = parse(text, &axes).expect(text);
            assert_eq!(parsed.notation(), n);
            assert_eq!(parsed.notation_text(), text, "an example is written as it is printed");
            assert_eq!(parse_as(&parsed.notation_text(), n, &axes), Ok(parsed.clone()));
            let layout = parsed.layout_over_shape(None).expect("an example has a layout");
            let shape = parsed.default_shape().expect("an example has a shape");
            layout.check_shape_size(&shape).expect("a shape of its layout");
            assert_eq!(parsed.stick_layout().is_some(), n.needs_dtype(), "{n:?}");
            let dtype = n.needs_dtype().then_some(Dtype::Float16);
            let expressed = (n.table_row().express)(&layout, &shape, dtype).expect(text);
            let again = parse_as(&expressed, n, &axes).expect(&expressed);
            let again = again.layout_over_shape(Some(&shape)).expect(&expressed);
            assert_eq!(again.find_difference(&layout), Ok(None), "{n:?} writes its own layout");
        }
    }
}
