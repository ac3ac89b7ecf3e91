//! Layouts in pasted TTGIR: definitions of aliases, and the types that use them.

use super::attribute::TritonAttribute;
use super::parse;
use super::value::{AliasLookup, shorten_name};
use crate::cursor::TextCursor;
use crate::{Diagnostic, WrittenLayout};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use zellige_layout::Layout;

type Result<T> = std::result::Result<T, Diagnostic>;

/// `#blocked = #ttg.blocked<{..}>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasDefinition {
    /// The alias, without `#`.
    pub name: String,
    /// The attribute as it is written.
    pub text: String,
    /// The attribute, with aliases inside it resolved.
    pub attribute: TritonAttribute,
    /// Its span.
    pub span: Range<usize>,
}

/// `tensor<128x64xf16, #blocked>`, or a memory descriptor `!ttg.memdesc<128x64xf16, #shared, #smem>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TtgirTensorType {
    /// The sizes as they are written.
    pub shape: Vec<i64>,
    /// The type of its elements: `f16`.
    pub element: String,
    /// Its layout.
    pub attribute: TritonAttribute,
    /// The text of a memory descriptor after its layout; `None` for a tensor.
    pub memory: Option<String>,
    /// Its span.
    pub span: Range<usize>,
}

impl TtgirTensorType {
    /// The shape that its layout is over: a memory descriptor may have one more dimension in front, for buffers.
    pub fn layout_shape(&self) -> Vec<i64> {
        let extra = self.shape.len().saturating_sub(self.attribute.rank());
        // `ttg.memdesc` of a pipelined allocation counts the buffers in a leading dimension, which
        // the layout does not cover.
        let buffers = if self.memory.is_some() && extra == 1 { 1 } else { 0 };
        self.shape[buffers..].to_vec()
    }
}

impl WrittenLayout for TtgirTensorType {
    fn notation_text(&self) -> String {
        let dims: String = self.shape.iter().map(|d| format!("{d}x")).collect();
        match &self.memory {
            None => format!("tensor<{dims}{}, {}>", self.element, self.attribute),
            Some(rest) => {
                format!("!ttg.memdesc<{dims}{}, {}{rest}>", self.element, self.attribute)
            }
        }
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        // Another shape with the same number of elements is accepted, because the layout is a function of
        // the flat index.
        let own = self.layout_shape();
        let layout = self.attribute.layout_over_shape(Some(&own))?;
        if let Some(shape) = shape {
            layout.check_shape_size(shape).map_err(|e| Diagnostic::meaning_error(0..0, e))?;
        }
        Ok(layout)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        Some(self.layout_shape())
    }

    fn element_bits(&self) -> Option<i64> {
        crate::memref::bits_of_mlir_type(&self.element)
    }
}

/// The kind of layout in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TtgirReading {
    /// An attribute: a layout of any shape.
    Attribute(TritonAttribute),
    /// A type: an attribute with its shape.
    Tensor(TtgirTensorType),
}

/// The aliases of a text.
#[derive(Default)]
struct AliasTable(BTreeMap<String, TritonAttribute>);

impl AliasLookup for AliasTable {
    fn find_alias(&self, name: &str) -> Option<TritonAttribute> {
        self.0.get(name).cloned()
    }

    fn alias_names(&self) -> Vec<String> {
        self.0.keys().take(20).cloned().collect()
    }
}

/// Attributes of the same dialects that are not layouts, such as memory spaces.
const NO_LAYOUTS: [&str; 4] =
    ["ttg.shared_memory", "ttng.tensor_memory", "ttg.partition", "ttg.warp_specialize"];

/// The layouts of a text, and the errors of the parts that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TtgirSurvey {
    /// As [`read_definitions`].
    pub definitions: Vec<AliasDefinition>,
    /// As [`read_tensor_types`].
    pub types: Vec<TtgirTensorType>,
    /// Definitions and types that were refused; of those with the same message, the first.
    pub refused: Vec<Diagnostic>,
}

