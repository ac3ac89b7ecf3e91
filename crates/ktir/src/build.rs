//! Building functions in code.
//!
//! A [`KtirBuilder`] appends operations one after the other; loops and regions are closures.
//! Nothing is checked meanwhile: [`KtirBuilder::finish_function`] verifies the whole function and
//! names the operation that breaks a rule.

mod ktdp;
mod tile;

pub use ktdp::KtirSubscript;

use crate::affine::KtirAffineMap;
use crate::ir::{
    KtirAttr, KtirBlock, KtirFunction, KtirLiteral, KtirOp, KtirSourceSpan, KtirValue, KtirValueDef,
};
use crate::op::KtirOpKind;
use crate::types::{KtirElem, KtirType};
use crate::verify;
use std::collections::HashSet;
use zellige_notation::Diagnostic;

/// A function under construction.
///
/// ```
/// use zellige_ktir::{
///     KtirBuilder, KtirElem, KtirMemorySpace, KtirModule, KtirOpKind, KtirType, text,
/// };
/// let mut b = KtirBuilder::new("scale", &[2]);
/// let x = b.add_argument("x_ptr", KtirType::INDEX);
/// let core = b.tile_id(1)[0];
/// let view = b.memory_view(x, &[2, 64], &[64, 1], KtirElem::F16, KtirMemorySpace::Global);
/// let zero = b.index_constant(0);
/// let tile = b.access_tile(view, &[core, zero], &[1, 64]);
/// let data = b.load_tile(tile);
/// let two = b.float_tile(2.0, &[1, 64], KtirElem::F16);
/// let scaled = b.binary_op(KtirOpKind::MulF, data, two);
/// b.store_tile(scaled, tile);
/// let module = KtirModule::new(vec![b.finish_function()?]);
/// let text = text::print_module(&module);
/// assert!(text.contains("%mulf = arith.mulf %load, %cst : tensor<1x64xf16>"));
/// assert_eq!(text::parse(&text)?, module);
/// # Ok::<(), zellige_notation::Diagnostic>(())
/// ```
#[derive(Debug)]
pub struct KtirBuilder {
    name: String,
    grid: Vec<i64>,
    args: Vec<KtirValue>,
    results: Vec<KtirType>,
    values: Vec<KtirValueDef>,
    // A set beside the table of values, because looking for a free name happens for every value.
    names: HashSet<String>,
    blocks: Vec<Vec<KtirOp>>,
}

impl KtirBuilder {
    /// A function that the cores of a grid of up to three dimensions run; `&[]` is one core.
    pub fn new(name: &str, grid: &[i64]) -> KtirBuilder {
        KtirBuilder {
            name: sanitize_name(name),
            grid: grid.to_vec(),
            args: Vec::new(),
            results: Vec::new(),
            values: Vec::new(),
            names: HashSet::new(),
            blocks: vec![Vec::new()],
        }
    }

    /// Adds an argument.
    pub fn add_argument(&mut self, name: &str, ty: KtirType) -> KtirValue {
        let value = self.add_value(name, ty);
        self.args.push(value);
        value
    }

    /// Renames a value; a number is appended where another value has the name.
    pub fn rename_value(&mut self, value: KtirValue, name: &str) {
        let name = self.unique_name(name);
        self.values[value.index()].name = name;
    }

    /// The type of a value.
    pub fn value_type(&self, value: KtirValue) -> &KtirType {
        &self.values[value.index()].ty
    }

