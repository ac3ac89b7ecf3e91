//! The intermediate representation: modules, functions, operations.
//!
//! Every value of a function has an index in its table of values, with a name and a type. Operations
//! nest in blocks, one per region. Spans are where an operation was read from and never matter for
//! equality.

use crate::affine::{Map, Set};
use crate::op::Kind;
use crate::types::Type;
use std::ops::Range;

/// A text: named sets and maps, then functions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Names for sets and maps, used when it is written.
    pub aliases: Vec<(String, Alias)>,
    /// Its functions.
    pub functions: Vec<Function>,
}

/// What an alias stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Alias {
    /// A set.
    Set(Set),
    /// A map.
    Map(Map),
}

impl Module {
    /// A module of functions, with a name for every set and map that is used more than once.
    pub fn new(functions: Vec<Function>) -> Module {
        let mut module = Module { name: None, aliases: Vec::new(), functions };
        module.name_repeated();
        module
    }

    /// The function of a name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.name == name)
    }

    fn name_repeated(&mut self) {
        let mut seen: Vec<(Alias, usize)> = Vec::new();
        let mut note = |alias: Alias| match seen.iter_mut().find(|(a, _)| *a == alias) {
            Some((_, n)) => *n += 1,
            None => seen.push((alias, 1)),
        };
        for f in &self.functions {
            f.body.visit(&mut |op| {
                for (_, attr) in &op.attrs {
                    match attr {
                        Attr::Set(s) => note(Alias::Set(s.clone())),
                        Attr::Map(m) => note(Alias::Map(m.clone())),
                        Attr::Maps(maps) => maps.iter().for_each(|m| note(Alias::Map(m.clone()))),
                        _ => {}
                    }
                }
            });
        }
        let (mut sets, mut maps) = (0, 0);
        for (alias, _) in seen.into_iter().filter(|(_, n)| *n > 1) {
            let (stem, n) = match &alias {
                Alias::Set(_) => ("set", &mut sets),
                Alias::Map(_) => ("map", &mut maps),
            };
            self.aliases.push((format!("{stem}{n}"), alias));
            *n += 1;
        }
    }
}

/// A value of a function: an index into its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

impl Value {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueDef {
    /// Its name, without `%`. Results of one operation may share one: `g#0`, `g#1`.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// A kernel, or something that kernels call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub(crate) name: String,
    pub(crate) grid: Vec<i64>,
    pub(crate) results: Vec<Type>,
    pub(crate) values: Vec<ValueDef>,
    pub(crate) body: Block,
    pub(crate) span: Place,
}

impl Function {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many cores run it, by dimension of the grid; empty where nothing is said, and one core then.
    pub fn grid(&self) -> &[i64] {
        &self.grid
    }

    /// How many cores run it.
    pub fn cores(&self) -> usize {
        self.grid.iter().fold(1, |n: usize, d| n.saturating_mul(usize::try_from(*d).unwrap_or(1)))
    }

    /// Its arguments.
    pub fn args(&self) -> &[Value] {
        &self.body.args
    }

    /// What it returns.
    pub fn results(&self) -> &[Type] {
        &self.results
    }

    /// Its operations.
    pub fn body(&self) -> &Block {
        &self.body
    }

    /// A value.
    pub fn value(&self, value: Value) -> &ValueDef {
        &self.values[value.index()]
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.value(value).ty
    }

    /// Numbers values in the order of the text, whatever order they were made in.
    pub(crate) fn canonical(mut self) -> Function {
        let mut order: Vec<Value> = Vec::with_capacity(self.values.len());
        self.body.definitions(&mut order);
        let mut to = vec![None; self.values.len()];
        let mut values = Vec::with_capacity(order.len());
        for old in order {
            if to[old.index()].is_none() {
                to[old.index()] = Some(Value(u32::try_from(values.len()).unwrap_or(u32::MAX)));
                values.push(self.values[old.index()].clone());
            }
        }
        // A use without a definition keeps a place, for the verifier to complain about.
        let mut stray = |v: &mut Value| {
            let slot = &mut to[v.index()];
            *v = *slot.get_or_insert_with(|| {
                values.push(self.values[v.index()].clone());
                Value(u32::try_from(values.len() - 1).unwrap_or(u32::MAX))
            });
        };
        self.body.rename(&mut stray);
        self.values = values;
        self
    }
}

/// Operations in order, with the arguments that they get.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Block {
    /// What it is given.
    pub args: Vec<Value>,
    /// What it does.
    pub ops: Vec<Op>,
}

