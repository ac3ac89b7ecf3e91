//! Reading what follows the name of an operation, form by form.

use super::parser::{Parser, Parts, Result};
use crate::ir::{Attr, Value};
use crate::op::{Form, Kind};
use crate::types::{Elem, Type};

/// Flags that may follow the operands: `fastmath<fast>`.
const FLAGS: [&str; 3] = ["fastmath", "overflow", "exact"];

impl Parser<'_> {
    pub(super) fn parts(&mut self, kind: Kind) -> Result<Parts> {
        match kind.form() {
            Form::Same(n) => self.same(n),
            Form::Compare => self.compare(),
            Form::Select => self.select(),
            Form::Cast => self.cast(),
            Form::Constant => self.constant(),
            Form::Structured(n) => self.structured(n),
            Form::Yield => self.yields(),
            Form::Own => self.own(kind),
        }
    }

    fn own(&mut self, kind: Kind) -> Result<Parts> {
        match kind {
            Kind::TileId => self.tile_id(),
            Kind::MemoryView => self.memory_view(),
            Kind::DistributedView => self.distributed_view(),
            Kind::AccessTile => self.access(),
            Kind::IndirectTile => self.indirect(),
            Kind::Load => self.load(),
            Kind::Store => self.store(),
            Kind::Produce => self.produce(),
            k if k.is_delivery() => self.delivery(k),
            Kind::Generic => self.generic(),
            Kind::Reduce => self.reduce(),
            Kind::Broadcast => self.rearranged("dimensions"),
            Kind::Transpose => self.rearranged("permutation"),
            Kind::LinalgMap => self.linalg_map(),
            Kind::LinalgIndex => self.linalg_index(),
            Kind::For => self.scf_for(),
            Kind::If => self.scf_if(),
            Kind::While => self.scf_while(),
            Kind::Condition => self.scf_condition(),
            Kind::Parallel => self.scf_parallel(),
            Kind::AffineApply => self.affine_apply(),
            Kind::Call => self.call(),
            Kind::MemRefLoad => self.memref_load(),
            Kind::MemRefStore => self.memref_store(),
            _ => self.tensor_op(kind),
        }
    }

    /// Operands between commas.
    pub(super) fn values(&mut self, n: usize) -> Result<Vec<Value>> {
        let mut out = Vec::with_capacity(n);
        for i in 0..n {
            if i > 0 {
                self.expect(",")?;
            }
            out.push(self.value()?);
        }
        Ok(out)
    }

    fn flags(&mut self) -> Result<Vec<(String, Attr)>> {
        let mut out = Vec::new();
        for flag in FLAGS {
            if self.eat_word(flag) {
                let at = self.c.next_token_start();
                let len = if self.sees("<") { 1 + self.balanced(at + 1, &['>']) + 1 } else { 0 };
                let text = self.text.get(at..at + len).unwrap_or_default();
                out.push((flag.to_string(), Attr::Raw(text.into())));
                self.c.skip_to_place(at + len);
            }
        }
        out.extend(self.dict()?);
        Ok(out)
    }

    fn same(&mut self, n: usize) -> Result<Parts> {
        let operands = self.values(n)?;
        let attrs = self.flags()?;
        self.expect(":")?;
        let ty = self.ty()?;
        operands.iter().try_for_each(|v| self.agree(*v, &ty))?;
        Ok(Parts::new(operands, vec![ty.value]).attrs(attrs))
    }

    fn compare(&mut self) -> Result<Parts> {
        let Some(predicate) = self.c.read_word() else {
            return Err(self.c.refuse_next_token("a comparison, such as slt or olt"));
        };
        self.expect(",")?;
        let operands = self.values(2)?;
        let attrs = self.flags()?;
        self.expect(":")?;
        let ty = self.ty()?;
        operands.iter().try_for_each(|v| self.agree(*v, &ty))?;
        let result = ty.value.with_elem(Elem::I1);
        Ok(Parts::new(operands, vec![result])
            .attr("predicate", Attr::Word(predicate.value.into()))
            .attrs(attrs))
    }

    fn select(&mut self) -> Result<Parts> {
        let operands = self.values(3)?;
        let attrs = self.dict()?;
        self.expect(":")?;
        let mut ty = self.ty()?;
        if self.eat(",") {
            self.agree(operands[0], &ty)?;
            ty = self.ty()?;
        }
        operands[1..].iter().try_for_each(|v| self.agree(*v, &ty))?;
        Ok(Parts::new(operands, vec![ty.value]).attrs(attrs))
    }

    fn cast(&mut self) -> Result<Parts> {
        let operand = self.value()?;
        let attrs = self.flags()?;
        self.expect(":")?;
        let from = self.ty()?;
        self.agree(operand, &from)?;
        self.expect_word("to")?;
        let to = self.ty()?.value;
        Ok(Parts::new(vec![operand], vec![to]).attrs(attrs))
    }

    fn yields(&mut self) -> Result<Parts> {
        let mut operands = Vec::new();
        if self.c.peek_char() == Some('%') && !self.defines_next() {
            operands = self.some(Self::value)?;
            self.expect(":")?;
            self.agree_all(&operands)?;
        }
        Ok(Parts::new(operands, vec![]))
    }

    /// Whether what follows begins an operation with results: `%a =`, `%a, %b =` or `%a:2 =`.
    fn defines_next(&mut self) -> bool {
        let rest = &self.text[self.c.next_token_start()..];
        let names = |c: char| c.is_ascii_alphanumeric() || "_$.-%, \t#".contains(c);
        let tail = rest.trim_start_matches(names);
        tail.starts_with('=')
            || tail.strip_prefix(':').is_some_and(|t| {
                t.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('=')
            })
    }

    /// `%a, %b : T, U` in parentheses.
    pub(super) fn typed_operands(&mut self) -> Result<Vec<Value>> {
        self.expect("(")?;
        if self.eat(")") {
            return Ok(Vec::new());
        }
        let values = self.some(Self::value)?;
        self.expect(":")?;
        self.agree_all(&values)?;
        self.expect(")")?;
        Ok(values)
    }

    fn affine_apply(&mut self) -> Result<Parts> {
        let map = self.map()?;
        self.expect("(")?;
        let mut operands = self.list(")", Self::value)?;
        let dims = operands.len();
        if self.eat("[") {
            operands.extend(self.list("]", Self::value)?);
        }
        let symbols = operands.len() - dims;
        if (map.value.dims(), map.value.symbols()) != (dims, symbols) {
            let message = format!(
                "the map takes {} dimensions and {} symbols, but {dims} and {symbols} are given",
                map.value.dims(),
                map.value.symbols()
            );
            return self.syntax(map.span, message, "another arity");
        }
        Ok(Parts::new(operands, vec![Type::INDEX]).attr("map", Attr::Map(map.value)))
    }

    fn call(&mut self) -> Result<Parts> {
        let name = self.name_after('@', "a function, such as @helper")?.value.to_string();
        self.expect("(")?;
        let operands = self.list(")", Self::value)?;
        self.expect(":")?;
        self.expect("(")?;
        self.agree_all(&operands)?;
        self.expect(")")?;
        self.expect("->")?;
        let results = self.type_list()?;
        Ok(Parts::new(operands, results).attr("callee", Attr::Word(name)))
    }

    fn memref_load(&mut self) -> Result<Parts> {
        let view = self.value()?;
        self.expect("[")?;
        let indices = self.list("]", Self::value)?;
        self.expect(":")?;
        let ty = self.ty()?;
        self.agree(view, &ty)?;
        let Some(elem) = ty.value.elem() else {
            return self.syntax(ty.span, "a memref is needed here", "not a memref");
        };
        Ok(Parts::new([vec![view], indices].concat(), vec![Type::Scalar(elem)]))
    }

    fn memref_store(&mut self) -> Result<Parts> {
        let values = self.values(2)?;
        self.expect("[")?;
        let indices = self.list("]", Self::value)?;
        self.expect(":")?;
        let ty = self.ty()?;
        self.agree(values[1], &ty)?;
        Ok(Parts::new([values, indices].concat(), vec![]))
    }
}
