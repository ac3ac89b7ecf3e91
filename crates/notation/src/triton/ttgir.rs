//! Layouts in pasted TTGIR: definitions of aliases, and the types that use them.

use super::attribute::Attribute;
use super::parse;
use super::value::{Aliases, shorten};
use crate::cursor::Cursor;
use crate::{Diagnostic, WrittenLayout};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use zellige_layout::Layout;

type Result<T> = std::result::Result<T, Diagnostic>;

/// `#blocked = #ttg.blocked<{..}>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The alias, without `#`.
    pub name: String,
    /// The attribute as it is written.
    pub text: String,
    /// What it says, aliases inside resolved.
    pub attribute: Attribute,
    /// Its place.
    pub span: Range<usize>,
}

/// `tensor<128x64xf16, #blocked>`, or a memory descriptor `!ttg.memdesc<128x64xf16, #shared, #smem>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorType {
    /// The sizes as they are written.
    pub shape: Vec<i64>,
    /// The type of its elements: `f16`.
    pub element: String,
    /// Its layout.
    pub attribute: Attribute,
    /// What a memory descriptor says after its layout; none for a tensor.
    pub memory: Option<String>,
    /// Its place.
    pub span: Range<usize>,
}

impl TensorType {
    /// The shape that its layout is over: a memory descriptor may have one more dimension in front, for buffers.
    pub fn layout_shape(&self) -> Vec<i64> {
        let extra = self.shape.len().saturating_sub(self.attribute.rank());
        let buffers = if self.memory.is_some() && extra == 1 { 1 } else { 0 };
        self.shape[buffers..].to_vec()
    }
}

impl WrittenLayout for TensorType {
    fn text(&self) -> String {
        let dims: String = self.shape.iter().map(|d| format!("{d}x")).collect();
        match &self.memory {
            None => format!("tensor<{dims}{}, {}>", self.element, self.attribute),
            Some(rest) => {
                format!("!ttg.memdesc<{dims}{}, {}{rest}>", self.element, self.attribute)
            }
        }
    }

    fn layout(&self, shape: Option<&[i64]>) -> Result<Layout> {
        // A shape that only groups the same elements otherwise is fine: the layout is of the flat index.
        let own = self.layout_shape();
        let layout = self.attribute.layout(Some(&own))?;
        if let Some(shape) = shape {
            layout.admit(shape).map_err(|e| Diagnostic::meaning(0..0, e))?;
        }
        Ok(layout)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        Some(self.layout_shape())
    }

    fn element_bits(&self) -> Option<i64> {
        crate::memref::mlir_bits(&self.element)
    }
}

/// The layout that a text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    /// An attribute: a layout of any shape.
    Attribute(Attribute),
    /// A type: an attribute with its shape.
    Tensor(TensorType),
}

/// The aliases of a text.
#[derive(Default)]
struct Table(BTreeMap<String, Attribute>);

impl Aliases for Table {
    fn find(&self, name: &str) -> Option<Attribute> {
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().take(20).cloned().collect()
    }
}

/// Attributes that are no layouts: what memory a descriptor is in.
const NO_LAYOUTS: [&str; 4] =
    ["ttg.shared_memory", "ttng.tensor_memory", "ttg.partition", "ttg.warp_specialize"];

/// The layouts of a text, and what of it was not read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// As [`definitions`].
    pub definitions: Vec<Definition>,
    /// As [`tensor_types`].
    pub types: Vec<TensorType>,
    /// Definitions and types that were refused; of those with the same message, the first.
    pub refused: Vec<Diagnostic>,
}

/// Every layout of a text of TTGIR. What Triton would refuse is told beside the rest.
pub fn survey(text: &str) -> Survey {
    let mut refused: Vec<Diagnostic> = Vec::new();
    let mut said = BTreeSet::new();
    let mut refuse = |d: Diagnostic| {
        if said.insert(d.message.clone()) {
            refused.push(d);
        }
        Ok(())
    };
    let definitions = definitions_or(text, &mut refuse).unwrap_or_default();
    let named = definitions.iter().map(|d| (d.name.clone(), d.attribute.clone()));
    let types = types_or(text, &Table(named.collect()), &mut refuse).unwrap_or_default();
    Survey { definitions, types, refused }
}