    /// Ends the function, which returns nothing, and verifies it.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn finish_function(self) -> Result<KtirFunction, Diagnostic> {
        self.finish_returning(&[])
    }

    /// Ends the function with what it returns, and verifies it.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn finish_returning(mut self, returned: &[KtirValue]) -> Result<KtirFunction, Diagnostic> {
        self.results = returned.iter().map(|v| self.value_type(*v).clone()).collect();
        self.add_op(KtirOpKind::Return, returned, vec![], vec![], vec![], "");
        let ops = self.blocks.pop().unwrap_or_default();
        let function = KtirFunction {
            name: self.name,
            grid: self.grid,
            results: self.results,
            values: self.values,
            body: KtirBlock { args: self.args, ops },
            span: KtirSourceSpan::default(),
        }
        // Closures make the values of a region before those of the operation around it; renumbering
        // gives the order in which the printed text defines them, so that reading it back gives an
        // equal function.
        .renumber_canonically();
        verify::verify_function(&function)?;
        Ok(function)
    }

    fn unique_name(&mut self, stem: &str) -> String {
        // The printed text has to be readable again, and MLIR's value names allow few characters.
        let stem = sanitize_name(stem);
        let mut name = stem.clone();
        let mut n = 0;
        while !self.names.insert(name.clone()) {
            n += 1;
            name = format!("{stem}_{n}");
        }
        name
    }

    fn add_value(&mut self, stem: &str, ty: KtirType) -> KtirValue {
        let name = self.unique_name(stem);
        let value = KtirValue(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(KtirValueDef { name, ty });
        value
    }

    fn add_op(
        &mut self,
        kind: KtirOpKind,
        operands: &[KtirValue],
        results: Vec<KtirType>,
        attrs: Vec<(&str, KtirAttr)>,
        regions: Vec<KtirBlock>,
        stem: &str,
    ) -> Vec<KtirValue> {
        let results: Vec<KtirValue> =
            results.into_iter().map(|ty| self.add_value(stem, ty)).collect();
        let attrs = attrs.into_iter().map(|(n, a)| (n.to_string(), a)).collect();
        let op = KtirOp {
            kind,
            operands: operands.to_vec(),
            results: results.clone(),
            attrs,
            regions,
            span: KtirSourceSpan::default(),
        };
        // The innermost open block: a closure that is building a region has pushed its own.
        if let Some(block) = self.blocks.last_mut() {
            block.push(op);
        }
        results
    }

    fn add_single_result_op(
        &mut self,
        kind: KtirOpKind,
        operands: &[KtirValue],
        result: KtirType,
        attrs: Vec<(&str, KtirAttr)>,
        stem: &str,
    ) -> KtirValue {
        self.add_op(kind, operands, vec![result], attrs, vec![], stem)[0]
    }

    /// Builds a block whose operations `f` adds; the terminator `end` gets the values that `f`
    /// returns.
    fn build_block(
        &mut self,
        args: Vec<KtirValue>,
        end: KtirOpKind,
        f: impl FnOnce(&mut KtirBuilder) -> Vec<KtirValue>,
    ) -> KtirBlock {
        self.blocks.push(Vec::new());
        let given = f(self);
        self.add_op(end, &given, vec![], vec![], vec![], "");
        KtirBlock { args, ops: self.blocks.pop().unwrap_or_default() }
    }

    /// A constant index.
    pub fn index_constant(&mut self, value: i64) -> KtirValue {
        self.int_constant(value, KtirElem::Index)
    }

    /// A constant integer.
    pub fn int_constant(&mut self, value: i64, elem: KtirElem) -> KtirValue {
        // MLIR's own printer names constants `%c64` and `%c-1`; a letter replaces the dash, which
        // this builder does not allow in a name.
        let sign = if value < 0 { "m" } else { "" };
        let stem = format!("c{sign}{}", value.unsigned_abs());
        let attrs = vec![("value", KtirAttr::Literal(KtirLiteral::Int(value)))];
        self.add_single_result_op(
            KtirOpKind::ArithConstant,
            &[],
            KtirType::Scalar(elem),
            attrs,
            &stem,
        )
    }

    /// A constant float; infinities and NaNs are written as bit patterns.
    pub fn float_constant(&mut self, value: f64, elem: KtirElem) -> KtirValue {
        let attrs = vec![("value", KtirAttr::Literal(float_literal(value, elem)))];
        self.add_single_result_op(
            KtirOpKind::ArithConstant,
            &[],
            KtirType::Scalar(elem),
            attrs,
            "cst",
        )
    }

    /// A tile with one constant float everywhere.
    pub fn float_tile(&mut self, value: f64, shape: &[i64], elem: KtirElem) -> KtirValue {
        let attrs = vec![("value", KtirAttr::Dense(vec![float_literal(value, elem)]))];
        self.add_single_result_op(
            KtirOpKind::ArithConstant,
            &[],
            KtirType::tensor(shape, elem),
            attrs,
            "cst",
        )
    }

    /// A constant tile of integers, in row-major order.
    pub fn int_tile(&mut self, values: &[i64], shape: &[i64], elem: KtirElem) -> KtirValue {
        let list = values.iter().map(|n| KtirLiteral::Int(*n)).collect();
        let attrs = vec![("value", KtirAttr::Dense(list))];
        self.add_single_result_op(
            KtirOpKind::ArithConstant,
            &[],
            KtirType::tensor(shape, elem),
            attrs,
            "cst",
        )
    }

    /// An operation of one operand: `math.exp`, `arith.negf`.
    pub fn unary_op(&mut self, kind: KtirOpKind, a: KtirValue) -> KtirValue {
        self.pointwise_op(kind, &[a])
    }

    /// An operation of two operands: `arith.addf`, `arith.muli`.
    pub fn binary_op(&mut self, kind: KtirOpKind, a: KtirValue, b: KtirValue) -> KtirValue {
        self.pointwise_op(kind, &[a, b])
    }

    /// An operation of operands of one type, which is also that of the result.
    pub fn pointwise_op(&mut self, kind: KtirOpKind, operands: &[KtirValue]) -> KtirValue {
        // Any type does for an operation without operands, because the verifier refuses it by its
        // counts.
        let ty = operands.first().map_or(KtirType::INDEX, |v| self.value_type(*v).clone());
        self.add_single_result_op(kind, operands, ty, vec![], op_name_tail(kind))
    }

    /// `arith.cmpi` or `arith.cmpf`.
    pub fn compare_values(
        &mut self,
        kind: KtirOpKind,
        predicate: &str,
        a: KtirValue,
        b: KtirValue,
    ) -> KtirValue {
        let ty = self.value_type(a).with_elem(KtirElem::I1);
        let attrs = vec![("predicate", KtirAttr::Word(predicate.into()))];
        self.add_single_result_op(kind, &[a, b], ty, attrs, "cmp")
    }

    /// `arith.select`.
    pub fn select_values(&mut self, condition: KtirValue, a: KtirValue, b: KtirValue) -> KtirValue {
        let ty = self.value_type(a).clone();
        self.add_single_result_op(KtirOpKind::ArithSelect, &[condition, a, b], ty, vec![], "select")
    }

    /// A cast to other elements: `arith.extf`, `arith.index_cast`.
    pub fn cast_elements(&mut self, kind: KtirOpKind, a: KtirValue, elem: KtirElem) -> KtirValue {
        let ty = self.value_type(a).with_elem(elem);
        self.add_single_result_op(kind, &[a], ty, vec![], op_name_tail(kind))
    }

    /// `affine.apply` of a map with one result.
    pub fn apply_map(&mut self, map: KtirAffineMap, operands: &[KtirValue]) -> KtirValue {
        self.add_single_result_op(
            KtirOpKind::AffineApply,
            operands,
            KtirType::INDEX,
            vec![("map", KtirAttr::Map(map))],
            "apply",
        )
    }

    /// `func.call`.
    pub fn call_function(
        &mut self,
        callee: &str,
        operands: &[KtirValue],
        results: &[KtirType],
    ) -> Vec<KtirValue> {
        let attrs = vec![("callee", KtirAttr::Word(sanitize_name(callee)))];
        self.add_op(KtirOpKind::Call, operands, results.to_vec(), attrs, vec![], "call")
    }

    /// `scf.for`: `f` gets the counter and the carried values, and returns their values for the
    /// next iteration.
    pub fn for_loop(
        &mut self,
        (from, to, step): (KtirValue, KtirValue, KtirValue),
        carried: &[KtirValue],
        f: impl FnOnce(&mut KtirBuilder, KtirValue, &[KtirValue]) -> Vec<KtirValue>,
    ) -> Vec<KtirValue> {
        let types: Vec<KtirType> = carried.iter().map(|v| self.value_type(*v).clone()).collect();
        let counter = self.value_type(from).clone();
        // The counter and the carried values are made before the closure runs, because it uses
        // them.
        let iv = self.add_value("i", counter);
        let inner: Vec<KtirValue> =
            types.iter().map(|t| self.add_value("iter", t.clone())).collect();
        let args = [vec![iv], inner.clone()].concat();
        let block = self.build_block(args, KtirOpKind::ScfYield, |b| f(b, iv, &inner));
        let operands = [vec![from, to, step], carried.to_vec()].concat();
        self.add_op(KtirOpKind::For, &operands, types, vec![], vec![block], "for")
    }

    /// `scf.if` without results.
    pub fn if_then(&mut self, condition: KtirValue, f: impl FnOnce(&mut KtirBuilder)) {
        let block = self.build_block(vec![], KtirOpKind::ScfYield, |b| {
            f(b);
            Vec::new()
        });
        self.add_op(KtirOpKind::If, &[condition], vec![], vec![], vec![block], "");
    }

    /// `scf.if` with two branches that yield values of the same types.
    pub fn if_else(
        &mut self,
        condition: KtirValue,
        then: impl FnOnce(&mut KtirBuilder) -> Vec<KtirValue>,
        otherwise: impl FnOnce(&mut KtirBuilder) -> Vec<KtirValue>,
    ) -> Vec<KtirValue> {
        let a = self.build_block(vec![], KtirOpKind::ScfYield, then);
        let b = self.build_block(vec![], KtirOpKind::ScfYield, otherwise);
        // The first branch decides the types; the verifier compares those of the second.
        let given = a.ops.last().map_or(&[][..], |end| end.operands());
        let types = given.iter().map(|v| self.value_type(*v).clone()).collect();
        self.add_op(KtirOpKind::If, &[condition], types, vec![], vec![a, b], "if")
    }
}

/// Replaces the characters that a name may not contain.
fn sanitize_name(name: &str) -> String {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let out: String = name.chars().map(|c| if ok(c) { c } else { '_' }).collect();
    if out.is_empty() { "v".into() } else { out }
}

fn op_name_tail(kind: KtirOpKind) -> &'static str {
    kind.name().rsplit_once('.').map_or(kind.name(), |(_, t)| t)
}

fn float_literal(value: f64, elem: KtirElem) -> KtirLiteral {
    // Infinities and NaNs can only be written as bits, and those depend on the element type.
    KtirLiteral::from_finite_float(value)
        .unwrap_or_else(|| KtirLiteral::Bits(crate::number::encode_bits(value, elem)))
}
