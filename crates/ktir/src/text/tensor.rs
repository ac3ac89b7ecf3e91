//! Reads the operations of the dialect tensor.

use super::parser::{KtirOpParts, KtirParser, Result};
use crate::ir::{KtirAttr, KtirValue};
use crate::op::KtirOpKind;
use crate::types::KtirType;

type KtirAttrs = Vec<(String, KtirAttr)>;

impl KtirParser<'_> {
    pub(super) fn parse_tensor_op(&mut self, kind: KtirOpKind) -> Result<KtirOpParts> {
        match kind {
            KtirOpKind::TensorEmpty => {
                self.expect_token("(")?;
                self.expect_token(")")?;
                self.expect_token(":")?;
                Ok(KtirOpParts::new(vec![], vec![self.parse_type()?.value]))
            }
            KtirOpKind::Splat => {
                let value = self.parse_value()?;
                self.expect_token(":")?;
                Ok(KtirOpParts::new(vec![value], vec![self.parse_type()?.value]))
            }
            KtirOpKind::FromElements => {
                let values = if self.is_next(":") {
                    Vec::new()
                } else {
                    self.parse_one_or_more(Self::parse_value)?
                };
                self.expect_token(":")?;
                Ok(KtirOpParts::new(values, vec![self.parse_type()?.value]))
            }
            KtirOpKind::Extract => self.parse_extract(),
            KtirOpKind::ExtractSlice => {
                let tile = self.parse_value()?;
                let (operands, attrs) = self.parse_slice(vec![tile])?;
                self.parse_from_to_types(tile, "to", operands, attrs)
            }
            KtirOpKind::InsertSlice => {
                let source = self.parse_value()?;
                self.expect_word("into")?;
                let target = self.parse_value()?;
                let (operands, attrs) = self.parse_slice(vec![source, target])?;
                self.parse_from_to_types(source, "into", operands, attrs)
            }
            KtirOpKind::ExpandShape | KtirOpKind::CollapseShape => self.parse_reassociated(kind),
            KtirOpKind::Reshape => {
                let tile = self.parse_value()?;
                self.expect_token("(")?;
                let shape = self.parse_value()?;
                self.expect_token(")")?;
                self.expect_token(":")?;
                self.expect_token("(")?;
                self.parse_agreeing_types(&[tile, shape])?;
                self.expect_token(")")?;
                self.expect_token("->")?;
                Ok(KtirOpParts::new(vec![tile, shape], vec![self.parse_type()?.value]))
            }
            KtirOpKind::Generate => {
                let region = self.parse_region(&[], None)?;
                self.expect_token(":")?;
                let ty = self.parse_type()?.value;
                Ok(KtirOpParts::new(vec![], vec![ty]).with_region(region))
            }
            KtirOpKind::Pad => self.parse_pad(),
            KtirOpKind::Concat => {
                self.expect_word("dim")?;
                self.expect_token("(")?;
                let dim = self.c.read_integer("a dimension")?.value;
                self.expect_token(")")?;
                let values = self.parse_one_or_more(Self::parse_value)?;
                self.expect_token(":")?;
                self.expect_token("(")?;
                self.parse_agreeing_types(&values)?;
                self.expect_token(")")?;
                self.expect_token("->")?;
                let ty = self.parse_type()?.value;
                Ok(KtirOpParts::new(values, vec![ty]).with_attr("dim", KtirAttr::Int(dim)))
            }
            _ => {
                let values = self.parse_values(2)?;
                self.expect_token(":")?;
                let ty = self.parse_type()?;
                self.check_written_type(values[0], &ty)?;
                Ok(KtirOpParts::new(values, vec![KtirType::INDEX]))
            }
        }
    }

    fn parse_extract(&mut self) -> Result<KtirOpParts> {
        let tile = self.parse_value()?;
        self.expect_token("[")?;
        let indices = self.parse_list("]", Self::parse_value)?;
        self.expect_token(":")?;
        let ty = self.parse_type()?;
        self.check_written_type(tile, &ty)?;
        let KtirType::Tensor(_, elem) = ty.value else {
            return self.syntax_error(ty.span, "a tensor is needed here", "not a tensor");
        };
        Ok(KtirOpParts::new([vec![tile], indices].concat(), vec![KtirType::Scalar(elem)]))
    }

    /// `[offsets] [sizes] [strides]`.
    fn parse_slice(&mut self, mut operands: Vec<KtirValue>) -> Result<(Vec<KtirValue>, KtirAttrs)> {
        let mut attrs = Vec::new();
        for key in ["offsets", "sizes", "strides"] {
            let (list, values) = self.parse_mixed_list()?;
            operands.extend(values);
            attrs.push((key.to_string(), KtirAttr::Ints(list)));
        }
        Ok((operands, attrs))
    }

    /// `: T to U`.
    fn parse_from_to_types(
        &mut self,
        of: KtirValue,
        word: &str,
        operands: Vec<KtirValue>,
        attrs: KtirAttrs,
    ) -> Result<KtirOpParts> {
        self.expect_token(":")?;
        let from = self.parse_type()?;
        self.check_written_type(of, &from)?;
        self.expect_word(word)?;
        let ty = self.parse_type()?.value;
        Ok(KtirOpParts::new(operands, vec![ty]).with_attrs(attrs))
    }

    fn parse_reassociated(&mut self, kind: KtirOpKind) -> Result<KtirOpParts> {
        let tile = self.parse_value()?;
        self.expect_token("[")?;
        let groups = self.parse_list("]", |p| p.parse_ints("a dimension"))?;
        if kind == KtirOpKind::ExpandShape && self.eat_word("output_shape") {
            // The result type repeats these sizes.
            self.parse_ints("a size")?;
        }
        let attrs = vec![("reassociation".to_string(), KtirAttr::Groups(groups))];
        self.parse_from_to_types(tile, "into", vec![tile], attrs)
    }

    fn parse_pad(&mut self) -> Result<KtirOpParts> {
        let tile = self.parse_value()?;
        self.expect_word("low")?;
        let low = self.parse_ints("a number of elements")?;
        self.expect_word("high")?;
        let high = self.parse_ints("a number of elements")?;
        let region = self.parse_region(&[], None)?;
        let attrs =
            vec![("low".into(), KtirAttr::Ints(low)), ("high".into(), KtirAttr::Ints(high))];
        Ok(self.parse_from_to_types(tile, "to", vec![tile], attrs)?.with_region(region))
    }
}
