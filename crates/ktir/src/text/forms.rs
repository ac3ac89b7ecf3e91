//! Reads what follows the name of an operation, one function per textual form.

use super::parser::{KtirOpParts, KtirParser, Result};
use crate::ir::{KtirAttr, KtirValue};
use crate::op::{KtirOpForm, KtirOpKind};
use crate::types::{KtirElem, KtirType};

/// Flags that may follow the operands, as in `fastmath<fast>`.
const KNOWN_FLAGS: [&str; 3] = ["fastmath", "overflow", "exact"];

impl KtirParser<'_> {
    pub(super) fn parse_op_parts(&mut self, kind: KtirOpKind) -> Result<KtirOpParts> {
        match kind.form() {
            KtirOpForm::Same(n) => self.parse_same_types(n),
            KtirOpForm::Compare => self.parse_compare(),
            KtirOpForm::Select => self.parse_select(),
            KtirOpForm::Cast => self.parse_cast(),
            KtirOpForm::Constant => self.parse_constant(),
            KtirOpForm::Structured(n) => self.parse_structured(n),
            KtirOpForm::Yield => self.parse_yield(),
            KtirOpForm::Own => self.parse_own_form(kind),
        }
    }

    fn parse_own_form(&mut self, kind: KtirOpKind) -> Result<KtirOpParts> {
        match kind {
            KtirOpKind::TileId => self.parse_tile_id(),
            KtirOpKind::CoreId => self.parse_core_id(),
            KtirOpKind::RuntimeArgExtract => self.parse_runtime_arg_extract(),
            KtirOpKind::MemoryView => self.parse_memory_view(),
            KtirOpKind::DistributedView => self.parse_distributed_view(),
            KtirOpKind::AccessTile => self.parse_access(),
            KtirOpKind::IndirectTile => self.parse_indirect(),
            KtirOpKind::Load => self.parse_load(),
            KtirOpKind::Store => self.parse_store(),
            KtirOpKind::Produce => self.parse_produce(),
            k if k.is_delivery() => self.parse_delivery(k),
            KtirOpKind::Generic => self.parse_generic(),
            KtirOpKind::Reduce => self.parse_reduce(),
            KtirOpKind::Broadcast => self.parse_rearranged("dimensions"),
            KtirOpKind::Transpose => self.parse_rearranged("permutation"),
            KtirOpKind::LinalgMap => self.parse_linalg_map(),
            KtirOpKind::LinalgIndex => self.parse_linalg_index(),
            KtirOpKind::For => self.parse_scf_for(),
            KtirOpKind::If => self.parse_scf_if(),
            KtirOpKind::While => self.parse_scf_while(),
            KtirOpKind::Condition => self.parse_scf_condition(),
            KtirOpKind::Parallel => self.parse_scf_parallel(),
            KtirOpKind::AffineApply => self.parse_affine_apply(),
            KtirOpKind::Call => self.parse_call(),
            KtirOpKind::MemRefLoad => self.parse_memref_load(),
            KtirOpKind::MemRefStore => self.parse_memref_store(),
            _ => self.parse_tensor_op(kind),
        }
    }

    /// Operands separated by commas.
    pub(super) fn parse_values(&mut self, n: usize) -> Result<Vec<KtirValue>> {
        let mut out = Vec::with_capacity(n);
        for i in 0..n {
            if i > 0 {
                self.expect_token(",")?;
            }
            out.push(self.parse_value()?);
        }
        Ok(out)
    }

    fn parse_flags(&mut self) -> Result<Vec<(String, KtirAttr)>> {
        let mut out = Vec::new();
        for flag in KNOWN_FLAGS {
            if self.eat_word(flag) {
                let at = self.c.next_token_start();
                // Flags are kept as they are written. They permit an optimizing compiler to reorder
                // or assume more; the interpreter does neither.
                let len = if self.is_next("<") {
                    1 + self.balanced_length(at + 1, &['>']) + 1
                } else {
                    0
                };
                let text = self.text.get(at..at + len).unwrap_or_default();
                out.push((flag.to_string(), KtirAttr::Raw(text.into())));
                self.c.skip_to_place(at + len);
            }
        }
        out.extend(self.parse_dict()?);
        Ok(out)
    }

    fn parse_same_types(&mut self, n: usize) -> Result<KtirOpParts> {
        let operands = self.parse_values(n)?;
        let attrs = self.parse_flags()?;
        self.expect_token(":")?;
        let ty = self.parse_type()?;
        operands.iter().try_for_each(|v| self.check_written_type(*v, &ty))?;
        Ok(KtirOpParts::new(operands, vec![ty.value]).with_attrs(attrs))
    }

    fn parse_compare(&mut self) -> Result<KtirOpParts> {
        let Some(predicate) = self.c.read_word() else {
            return Err(self.c.refuse_next_token("a comparison, such as slt or olt"));
        };
        self.expect_token(",")?;
        let operands = self.parse_values(2)?;
        let attrs = self.parse_flags()?;
        self.expect_token(":")?;
        let ty = self.parse_type()?;
        operands.iter().try_for_each(|v| self.check_written_type(*v, &ty))?;
        // MLIR writes only the operands' type of a comparison; the result has its shape and
        // elements of one bit.
        let result = ty.value.with_elem(KtirElem::I1);
        Ok(KtirOpParts::new(operands, vec![result])
            .with_attr("predicate", KtirAttr::Word(predicate.value.into()))
            .with_attrs(attrs))
    }

    fn parse_select(&mut self) -> Result<KtirOpParts> {
        let operands = self.parse_values(3)?;
        let attrs = self.parse_dict()?;
        self.expect_token(":")?;
        let mut ty = self.parse_type()?;
        if self.eat_token(",") {
            self.check_written_type(operands[0], &ty)?;
            ty = self.parse_type()?;
        }
        operands[1..].iter().try_for_each(|v| self.check_written_type(*v, &ty))?;
        Ok(KtirOpParts::new(operands, vec![ty.value]).with_attrs(attrs))
    }

    fn parse_cast(&mut self) -> Result<KtirOpParts> {
        let operand = self.parse_value()?;
        let attrs = self.parse_flags()?;
        self.expect_token(":")?;
        let from = self.parse_type()?;
        self.check_written_type(operand, &from)?;
        self.expect_word("to")?;
        let to = self.parse_type()?.value;
        Ok(KtirOpParts::new(vec![operand], vec![to]).with_attrs(attrs))
    }

    fn parse_yield(&mut self) -> Result<KtirOpParts> {
        let mut operands = Vec::new();
        // A terminator without operands may be followed by the next operation of the text, which
        // begins with `%` as well when it has results.
        if self.c.peek_char() == Some('%') && !self.is_definition_next() {
            operands = self.parse_one_or_more(Self::parse_value)?;
            self.expect_token(":")?;
            self.parse_agreeing_types(&operands)?;
        }
        Ok(KtirOpParts::new(operands, vec![]))
    }

    /// Whether the next tokens begin an operation with results: `%a =`, `%a, %b =` or `%a:2 =`.
    fn is_definition_next(&mut self) -> bool {
        let rest = &self.text[self.c.next_token_start()..];
        let names = |c: char| c.is_ascii_alphanumeric() || "_$.-%, \t#".contains(c);
        let tail = rest.trim_start_matches(names);
        tail.starts_with('=')
            || tail.strip_prefix(':').is_some_and(|t| {
                t.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('=')
            })
    }

    /// `%a, %b : T, U` in parentheses.
    pub(super) fn parse_typed_operands(&mut self) -> Result<Vec<KtirValue>> {
        self.expect_token("(")?;
        if self.eat_token(")") {
            return Ok(Vec::new());
        }
        let values = self.parse_one_or_more(Self::parse_value)?;
        self.expect_token(":")?;
        self.parse_agreeing_types(&values)?;
        self.expect_token(")")?;
        Ok(values)
    }

    fn parse_affine_apply(&mut self) -> Result<KtirOpParts> {
        let map = self.parse_map()?;
        self.expect_token("(")?;
        let mut operands = self.parse_list(")", Self::parse_value)?;
        let dims = operands.len();
        if self.eat_token("[") {
            operands.extend(self.parse_list("]", Self::parse_value)?);
        }
        let symbols = operands.len() - dims;
        if (map.value.dims(), map.value.symbols()) != (dims, symbols) {
            let message = format!(
                "the map takes {} dimensions and {} symbols, but {dims} and {symbols} are given",
                map.value.dims(),
                map.value.symbols()
            );
            return self.syntax_error(map.span, message, "another arity");
        }
        Ok(KtirOpParts::new(operands, vec![KtirType::INDEX])
            .with_attr("map", KtirAttr::Map(map.value)))
    }

    fn parse_call(&mut self) -> Result<KtirOpParts> {
        let name = self.parse_name_after('@', "a function, such as @helper")?.value.to_string();
        self.expect_token("(")?;
        let operands = self.parse_list(")", Self::parse_value)?;
        self.expect_token(":")?;
        self.expect_token("(")?;
        self.parse_agreeing_types(&operands)?;
        self.expect_token(")")?;
        self.expect_token("->")?;
        let results = self.parse_type_list()?;
        Ok(KtirOpParts::new(operands, results).with_attr("callee", KtirAttr::Word(name)))
    }

    fn parse_memref_load(&mut self) -> Result<KtirOpParts> {
        let view = self.parse_value()?;
        self.expect_token("[")?;
        let indices = self.parse_list("]", Self::parse_value)?;
        self.expect_token(":")?;
        let ty = self.parse_type()?;
        self.check_written_type(view, &ty)?;
        let Some(elem) = ty.value.elem() else {
            return self.syntax_error(ty.span, "a memref is needed here", "not a memref");
        };
        Ok(KtirOpParts::new([vec![view], indices].concat(), vec![KtirType::Scalar(elem)]))
    }

    fn parse_memref_store(&mut self) -> Result<KtirOpParts> {
        let values = self.parse_values(2)?;
        self.expect_token("[")?;
        let indices = self.parse_list("]", Self::parse_value)?;
        self.expect_token(":")?;
        let ty = self.parse_type()?;
        self.check_written_type(values[1], &ty)?;
        Ok(KtirOpParts::new([values, indices].concat(), vec![]))
    }
}
