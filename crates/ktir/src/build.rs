//! Building functions in code.
//!
//! A [`Builder`] adds operations one after the other; loops and regions are closures. Nothing is
//! refused on the way: [`Builder::finish`] verifies the whole function and names the operation that
//! breaks a rule.

mod ktdp;
mod tile;

pub use ktdp::Subscript;

use crate::affine::Map;
use crate::ir::{Attr, Block, Function, Literal, Op, Place, Value, ValueDef};
use crate::op::Kind;
use crate::types::{Elem, Type};
use crate::verify;
use std::collections::HashSet;
use zellige_notation::Diagnostic;

/// A function in the making.
///
/// ```
/// use zellige_ktir::{Builder, Elem, Kind, Module, Space, Type, text};
/// let mut b = Builder::new("scale", &[2]);
/// let x = b.arg("x_ptr", Type::INDEX);
/// let core = b.tile_id(1)[0];
/// let view = b.memory_view(x, &[2, 64], &[64, 1], Elem::F16, Space::Global);
/// let zero = b.index(0);
/// let tile = b.access_tile(view, &[core, zero], &[1, 64]);
/// let data = b.load(tile);
/// let two = b.float_tile(2.0, &[1, 64], Elem::F16);
/// let scaled = b.binary(Kind::MulF, data, two);
/// b.store(scaled, tile);
/// let module = Module::new(vec![b.finish()?]);
/// let text = text::print(&module);
/// assert!(text.contains("%mulf = arith.mulf %load, %cst : tensor<1x64xf16>"));
/// assert_eq!(text::parse(&text)?, module);
/// # Ok::<(), zellige_notation::Diagnostic>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    name: String,
    grid: Vec<i64>,
    args: Vec<Value>,
    results: Vec<Type>,
    values: Vec<ValueDef>,
    names: HashSet<String>,
    blocks: Vec<Vec<Op>>,
}

impl Builder {
    /// A function that the cores of a grid of up to three dimensions run; `&[]` is one core.
    pub fn new(name: &str, grid: &[i64]) -> Builder {
        Builder {
            name: clean(name),
            grid: grid.to_vec(),
            args: Vec::new(),
            results: Vec::new(),
            values: Vec::new(),
            names: HashSet::new(),
            blocks: vec![Vec::new()],
        }
    }

    /// One more argument.
    pub fn arg(&mut self, name: &str, ty: Type) -> Value {
        let value = self.value(name, ty);
        self.args.push(value);
        value
    }

