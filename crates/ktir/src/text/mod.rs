//! KTIR as text: MLIR's syntax for the operations of the table.
//!
//! [`parse`] reads a text and verifies the module; [`print_module()`] prints a text that [`parse`]
//! reads back to the same module. Sets and maps are printed by their alias where the module has
//! one.

mod affine;
mod attrs;
mod constant;
mod forms;
mod function;
mod ktdp;
mod linalg;
mod parser;
mod print;
mod scf;
mod tensor;
mod types;

pub use print::print_module;

use crate::ir::KtirModule;
use parser::KtirParser;
use std::ops::Range;
use zellige_notation::Diagnostic;

/// Reads a module and verifies it.
///
/// # Errors
/// A diagnostic that underlines the place.
pub fn parse(text: &str) -> Result<KtirModule, Diagnostic> {
    let module = parse_unverified(text)?;
    crate::verify::verify_module(&module)?;
    Ok(module)
}

/// Reads a module. Names, written types and textual forms are checked; the rules of operations are
/// not.
///
/// # Errors
/// A diagnostic that underlines the place.
pub fn parse_unverified(text: &str) -> Result<KtirModule, Diagnostic> {
    KtirParser::new(text).parse_module()
}

/// The line and column at which a span begins, both counted from 1; columns count characters.
pub fn find_line_and_column(text: &str, span: &Range<usize>) -> (usize, usize) {
    let mut at = span.start.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let line = text[..at].matches('\n').count() + 1;
    let from = text[..at].rfind('\n').map_or(0, |i| i + 1);
    (line, text[from..at].chars().count() + 1)
}