/// Every layout that a text defines as an alias, in order.
///
/// # Errors
/// A definition that Triton would refuse, with its place.
pub fn definitions(text: &str) -> Result<Vec<Definition>> {
    definitions_or(text, &mut Err)
}

/// The definitions of a text; what is refused goes to `refuse`, which may end it.
fn definitions_or(
    text: &str,
    refuse: &mut dyn FnMut(Diagnostic) -> Result<()>,
) -> Result<Vec<Definition>> {
    let mut found = Vec::new();
    let mut table = Table::default();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        zellige_guard::step();
        if line.trim_start().starts_with('#') {
            match definition(text, at, &table) {
                Ok(Some(definition)) => {
                    table.0.insert(definition.name.clone(), definition.attribute.clone());
                    found.push(definition);
                }
                Ok(None) => {}
                Err(d) => refuse(d)?,
            }
        }
        at += line.len();
    }
    Ok(found)
}

/// The definition that begins at a place, where one of a layout does.
fn definition(text: &str, at: usize, table: &Table) -> Result<Option<Definition>> {
    let mut c = Cursor::new(text);
    c.skip_to(at);
    let defined = c.eat('#').then(|| c.dotted()).flatten();
    let Some(name) = defined.filter(|_| c.eat('=')) else { return Ok(None) };
    let start = c.at();
    let mut ahead = c.clone();
    let kind = ahead.eat('#').then(|| ahead.dotted()).flatten();
    match kind {
        Some(kind) if !NO_LAYOUTS.contains(&kind.value) => {}
        _ => return Ok(None),
    }
    let attribute = parse::attribute(&mut c, table, 0)?;
    let span = start..c.here();
    let text = text[span.clone()].to_string();
    Ok(Some(Definition { name: name.value.to_string(), text, attribute, span }))
}

/// Every type with a layout in a text, each once, in order.
///
/// # Errors
/// A definition or a type that Triton would refuse, with its place.
pub fn tensor_types(text: &str) -> Result<Vec<TensorType>> {
    let table = Table(definitions(text)?.into_iter().map(|d| (d.name, d.attribute)).collect());
    types_with(text, &table)
}

fn types_with(text: &str, table: &Table) -> Result<Vec<TensorType>> {
    types_or(text, table, &mut Err)
}

/// The types of a text; what is refused goes to `refuse`, which may end it.
fn types_or(
    text: &str,
    table: &Table,
    refuse: &mut dyn FnMut(Diagnostic) -> Result<()>,
) -> Result<Vec<TensorType>> {
    let mut found: Vec<TensorType> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut from = 0;
    while let Some(open) = text[from..].find('<').map(|i| from + i) {
        from = open + 1;
        let before = text[..open].trim_end();
        let memory = before.ends_with("!ttg.memdesc");
        let tensor = before.ends_with("tensor") && !word_before(&before[..before.len() - 6]);
        if !memory && !tensor {
            continue;
        }
        let start = if memory { before.len() - 12 } else { before.len() - 6 };
        zellige_guard::step();
        match tensor_type(text, start, open + 1, memory, table) {
            Ok(Some(read)) if seen.insert(read.text()) => found.push(read),
            Ok(_) => {}
            Err(d) => refuse(d)?,
        }
    }
    Ok(found)
}

/// Whether a text ends inside a word, so that what follows is only its end.
fn word_before(text: &str) -> bool {
    text.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
}

