//! The intermediate representation: modules, functions, operations.
//!
//! Every value of a function has an index in its table of values, with a name and a type.
//! Operations nest in blocks, one per region. A span is the place that an operation was read from;
//! spans never matter for equality.

use crate::affine::{KtirAffineMap, KtirAffineSet};
use crate::op::KtirOpKind;
use crate::types::KtirType;
use std::ops::Range;

/// A text: named sets and maps, then functions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KtirModule {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Names for sets and maps, which the printer uses.
    pub aliases: Vec<(String, KtirAlias)>,
    /// Its functions.
    pub functions: Vec<KtirFunction>,
}

/// The set or map that an alias names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KtirAlias {
    /// A set.
    Set(KtirAffineSet),
    /// A map.
    Map(KtirAffineMap),
}

impl KtirModule {
    /// Makes a module of functions, with a name for every set and map that is used more than once.
    pub fn new(functions: Vec<KtirFunction>) -> KtirModule {
        let mut module = KtirModule { name: None, aliases: Vec::new(), functions };
        module.name_repeated();
        module
    }

    /// The function of a name.
    pub fn function(&self, name: &str) -> Option<&KtirFunction> {
        self.functions.iter().find(|f| f.name == name)
    }

    fn name_repeated(&mut self) {
        // A list in the order of first use, not a hash table: the numbers in the names must not
        // depend on hashing, because emitted texts are compared byte by byte.
        let mut seen: Vec<(KtirAlias, usize)> = Vec::new();
        let mut note = |alias: KtirAlias| match seen.iter_mut().find(|(a, _)| *a == alias) {
            Some((_, n)) => *n += 1,
            None => seen.push((alias, 1)),
        };
        for f in &self.functions {
            f.body.visit_ops(&mut |op| {
                for (_, attr) in &op.attrs {
                    match attr {
                        KtirAttr::Set(s) => note(KtirAlias::Set(s.clone())),
                        KtirAttr::Map(m) => note(KtirAlias::Map(m.clone())),
                        KtirAttr::Maps(maps) => {
                            maps.iter().for_each(|m| note(KtirAlias::Map(m.clone())));
                        }
                        _ => {}
                    }
                }
            });
        }
        let (mut sets, mut maps) = (0, 0);
        // A set that is used once is read more easily where it is used.
        for (alias, _) in seen.into_iter().filter(|(_, n)| *n > 1) {
            let (stem, n) = match &alias {
                KtirAlias::Set(_) => ("set", &mut sets),
                KtirAlias::Map(_) => ("map", &mut maps),
            };
            self.aliases.push((format!("{stem}{n}"), alias));
            *n += 1;
        }
    }
}

/// A value of a function: an index into its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KtirValue(pub(crate) u32);

impl KtirValue {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The name and the type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KtirValueDef {
    /// Its name, without `%`. Results of one operation may share one: `g#0`, `g#1`.
    pub name: String,
    /// Its type.
    pub ty: KtirType,
}

/// A kernel, or something that kernels call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KtirFunction {
    pub(crate) name: String,
    pub(crate) grid: Vec<i64>,
    pub(crate) results: Vec<KtirType>,
    pub(crate) values: Vec<KtirValueDef>,
    pub(crate) body: KtirBlock,
    pub(crate) span: KtirSourceSpan,
}

impl KtirFunction {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sizes of its grid of cores; empty where the text gives none, and then one core runs it.
    pub fn grid(&self) -> &[i64] {
        &self.grid
    }

    /// How many cores run it.
    pub fn core_count(&self) -> usize {
        self.grid.iter().fold(1, |n: usize, d| n.saturating_mul(usize::try_from(*d).unwrap_or(1)))
    }

    /// Its arguments.
    pub fn args(&self) -> &[KtirValue] {
        &self.body.args
    }

    /// What it returns.
    pub fn results(&self) -> &[KtirType] {
        &self.results
    }