/// Every layout of a text of TTGIR. Parts that Triton would refuse are reported beside the others.
pub fn survey_layouts(text: &str) -> TtgirSurvey {
    let mut refused: Vec<Diagnostic> = Vec::new();
    let mut said = BTreeSet::new();
    let mut refuse = |d: Diagnostic| {
        if said.insert(d.message.clone()) {
            refused.push(d);
        }
        Ok(())
    };
    let definitions = read_definitions_or_refuse(text, &mut refuse).unwrap_or_default();
    let named = definitions.iter().map(|d| (d.name.clone(), d.attribute.clone()));
    let types =
        read_types_or_refuse(text, &AliasTable(named.collect()), &mut refuse).unwrap_or_default();
    TtgirSurvey { definitions, types, refused }
}

/// Every layout that a text defines as an alias, in order.
///
/// # Errors
/// A definition that Triton would refuse, with its span.
pub fn read_definitions(text: &str) -> Result<Vec<AliasDefinition>> {
    read_definitions_or_refuse(text, &mut Err)
}

/// The definitions of a text. Errors are passed to `refuse`, which may end the search.
fn read_definitions_or_refuse(
    text: &str,
    refuse: &mut dyn FnMut(Diagnostic) -> Result<()>,
) -> Result<Vec<AliasDefinition>> {
    let mut found = Vec::new();
    let mut table = AliasTable::default();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        zellige_guard::count_step();
        // MLIR prints aliases at the beginning of lines. Looking only there avoids parsing every
        // `#` of a large module.
        if line.trim_start().starts_with('#') {
            match read_definition_at(text, at, &table) {
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

/// The definition of a layout that begins at a position, if there is one.
fn read_definition_at(
    text: &str,
    at: usize,
    table: &AliasTable,
) -> Result<Option<AliasDefinition>> {
    let mut c = TextCursor::new(text);
    c.skip_to_place(at);
    let defined = c.eat_char('#').then(|| c.read_dotted_word()).flatten();
    let Some(name) = defined.filter(|_| c.eat_char('=')) else { return Ok(None) };
    let start = c.next_token_start();
    let mut ahead = c.clone();
    let kind = ahead.eat_char('#').then(|| ahead.read_dotted_word()).flatten();
    match kind {
        Some(kind) if !NO_LAYOUTS.contains(&kind.value) => {}
        _ => return Ok(None),
    }
    let attribute = parse::read_attribute(&mut c, table, 0)?;
    let span = start..c.last_token_end();
    let text = text[span.clone()].to_string();
    Ok(Some(AliasDefinition { name: name.value.to_string(), text, attribute, span }))
}

/// Every type with a layout in a text, each once, in order.
///
/// # Errors
/// A definition or a type that Triton would refuse, with its span.
pub fn read_tensor_types(text: &str) -> Result<Vec<TtgirTensorType>> {
    let table =
        AliasTable(read_definitions(text)?.into_iter().map(|d| (d.name, d.attribute)).collect());
    read_types_with_aliases(text, &table)
}

fn read_types_with_aliases(text: &str, table: &AliasTable) -> Result<Vec<TtgirTensorType>> {
    read_types_or_refuse(text, table, &mut Err)
}

/// The types of a text. Errors are passed to `refuse`, which may end the search.
fn read_types_or_refuse(
    text: &str,
    table: &AliasTable,
    refuse: &mut dyn FnMut(Diagnostic) -> Result<()>,
) -> Result<Vec<TtgirTensorType>> {
    let mut found: Vec<TtgirTensorType> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut from = 0;
    while let Some(open) = text[from..].find('<').map(|i| from + i) {
        from = open + 1;
        let before = text[..open].trim_end();
        // Types are found by their opening bracket, because they occur anywhere in a line.
        let memory = before.ends_with("!ttg.memdesc");
        let tensor = before.ends_with("tensor") && !ends_inside_word(&before[..before.len() - 6]);
        if !memory && !tensor {
            continue;
        }
        let start = if memory { before.len() - 12 } else { before.len() - 6 };
        zellige_guard::count_step();
        match read_tensor_type_at(text, start, open + 1, memory, table) {
            Ok(Some(read)) if seen.insert(read.notation_text()) => found.push(read),
            Ok(_) => {}
            Err(d) => refuse(d)?,
        }
    }
    Ok(found)
}

/// Whether a text ends inside a word, so that a keyword after it is only the end of a longer word.
fn ends_inside_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
}

/// The type whose fields begin at a position; `None` if it has no layout.
fn read_tensor_type_at(
    text: &str,
    start: usize,
    at: usize,
    memory: bool,
    table: &AliasTable,
) -> Result<Option<TtgirTensorType>> {
    let mut c = TextCursor::new(text);
    c.skip_to_place(at);
    let mut shape = Vec::new();
    while c.peek_char().is_some_and(|ch| ch.is_ascii_digit()) {
        let size = c.read_integer("a size")?;
        if !c.eat_char('x') {
            return Err(c.refuse_next_token("`x` after a size"));
        }
        shape.push(size.value);
        if shape.len() > 64 {
            let message = "a tensor with more than 64 dimensions";
            return Err(Diagnostic::syntax_error(start..c.last_token_end(), message, "too many"));
        }
    }
    let from = c.next_token_start();
    let Some(end) = find_at_top_level(text, from, |ch| matches!(ch, ',' | '>')) else {
        return Err(Diagnostic::syntax_error(start..at, "a type without an end", "expected `>`"));
    };
    let element = text[from..end].trim().to_string();
    c.skip_to_place(end);
    if !c.eat_char(',') || c.peek_char() != Some('#') {
        return Ok(None);
    }
    let attribute = parse::read_attribute(&mut c, table, 0)?;
    let rest = c.last_token_end();
    let Some(close) = find_at_top_level(text, rest, |ch| ch == '>') else {
        return Err(Diagnostic::syntax_error(start..at, "a type without an end", "expected `>`"));
    };
    let after = text[rest..close].trim_end();
    let span = start..close + 1;
    if !memory && !after.trim().is_empty() {
        let message = format!("unexpected `{}` after the layout", shorten_name(after.trim()));
        return Err(Diagnostic::syntax_error(rest..close, message, "expected `>`"));
    }
    let rank = attribute.rank();
    let fits = shape.len() == rank || memory && shape.len() == rank + 1;
    if !fits {
        let message = format!("the type has {} dimensions, and its layout has {rank}", shape.len());
        return Err(Diagnostic::syntax_error(span, message, "these do not fit"));
    }
    let memory = memory.then(|| after.to_string());
    Ok(Some(TtgirTensorType { shape, element, attribute, memory, span }))
}

/// The longest text of a type beside its layout. Without this bound, unbalanced brackets would make every
/// `<` search the whole rest of a module.
const MAX_TYPE_BYTES: usize = 4096;

/// The first position from `from` on of a character outside of brackets.
fn find_at_top_level(text: &str, from: usize, is: impl Fn(char) -> bool) -> Option<usize> {
    let mut depth = 0usize;
    for (i, ch) in text[from..].char_indices().take(MAX_TYPE_BYTES) {
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
pub struct LayoutChoice {
    /// The type or the definition as the text has it.
    pub written: String,
    /// The same with all aliases resolved: a text that is read by itself.
    pub text: String,
    /// The shape that the layout is over, if the text states one.
    pub shape: Option<Vec<i64>>,
}

impl fmt::Display for LayoutChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.written == self.text {
            f.write_str(&self.text)
        } else {
            let short = shorten_name(&self.written);
            let rest = if short.len() < self.written.len() { "…" } else { "" };
            write!(f, "{short}{rest}, which is {}", self.text)
        }
    }
}

/// Every layout of a pasted text: the types with their shapes, then the definitions that no type uses.
///
/// # Errors
/// A definition or a type that Triton would refuse, with its span.
pub fn list_layout_choices(text: &str) -> Result<Vec<LayoutChoice>> {
    let defined = read_definitions(text)?;
    let table = AliasTable(defined.iter().map(|d| (d.name.clone(), d.attribute.clone())).collect());
    let types = read_types_with_aliases(text, &table)?;
    Ok(choices_of_types(text, &defined, &types))
}

fn choices_of_types(
    text: &str,
    defined: &[AliasDefinition],
    types: &[TtgirTensorType],
) -> Vec<LayoutChoice> {
    let of_type = |t: &TtgirTensorType| LayoutChoice {
        written: text[t.span.clone()].to_string(),
        text: t.notation_text(),
        shape: Some(t.layout_shape()),
    };
    let mut found: Vec<LayoutChoice> = types.iter().map(of_type).collect();
    let unused = defined.iter().filter(|d| types.iter().all(|t| t.attribute != d.attribute));
    found.extend(unused.map(|d| LayoutChoice {
        written: format!("#{} = {}", d.name, d.text),
        text: d.attribute.to_string(),
        shape: None,
    }));
    found
}

/// The layout of a pasted text that a reader picks: a number of [`list_layout_choices`], from 1, or the
/// name of an alias, with or without `#`. An alias that types of several shapes use is picked without a
/// shape. Errors in other parts of the text do not matter.
///
/// # Errors
/// A pick that names none of them, with the list.
pub fn pick_layout(text: &str, which: &str) -> Result<LayoutChoice> {
    let TtgirSurvey { definitions: defined, types, mut refused } = survey_layouts(text);
    let all = choices_of_types(text, &defined, &types);
    if let Ok(number) = which.parse::<usize>() {
        if let Some(choice) = number.checked_sub(1).and_then(|i| all.get(i)) {
            return Ok(choice.clone());
        }
    } else if let Some(d) = defined.iter().find(|d| d.name == which.trim_start_matches('#')) {
        let of_it = || types.iter().zip(&all).filter(|(t, _)| t.attribute == d.attribute);
        let first = of_it().next().map(|(t, _)| t.layout_shape());
        let one_shape = of_it().all(|(t, _)| Some(t.layout_shape()) == first);
        // A type of values is preferred to one of pointers to them: the layout is the same, and element
        // widths are those of the tensor.
        let values = of_it().find(|(t, _)| !t.element.starts_with('!'));
        return Ok(match values.or_else(|| of_it().next()) {
            Some((_, found)) if one_shape => found.clone(),
            _ => LayoutChoice {
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
    let message = format!("the text has no layout `{}`", shorten_name(which));
    let accepted = match (all.len(), names.is_empty()) {
        (0, _) => "the text has no layouts".to_string(),
        (n, true) => format!("pick a number from 1 to {n}"),
        (n, false) => format!("pick a number from 1 to {n}, or one of {}", names.join(", ")),
    };
    Err(Diagnostic::syntax_error(0..text.len(), message, "there is no such layout here")
        .with_help(accepted))
}

/// Reads an attribute, or TTGIR with one layout: a type, or else a definition.
pub(super) fn parse(text: &str) -> Result<TtgirReading> {
    let trimmed = text.trim_start();
    let mut c = TextCursor::new(text);
    if trimmed.starts_with('#') {
        // A single attribute, unless the text begins with a definition such as `#a = ..`.
        let mut ahead = c.clone();
        let _ = ahead.eat_char('#') && ahead.read_dotted_word().is_some();
        if !ahead.eat_char('=') {
            let attribute = parse::read_attribute(&mut c, &super::NoAliases, 0)?;
            c.expect_end("the attribute")?;
            return Ok(TtgirReading::Attribute(attribute));
        }
    }
    let defined = read_definitions(text)?;
    let table = AliasTable(defined.iter().map(|d| (d.name.clone(), d.attribute.clone())).collect());
    let mut types = read_types_with_aliases(text, &table)?;
    if types.len() == 1 {
        return Ok(TtgirReading::Tensor(types.remove(0)));
    }
    if types.is_empty() && defined.len() == 1 {
        return Ok(TtgirReading::Attribute(defined[0].attribute.clone()));
    }
    if types.is_empty() && defined.is_empty() {
        let message = "no layout in this text";
        let help = "a layout is an attribute such as #ttg.blocked<{..}>, or a type such as tensor<128x64xf16, #ttg.blocked<{..}>>";
        return Err(
            Diagnostic::syntax_error(0..text.len(), message, "expected a layout").with_help(help)
        );
    }
    let listed = choices_of_types(text, &defined, &types);
    let count = listed.len();
    let lines = listed.iter().take(20).enumerate().map(|(k, c)| format!("{}: {c}", k + 1));
    let mut shown = lines.collect::<Vec<_>>().join("\n");
    if count > 20 {
        shown += &format!("\nand {} more", count - 20);
    }
    let message = format!("the text has {count} layouts");
    Err(Diagnostic::syntax_error(0..text.len(), message, "which one is meant?").with_help(shown))
}