/// The type whose fields begin at a place; none where it has no layout.
fn tensor_type(
    text: &str,
    start: usize,
    at: usize,
    memory: bool,
    table: &Table,
) -> Result<Option<TensorType>> {
    let mut c = Cursor::new(text);
    c.skip_to(at);
    let mut shape = Vec::new();
    while c.peek().is_some_and(|ch| ch.is_ascii_digit()) {
        let size = c.int("a size")?;
        if !c.eat('x') {
            return Err(c.expected("`x` after a size"));
        }
        shape.push(size.value);
        if shape.len() > 64 {
            let message = "a tensor with more than 64 dimensions";
            return Err(Diagnostic::syntax(start..c.here(), message, "too many"));
        }
    }
    let from = c.at();
    let Some(end) = top_level(text, from, |ch| matches!(ch, ',' | '>')) else {
        return Err(Diagnostic::syntax(start..at, "a type without an end", "expected `>`"));
    };
    let element = text[from..end].trim().to_string();
    c.skip_to(end);
    if !c.eat(',') || c.peek() != Some('#') {
        return Ok(None);
    }
    let attribute = parse::attribute(&mut c, table, 0)?;
    let rest = c.here();
    let Some(close) = top_level(text, rest, |ch| ch == '>') else {
        return Err(Diagnostic::syntax(start..at, "a type without an end", "expected `>`"));
    };
    let after = text[rest..close].trim_end();
    let span = start..close + 1;
    if !memory && !after.trim().is_empty() {
        let message = format!("unexpected `{}` after the layout", shorten(after.trim()));
        return Err(Diagnostic::syntax(rest..close, message, "expected `>`"));
    }
    let rank = attribute.rank();
    let fits = shape.len() == rank || memory && shape.len() == rank + 1;
    if !fits {
        let message = format!("the type has {} dimensions, and its layout has {rank}", shape.len());
        return Err(Diagnostic::syntax(span, message, "these do not fit"));
    }
    let memory = memory.then(|| after.to_string());
    Ok(Some(TensorType { shape, element, attribute, memory, span }))
}

/// What a type says beside its layout is no longer than this.
const LONGEST: usize = 4096;