    /// Its operations.
    pub fn body(&self) -> &KtirBlock {
        &self.body
    }

    /// A value.
    pub fn value_def(&self, value: KtirValue) -> &KtirValueDef {
        &self.values[value.index()]
    }

    /// The type of a value.
    pub fn value_type(&self, value: KtirValue) -> &KtirType {
        &self.value_def(value).ty
    }

    /// Numbers values in the order of the text, whatever order they were made in.
    pub(crate) fn renumber_canonically(mut self) -> KtirFunction {
        // The builder makes values in the order of its calls and the reader in the order of the
        // text. Equality compares the tables of values, so both have to number them alike.
        let mut order: Vec<KtirValue> = Vec::with_capacity(self.values.len());
        self.body.collect_definitions(&mut order);
        let mut to = vec![None; self.values.len()];
        let mut values = Vec::with_capacity(order.len());
        for old in order {
            // A value that is defined twice keeps its first number here, and the verifier reports
            // the second definition.
            if to[old.index()].is_none() {
                to[old.index()] = Some(KtirValue(u32::try_from(values.len()).unwrap_or(u32::MAX)));
                values.push(self.values[old.index()].clone());
            }
        }
        // A use without a definition keeps an entry in the table, so that the verifier can report
        // it.
        let mut stray = |v: &mut KtirValue| {
            let slot = &mut to[v.index()];
            *v = *slot.get_or_insert_with(|| {
                values.push(self.values[v.index()].clone());
                KtirValue(u32::try_from(values.len() - 1).unwrap_or(u32::MAX))
            });
        };
        self.body.rename_values(&mut stray);
        self.values = values;
        self
    }
}

/// Operations in order, with the arguments of the block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KtirBlock {
    /// Its arguments.
    pub args: Vec<KtirValue>,
    /// Its operations.
    pub ops: Vec<KtirOp>,
}

impl KtirBlock {
    /// Calls `f` with every operation, those of regions too.
    pub fn visit_ops<'a>(&'a self, f: &mut impl FnMut(&'a KtirOp)) {
        for op in &self.ops {
            f(op);
            op.regions.iter().for_each(|r| r.visit_ops(f));
        }
    }

    fn collect_definitions(&self, out: &mut Vec<KtirValue>) {
        out.extend(&self.args);
        for op in &self.ops {
            // Regions before results: the reader meets the region's values first and can name the
            // results only when the whole operation has been read.
            op.regions.iter().for_each(|r| r.collect_definitions(out));
            out.extend(&op.results);
        }
    }

    fn rename_values(&mut self, f: &mut impl FnMut(&mut KtirValue)) {
        self.args.iter_mut().for_each(&mut *f);
        for op in &mut self.ops {
            op.operands.iter_mut().chain(&mut op.results).for_each(&mut *f);
            op.regions.iter_mut().for_each(|r| r.rename_values(f));
        }
    }
}

/// The place that something was read from. All spans compare as equal.
#[derive(Debug, Clone, Default)]
pub struct KtirSourceSpan(pub Range<usize>);

impl PartialEq for KtirSourceSpan {
    // A module that was built has no spans, and one that was printed and read again has others. The
    // round-trip law compares meaning, so a place never makes two modules differ.
    fn eq(&self, _: &KtirSourceSpan) -> bool {
        true
    }
}

impl Eq for KtirSourceSpan {}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KtirOp {
    pub(crate) kind: KtirOpKind,
    pub(crate) operands: Vec<KtirValue>,
    pub(crate) results: Vec<KtirValue>,
    pub(crate) attrs: Vec<(String, KtirAttr)>,
    pub(crate) regions: Vec<KtirBlock>,
    pub(crate) span: KtirSourceSpan,
}

impl KtirOp {
    /// Which operation it is.
    pub fn kind(&self) -> KtirOpKind {
        self.kind
    }