impl Block {
    /// Calls `f` with every operation, those of regions too.
    pub fn visit<'a>(&'a self, f: &mut impl FnMut(&'a Op)) {
        for op in &self.ops {
            f(op);
            op.regions.iter().for_each(|r| r.visit(f));
        }
    }

    fn definitions(&self, out: &mut Vec<Value>) {
        out.extend(&self.args);
        for op in &self.ops {
            op.regions.iter().for_each(|r| r.definitions(out));
            out.extend(&op.results);
        }
    }

    fn rename(&mut self, f: &mut impl FnMut(&mut Value)) {
        self.args.iter_mut().for_each(&mut *f);
        for op in &mut self.ops {
            op.operands.iter_mut().chain(&mut op.results).for_each(&mut *f);
            op.regions.iter_mut().for_each(|r| r.rename(f));
        }
    }
}

/// Where something was read from; all places are equal.
#[derive(Debug, Clone, Default)]
pub struct Place(pub Range<usize>);

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

impl Eq for Place {}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    pub(crate) kind: Kind,
    pub(crate) operands: Vec<Value>,
    pub(crate) results: Vec<Value>,
    pub(crate) attrs: Vec<(String, Attr)>,
    pub(crate) regions: Vec<Block>,
    pub(crate) span: Place,
}

impl Op {
    /// Which one.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What it takes.
    pub fn operands(&self) -> &[Value] {
        &self.operands
    }

    /// What it gives.
    pub fn results(&self) -> &[Value] {
        &self.results
    }

    /// An attribute by name.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.attrs.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// Its regions.
    pub fn regions(&self) -> &[Block] {
        &self.regions
    }

    /// The bytes of the text that it was read from; empty for one that was built.
    pub fn span(&self) -> Range<usize> {
        self.span.0.clone()
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        if let Some(Attr::Int(n)) = self.attr(name) { Some(*n) } else { None }
    }

    pub(crate) fn ints(&self, name: &str) -> Option<&[i64]> {
        if let Some(Attr::Ints(list)) = self.attr(name) { Some(list) } else { None }
    }

    pub(crate) fn set(&self, name: &str) -> Option<&Set> {
        if let Some(Attr::Set(set)) = self.attr(name) { Some(set) } else { None }
    }

    pub(crate) fn map(&self, name: &str) -> Option<&Map> {
        if let Some(Attr::Map(map)) = self.attr(name) { Some(map) } else { None }
    }

    pub(crate) fn maps(&self, name: &str) -> &[Map] {
        if let Some(Attr::Maps(maps)) = self.attr(name) { maps } else { &[] }
    }

    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        if let Some(Attr::Word(word)) = self.attr(name) { Some(word) } else { None }
    }

    pub(crate) fn words(&self, name: &str) -> &[String] {
        if let Some(Attr::Words(words)) = self.attr(name) { words } else { &[] }
    }

    pub(crate) fn groups(&self, name: &str) -> &[Vec<i64>] {
        if let Some(Attr::Groups(groups)) = self.attr(name) { groups } else { &[] }
    }
}

/// A size or stride that is an operand; it follows the others in their order.
pub const DYNAMIC: i64 = i64::MIN;

/// Something about an operation that is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attr {
    /// A number.
    Int(i64),
    /// Numbers; [`DYNAMIC`] stands for an operand.
    Ints(Vec<i64>),
    /// The value of a constant.
    Literal(Literal),
    /// The elements of a constant tile in row-major order, or one for all of them.
    Dense(Vec<Literal>),
    /// A set.
    Set(Set),
    /// A map.
    Map(Map),
    /// Maps, one per operand.
    Maps(Vec<Map>),
    /// A memory space.
    Space(Space),
    /// A name: a predicate, a combiner, a function.
    Word(String),
    /// Names.
    Words(Vec<String>),
    /// Lists of dimensions.
    Groups(Vec<Vec<i64>>),
    /// Anything else, as written.
    Raw(String),
}

/// A number as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Literal {
    /// A whole number.
    Int(i64),
    /// A float, by the bits of the nearest binary64; finite.
    Float(u64),
    /// The bits of the element itself.
    Bits(u64),
}

impl Literal {
    /// A finite float; one that is not has bits only in its own type.
    pub fn float(value: f64) -> Option<Literal> {
        value.is_finite().then(|| Literal::Float(value.to_bits()))
    }
}

/// Where a view lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Device memory: `global`, or `HBM`.
    Global,
    /// The scratchpad of a core, by default one's own: `ct_local`, or `LX`.
    Local(Option<u32>),
}
