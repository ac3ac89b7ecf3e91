//! Reading the operations of tensor.

use super::parser::{Parser, Parts, Result};
use crate::ir::{Attr, Value};
use crate::op::Kind;
use crate::types::Type;

type Attrs = Vec<(String, Attr)>;

impl Parser<'_> {
    pub(super) fn tensor_op(&mut self, kind: Kind) -> Result<Parts> {
        match kind {
            Kind::TensorEmpty => {
                self.expect("(")?;
                self.expect(")")?;
                self.expect(":")?;
                Ok(Parts::new(vec![], vec![self.ty()?.value]))
            }
            Kind::Splat => {
                let value = self.value()?;
                self.expect(":")?;
                Ok(Parts::new(vec![value], vec![self.ty()?.value]))
            }
            Kind::FromElements => {
                let values = if self.sees(":") { Vec::new() } else { self.some(Self::value)? };
                self.expect(":")?;
                Ok(Parts::new(values, vec![self.ty()?.value]))
            }
            Kind::Extract => self.extract(),
            Kind::ExtractSlice => {
                let tile = self.value()?;
                let (operands, attrs) = self.slice(vec![tile])?;
                self.between(tile, "to", operands, attrs)
            }
            Kind::InsertSlice => {
                let source = self.value()?;
                self.expect_word("into")?;
                let target = self.value()?;
                let (operands, attrs) = self.slice(vec![source, target])?;
                self.between(source, "into", operands, attrs)
            }
            Kind::ExpandShape | Kind::CollapseShape => self.reassociated(kind),
            Kind::Reshape => {
                let tile = self.value()?;
                self.expect("(")?;
                let shape = self.value()?;
                self.expect(")")?;
                self.expect(":")?;
                self.expect("(")?;
                self.agree_all(&[tile, shape])?;
                self.expect(")")?;
                self.expect("->")?;
                Ok(Parts::new(vec![tile, shape], vec![self.ty()?.value]))
            }
            Kind::Generate => {
                let region = self.region(&[], None)?;
                self.expect(":")?;
                let ty = self.ty()?.value;
                Ok(Parts::new(vec![], vec![ty]).region(region))
            }
            Kind::Pad => self.pad(),
            Kind::Concat => {
                self.expect_word("dim")?;
                self.expect("(")?;
                let dim = self.c.read_integer("a dimension")?.value;
                self.expect(")")?;
                let values = self.some(Self::value)?;
                self.expect(":")?;
                self.expect("(")?;
                self.agree_all(&values)?;
                self.expect(")")?;
                self.expect("->")?;
                let ty = self.ty()?.value;
                Ok(Parts::new(values, vec![ty]).attr("dim", Attr::Int(dim)))
            }
            _ => {
                let values = self.values(2)?;
                self.expect(":")?;
                let ty = self.ty()?;
                self.agree(values[0], &ty)?;
                Ok(Parts::new(values, vec![Type::INDEX]))
            }
        }
    }

    fn extract(&mut self) -> Result<Parts> {
        let tile = self.value()?;
        self.expect("[")?;
        let indices = self.list("]", Self::value)?;
        self.expect(":")?;
        let ty = self.ty()?;
        self.agree(tile, &ty)?;
        let Type::Tensor(_, elem) = ty.value else {
            return self.syntax(ty.span, "a tensor is needed here", "not a tensor");
        };
        Ok(Parts::new([vec![tile], indices].concat(), vec![Type::Scalar(elem)]))
    }

    /// `[offsets] [sizes] [strides]`.
    fn slice(&mut self, mut operands: Vec<Value>) -> Result<(Vec<Value>, Attrs)> {
        let mut attrs = Vec::new();
        for key in ["offsets", "sizes", "strides"] {
            let (list, values) = self.mixed()?;
            operands.extend(values);
            attrs.push((key.to_string(), Attr::Ints(list)));
        }
        Ok((operands, attrs))
    }

    /// `: T to U`.
    fn between(
        &mut self,
        of: Value,
        word: &str,
        operands: Vec<Value>,
        attrs: Attrs,
    ) -> Result<Parts> {
        self.expect(":")?;
        let from = self.ty()?;
        self.agree(of, &from)?;
        self.expect_word(word)?;
        let ty = self.ty()?.value;
        Ok(Parts::new(operands, vec![ty]).attrs(attrs))
    }

    fn reassociated(&mut self, kind: Kind) -> Result<Parts> {
        let tile = self.value()?;
        self.expect("[")?;
        let groups = self.list("]", |p| p.ints("a dimension"))?;
        if kind == Kind::ExpandShape && self.eat_word("output_shape") {
            // The type says it too.
            self.ints("a size")?;
        }
        let attrs = vec![("reassociation".to_string(), Attr::Groups(groups))];
        self.between(tile, "into", vec![tile], attrs)
    }

    fn pad(&mut self) -> Result<Parts> {
        let tile = self.value()?;
        self.expect_word("low")?;
        let low = self.ints("a number of elements")?;
        self.expect_word("high")?;
        let high = self.ints("a number of elements")?;
        let region = self.region(&[], None)?;
        let attrs = vec![("low".into(), Attr::Ints(low)), ("high".into(), Attr::Ints(high))];
        Ok(self.between(tile, "to", vec![tile], attrs)?.region(region))
    }
}