    /// Its operands.
    pub fn operands(&self) -> &[KtirValue] {
        &self.operands
    }

    /// Its results.
    pub fn results(&self) -> &[KtirValue] {
        &self.results
    }

    /// An attribute by name.
    pub fn attr(&self, name: &str) -> Option<&KtirAttr> {
        self.attrs.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// Its regions.
    pub fn regions(&self) -> &[KtirBlock] {
        &self.regions
    }

    /// The bytes of the text that it was read from; empty for one that was built.
    pub fn span(&self) -> Range<usize> {
        self.span.0.clone()
    }

    pub(crate) fn int_attr(&self, name: &str) -> Option<i64> {
        if let Some(KtirAttr::Int(n)) = self.attr(name) { Some(*n) } else { None }
    }

    pub(crate) fn ints_attr(&self, name: &str) -> Option<&[i64]> {
        if let Some(KtirAttr::Ints(list)) = self.attr(name) { Some(list) } else { None }
    }

    pub(crate) fn set_attr(&self, name: &str) -> Option<&KtirAffineSet> {
        if let Some(KtirAttr::Set(set)) = self.attr(name) { Some(set) } else { None }
    }

    pub(crate) fn map_attr(&self, name: &str) -> Option<&KtirAffineMap> {
        if let Some(KtirAttr::Map(map)) = self.attr(name) { Some(map) } else { None }
    }

    pub(crate) fn maps_attr(&self, name: &str) -> &[KtirAffineMap] {
        if let Some(KtirAttr::Maps(maps)) = self.attr(name) { maps } else { &[] }
    }

    pub(crate) fn word_attr(&self, name: &str) -> Option<&str> {
        if let Some(KtirAttr::Word(word)) = self.attr(name) { Some(word) } else { None }
    }

    pub(crate) fn words_attr(&self, name: &str) -> &[String] {
        if let Some(KtirAttr::Words(words)) = self.attr(name) { words } else { &[] }
    }

    pub(crate) fn groups_attr(&self, name: &str) -> &[Vec<i64>] {
        if let Some(KtirAttr::Groups(groups)) = self.attr(name) { groups } else { &[] }
    }
}

/// Marks a size or stride that is an operand; such operands follow the others in the order of the
/// list.
// The value of MLIR's `ShapedType::kDynamic`. No size or stride can be this number, so that a list
// of numbers needs no second list that says which of them are operands.
pub const DYNAMIC_SIZE: i64 = i64::MIN;

/// A property of an operation that is not a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KtirAttr {
    /// A number.
    Int(i64),
    /// Numbers; [`DYNAMIC_SIZE`] stands for an operand.
    Ints(Vec<i64>),
    /// The value of a constant.
    Literal(KtirLiteral),
    /// The elements of a constant tile in row-major order, or one for all of them.
    Dense(Vec<KtirLiteral>),
    /// A set.
    Set(KtirAffineSet),
    /// A map.
    Map(KtirAffineMap),
    /// Maps, one per operand.
    Maps(Vec<KtirAffineMap>),
    /// A memory space.
    Space(KtirMemorySpace),
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
pub enum KtirLiteral {
    /// A whole number.
    Int(i64),
    /// A float, by the bits of the nearest binary64; finite.
    Float(u64),
    /// The bits of the element itself.
    Bits(u64),
}

impl KtirLiteral {
    /// A finite float; one that is not has bits only in its own type.
    pub fn from_finite_float(value: f64) -> Option<KtirLiteral> {
        // MLIR has no decimal text for infinities and NaNs, so a literal of that kind could not be
        // printed.
        value.is_finite().then(|| KtirLiteral::Float(value.to_bits()))
    }
}

/// The memory that a view describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KtirMemorySpace {
    /// Device memory: `global`, or `HBM`.
    Global,
    /// The scratchpad of a core, by default one's own: `ct_local`, or `LX`.
    Local(Option<u32>),
}