    /// Gives a value a name of one's own, made different from others where it is taken.
    pub fn rename(&mut self, value: Value, name: &str) {
        let name = self.unique(name);
        self.values[value.index()].name = name;
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value.index()].ty
    }

    /// Ends the function, which returns nothing, and verifies it.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn finish(self) -> Result<Function, Diagnostic> {
        self.finish_with(&[])
    }

    /// Ends the function with what it returns, and verifies it.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn finish_with(mut self, returned: &[Value]) -> Result<Function, Diagnostic> {
        self.results = returned.iter().map(|v| self.ty(*v).clone()).collect();
        self.op(Kind::Return, returned, vec![], vec![], vec![], "");
        let ops = self.blocks.pop().unwrap_or_default();
        let function = Function {
            name: self.name,
            grid: self.grid,
            results: self.results,
            values: self.values,
            body: Block { args: self.args, ops },
            span: Place::default(),
        }
        .canonical();
        verify::function(&function)?;
        Ok(function)
    }

    fn unique(&mut self, stem: &str) -> String {
        let stem = clean(stem);
        let mut name = stem.clone();
        let mut n = 0;
        while !self.names.insert(name.clone()) {
            n += 1;
            name = format!("{stem}_{n}");
        }
        name
    }

    fn value(&mut self, stem: &str, ty: Type) -> Value {
        let name = self.unique(stem);
        let value = Value(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(ValueDef { name, ty });
        value
    }

    fn op(
        &mut self,
        kind: Kind,
        operands: &[Value],
        results: Vec<Type>,
        attrs: Vec<(&str, Attr)>,
        regions: Vec<Block>,
        stem: &str,
    ) -> Vec<Value> {
        let results: Vec<Value> = results.into_iter().map(|ty| self.value(stem, ty)).collect();
        let attrs = attrs.into_iter().map(|(n, a)| (n.to_string(), a)).collect();
        let op = Op {
            kind,
            operands: operands.to_vec(),
            results: results.clone(),
            attrs,
            regions,
            span: Place::default(),
        };
        if let Some(block) = self.blocks.last_mut() {
            block.push(op);
        }
        results
    }

    fn one(
        &mut self,
        kind: Kind,
        operands: &[Value],
        result: Type,
        attrs: Vec<(&str, Attr)>,
        stem: &str,
    ) -> Value {
        self.op(kind, operands, vec![result], attrs, vec![], stem)[0]
    }

    /// A block whose operations `f` adds, ending in `end` with what it gives.
    fn block(
        &mut self,
        args: Vec<Value>,
        end: Kind,
        f: impl FnOnce(&mut Builder) -> Vec<Value>,
    ) -> Block {
        self.blocks.push(Vec::new());
        let given = f(self);
        self.op(end, &given, vec![], vec![], vec![], "");
        Block { args, ops: self.blocks.pop().unwrap_or_default() }
    }

    /// A constant index.
    pub fn index(&mut self, value: i64) -> Value {
        self.int(value, Elem::Index)
    }

    /// A constant integer.
    pub fn int(&mut self, value: i64, elem: Elem) -> Value {
        let sign = if value < 0 { "m" } else { "" };
        let stem = format!("c{sign}{}", value.unsigned_abs());
        let attrs = vec![("value", Attr::Literal(Literal::Int(value)))];
        self.one(Kind::ArithConstant, &[], Type::Scalar(elem), attrs, &stem)
    }

    /// A constant float; infinities and NaNs become bit patterns.
    pub fn float(&mut self, value: f64, elem: Elem) -> Value {
        let attrs = vec![("value", Attr::Literal(literal(value, elem)))];
        self.one(Kind::ArithConstant, &[], Type::Scalar(elem), attrs, "cst")
    }

    /// A tile with one constant float everywhere.
    pub fn float_tile(&mut self, value: f64, shape: &[i64], elem: Elem) -> Value {
        let attrs = vec![("value", Attr::Dense(vec![literal(value, elem)]))];
        self.one(Kind::ArithConstant, &[], Type::tensor(shape, elem), attrs, "cst")
    }

    /// A constant tile of integers, in row-major order.
    pub fn int_tile(&mut self, values: &[i64], shape: &[i64], elem: Elem) -> Value {
        let list = values.iter().map(|n| Literal::Int(*n)).collect();
        let attrs = vec![("value", Attr::Dense(list))];
        self.one(Kind::ArithConstant, &[], Type::tensor(shape, elem), attrs, "cst")
    }

    /// An operation of one operand: `math.exp`, `arith.negf`.
    pub fn unary(&mut self, kind: Kind, a: Value) -> Value {
        self.pointwise(kind, &[a])
    }

    /// An operation of two operands: `arith.addf`, `arith.muli`.
    pub fn binary(&mut self, kind: Kind, a: Value, b: Value) -> Value {
        self.pointwise(kind, &[a, b])
    }

    /// An operation of operands of one type, which is also that of the result.
    pub fn pointwise(&mut self, kind: Kind, operands: &[Value]) -> Value {
        let ty = operands.first().map_or(Type::INDEX, |v| self.ty(*v).clone());
        self.one(kind, operands, ty, vec![], tail(kind))
    }

    /// `arith.cmpi` or `arith.cmpf`.
    pub fn compare(&mut self, kind: Kind, predicate: &str, a: Value, b: Value) -> Value {
        let ty = self.ty(a).with_elem(Elem::I1);
        let attrs = vec![("predicate", Attr::Word(predicate.into()))];
        self.one(kind, &[a, b], ty, attrs, "cmp")
    }

    /// `arith.select`.
    pub fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        let ty = self.ty(a).clone();
        self.one(Kind::ArithSelect, &[condition, a, b], ty, vec![], "select")
    }

    /// A cast to other elements: `arith.extf`, `arith.index_cast`.
    pub fn cast(&mut self, kind: Kind, a: Value, elem: Elem) -> Value {
        let ty = self.ty(a).with_elem(elem);
        self.one(kind, &[a], ty, vec![], tail(kind))
    }

    /// `affine.apply` of a map with one result.
    pub fn apply(&mut self, map: Map, operands: &[Value]) -> Value {
        self.one(Kind::AffineApply, operands, Type::INDEX, vec![("map", Attr::Map(map))], "apply")
    }

    /// `func.call`.
    pub fn call(&mut self, callee: &str, operands: &[Value], results: &[Type]) -> Vec<Value> {
        let attrs = vec![("callee", Attr::Word(clean(callee)))];
        self.op(Kind::Call, operands, results.to_vec(), attrs, vec![], "call")
    }

    /// `scf.for`: `f` gets the counter and what is carried, and gives what is carried on.
    pub fn for_loop(
        &mut self,
        (from, to, step): (Value, Value, Value),
        carried: &[Value],
        f: impl FnOnce(&mut Builder, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<Type> = carried.iter().map(|v| self.ty(*v).clone()).collect();
        let counter = self.ty(from).clone();
        let iv = self.value("i", counter);
        let inner: Vec<Value> = types.iter().map(|t| self.value("iter", t.clone())).collect();
        let args = [vec![iv], inner.clone()].concat();
        let block = self.block(args, Kind::ScfYield, |b| f(b, iv, &inner));
        let operands = [vec![from, to, step], carried.to_vec()].concat();
        self.op(Kind::For, &operands, types, vec![], vec![block], "for")
    }

    /// `scf.if` that gives nothing.
    pub fn if_then(&mut self, condition: Value, f: impl FnOnce(&mut Builder)) {
        let block = self.block(vec![], Kind::ScfYield, |b| {
            f(b);
            Vec::new()
        });
        self.op(Kind::If, &[condition], vec![], vec![], vec![block], "");
    }

    /// `scf.if` with both branches, which give values of the same types.
    pub fn if_else(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut Builder) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Builder) -> Vec<Value>,
    ) -> Vec<Value> {
        let a = self.block(vec![], Kind::ScfYield, then);
        let b = self.block(vec![], Kind::ScfYield, otherwise);
        let given = a.ops.last().map_or(&[][..], |end| end.operands());
        let types = given.iter().map(|v| self.ty(*v).clone()).collect();
        self.op(Kind::If, &[condition], types, vec![], vec![a, b], "if")
    }
}

/// What a name may hold.
fn clean(name: &str) -> String {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let out: String = name.chars().map(|c| if ok(c) { c } else { '_' }).collect();
    if out.is_empty() { "v".into() } else { out }
}

fn tail(kind: Kind) -> &'static str {
    kind.name().rsplit_once('.').map_or(kind.name(), |(_, t)| t)
}

fn literal(value: f64, elem: Elem) -> Literal {
    Literal::float(value).unwrap_or_else(|| Literal::Bits(crate::number::bits_of(value, elem)))
}