/// The first place from `from` on, outside of brackets, of a character.
fn top_level(text: &str, from: usize, is: impl Fn(char) -> bool) -> Option<usize> {
    let mut depth = 0usize;
    for (i, ch) in text[from..].char_indices().take(LONGEST) {
        if depth == 0 && is(ch) {
            return Some(from + i);
        }
        match ch {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// One layout of a pasted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The type or the definition as the text has it.
    pub written: String,
    /// The same with all aliases resolved: a text that is read by itself.
    pub text: String,
    /// The shape that the layout is over, where the text says one.
    pub shape: Option<Vec<i64>>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.written == self.text {
            f.write_str(&self.text)
        } else {
            let short = shorten(&self.written);
            let rest = if short.len() < self.written.len() { "…" } else { "" };
            write!(f, "{short}{rest}, which is {}", self.text)
        }
    }
}

/// Every layout of a pasted text: the types with their shapes, then the definitions that no type uses.
///
/// # Errors
/// A definition or a type that Triton would refuse, with its place.
pub fn choices(text: &str) -> Result<Vec<Choice>> {
    let defined = definitions(text)?;
    let table = Table(defined.iter().map(|d| (d.name.clone(), d.attribute.clone())).collect());
    let types = types_with(text, &table)?;
    Ok(listed(text, &defined, &types))
}

fn listed(text: &str, defined: &[Definition], types: &[TensorType]) -> Vec<Choice> {
    let of_type = |t: &TensorType| Choice {
        written: text[t.span.clone()].to_string(),
        text: t.text(),
        shape: Some(t.layout_shape()),
    };
    let mut found: Vec<Choice> = types.iter().map(of_type).collect();
    let unused = defined.iter().filter(|d| types.iter().all(|t| t.attribute != d.attribute));
    found.extend(unused.map(|d| Choice {
        written: format!("#{} = {}", d.name, d.text),
        text: d.attribute.to_string(),
        shape: None,
    }));
    found
}

/// The layout of a pasted text that a reader picks: a number of [`choices`], from 1, or the name of an alias, with or
/// without `#`. An alias that types of several shapes use is picked without a shape. What else of the text Triton would refuse does not matter.
///
/// # Errors
/// A pick that names none of them, with the list.
pub fn pick(text: &str, which: &str) -> Result<Choice> {
    let Survey { definitions: defined, types, mut refused } = survey(text);
    let all = listed(text, &defined, &types);
    if let Ok(number) = which.parse::<usize>() {
        if let Some(choice) = number.checked_sub(1).and_then(|i| all.get(i)) {
            return Ok(choice.clone());
        }
    } else if let Some(d) = defined.iter().find(|d| d.name == which.trim_start_matches('#')) {
        let of_it = || types.iter().zip(&all).filter(|(t, _)| t.attribute == d.attribute);
        let first = of_it().next().map(|(t, _)| t.layout_shape());
        let one_shape = of_it().all(|(t, _)| Some(t.layout_shape()) == first);
        // Values rather than the pointers to them: the layout is the same, and the elements are those of the tensor.
        let values = of_it().find(|(t, _)| !t.element.starts_with('!'));
        return Ok(match values.or_else(|| of_it().next()) {
            Some((_, found)) if one_shape => found.clone(),
            _ => Choice {
                written: format!("#{} = {}", d.name, d.text),
                text: d.attribute.to_string(),
                shape: None,
            },
        });
    }
    if all.is_empty() && !refused.is_empty() {
        return Err(refused.remove(0));
    }
    let names: Vec<String> = defined.iter().take(20).map(|d| format!("#{}", d.name)).collect();
    let message = format!("the text has no layout `{}`", shorten(which));
    let accepted = match (all.len(), names.is_empty()) {
        (0, _) => "the text has no layouts".to_string(),
        (n, true) => format!("pick a number from 1 to {n}"),
        (n, false) => format!("pick a number from 1 to {n}, or one of {}", names.join(", ")),
    };
    Err(Diagnostic::syntax(0..text.len(), message, "there is no such layout here").help(accepted))
}

/// Reads an attribute, or TTGIR with one layout: a type, or else a definition.
pub(super) fn parse(text: &str) -> Result<Read> {
    let trimmed = text.trim_start();
    let mut c = Cursor::new(text);
    if trimmed.starts_with('#') {
        // One attribute by itself, unless it is the name of a definition.
        let mut ahead = c.clone();
        let _ = ahead.eat('#') && ahead.dotted().is_some();
        if !ahead.eat('=') {
            let attribute = parse::attribute(&mut c, &super::NoAliases, 0)?;
            c.finish("the attribute")?;
            return Ok(Read::Attribute(attribute));
        }
    }
    let defined = definitions(text)?;
    let table = Table(defined.iter().map(|d| (d.name.clone(), d.attribute.clone())).collect());
    let mut types = types_with(text, &table)?;
    if types.len() == 1 {
        return Ok(Read::Tensor(types.remove(0)));
    }
    if types.is_empty() && defined.len() == 1 {
        return Ok(Read::Attribute(defined[0].attribute.clone()));
    }
    if types.is_empty() && defined.is_empty() {
        let message = "no layout in this text";
        let help = "a layout is an attribute such as #ttg.blocked<{..}>, or a type such as tensor<128x64xf16, #ttg.blocked<{..}>>";
        return Err(Diagnostic::syntax(0..text.len(), message, "expected a layout").help(help));
    }
    let listed = listed(text, &defined, &types);
    let count = listed.len();
    let lines = listed.iter().take(20).enumerate().map(|(k, c)| format!("{}: {c}", k + 1));
    let mut shown = lines.collect::<Vec<_>>().join("\n");
    if count > 20 {
        shown += &format!("\nand {} more", count - 20);
    }
    let message = format!("the text has {count} layouts");
    Err(Diagnostic::syntax(0..text.len(), message, "which one is meant?").help(shown))
}
