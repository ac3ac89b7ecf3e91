//! Finds the element types of the memory that the arguments of a kernel point to.
//!
//! A pointer argument is an index without an element type. The element type is given where a view
//! is constructed from the pointer, perhaps at an offset, in a loop or in a called function. The
//! analysis over-approximates the flow of pointers: a value depends on every argument that any of
//! its operands depends on. A view that could belong to several arrays is attributed to none of
//! them.

use crate::ir::{KtirBlock, KtirFunction, KtirModule, KtirOp, KtirValue};
use crate::op::KtirOpKind;
use crate::types::{KtirElem, KtirType};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The largest number of arguments that one value may depend on before the analysis gives up on it.
/// This bounds the cost of a module with many arguments and many sums of them.
const MAX_ORIGINS: usize = 8;

/// The largest number of different views of one function before the analysis gives up on it, for
/// the same reason.
const MAX_VIEWS: usize = 4096;

/// The arguments, by their numbers, that a value depends on; none where they are too many.
type PointerOrigins = Option<BTreeSet<usize>>;

/// The views of a function: the arguments that the pointer depends on, and the elements.
type PointerViews = BTreeSet<(Vec<usize>, KtirElem)>;

impl KtirModule {
    /// The element types of the views of each array in a kernel, for the arguments that are passed
    /// as arrays. An array is left out where no view certainly belongs to it.
    pub fn view_elements(&self, kernel: &str, arrays: &[&str]) -> BTreeMap<String, Vec<KtirElem>> {
        let mut found: BTreeMap<String, Vec<KtirElem>> = BTreeMap::new();
        let Some(f) = self.function(kernel) else { return found };
        let name = |i: &usize| f.args().get(*i).map(|v| f.value_def(*v).name.as_str());
        let Some(views) = ViewSummaries { module: self, known: HashMap::new() }.summarize_views(f)
        else {
            return found;
        };
        for (origins, elem) in views {
            let owners: Vec<&str> =
                origins.iter().filter_map(name).filter(|n| arrays.contains(n)).collect();
            // Only a view with exactly one owner is certain. Reporting the elements of an ambiguous
            // view would refuse arrays that the kernel reads correctly.
            if let [owner] = owners[..] {
                let list = found.entry(owner.to_string()).or_default();
                if !list.contains(&elem) {
                    list.push(elem);
                }
            }
        }
        found
    }
}

impl KtirModule {
    /// The shape and elements of each array argument of a kernel, from the views that are constructed from the argument
    /// itself: of several the one with the most elements. Sizes that are known only at run time leave a view out.
    pub fn argument_shapes(&self, kernel: &str) -> BTreeMap<String, (Vec<i64>, KtirElem)> {
        let mut found: BTreeMap<String, (Vec<i64>, KtirElem)> = BTreeMap::new();
        let Some(f) = self.function(kernel) else { return found };
        f.body().visit_ops(&mut |op| {
            let (Some(pointer), Some(view)) = (op.operands().first(), op.results().first()) else {
                return;
            };
            if op.kind() != KtirOpKind::MemoryView || !f.args().contains(pointer) {
                return;
            }
            let KtirType::MemRef(_, elem) = f.value_type(*view) else { return };
            let sizes = op.ints_attr("sizes").unwrap_or(&[]);
            if sizes.contains(&crate::ir::DYNAMIC_SIZE) {
                return;
            }
            let count = |sizes: &[i64]| sizes.iter().fold(1_i64, |n, d| n.saturating_mul(*d));
            let name = &f.value_def(*pointer).name;
            if found.get(name).is_none_or(|(other, _)| count(other) < count(sizes)) {
                found.insert(name.clone(), (sizes.to_vec(), *elem));
            }
        });
        found
    }
}

/// The views of the functions that were analyzed; `None` for a function with too many, and while a
/// function is being analyzed.
struct ViewSummaries<'m> {
    module: &'m KtirModule,
    known: HashMap<&'m str, Option<PointerViews>>,
}

impl<'m> ViewSummaries<'m> {
    fn summarize_views(&mut self, f: &'m KtirFunction) -> Option<PointerViews> {
        if let Some(known) = self.known.get(f.name()) {
            return known.clone();
        }
        // An entry before the body is looked at ends the recursion of functions that call
        // themselves; this runs on modules that the verifier has not seen yet.
        self.known.insert(f.name(), None);
        let origins = find_value_origins(f);
        let (mut views, mut calls) = (PointerViews::new(), Vec::new());
        f.body().visit_ops(&mut |op| match op.kind() {
            KtirOpKind::MemoryView => {
                let elem = op.results().first().and_then(|v| f.value_type(*v).elem());
                let pointer = op.operands().first().and_then(|v| origins[v.index()].as_ref());
                if let (Some(elem), Some(pointer)) = (elem, pointer) {
                    views.insert((pointer.iter().copied().collect(), elem));
                }
            }
            KtirOpKind::Call => calls.push(op),
            _ => {}
        });
        // Calls come after the function's own views, because the closure above borrows the table
        // that following a call has to change.
        for op in calls {
            let callee = op.word_attr("callee").and_then(|name| self.module.function(name));
            for (parameters, elem) in callee.and_then(|callee| self.summarize_views(callee))? {
                if let Some(through) = call_argument_origins(op, &parameters, &origins) {
                    views.insert((through, elem));
                }
            }
            if views.len() > MAX_VIEWS {
                return None;
            }
        }
        self.known.insert(f.name(), Some(views.clone()));
        Some(views)
    }
}

/// The arguments that the operands of a call for these parameters depend on.
fn call_argument_origins(
    op: &KtirOp,
    parameters: &[usize],
    origins: &[PointerOrigins],
) -> Option<Vec<usize>> {
    let mut all = BTreeSet::new();
    for p in parameters {
        let operand = op.operands().get(*p)?;
        all.extend(origins[operand.index()].as_ref()?.iter().copied());
    }
    // Too many origins mean that the view could belong to any of them, which is as good as knowing
    // nothing.
    (all.len() <= MAX_ORIGINS).then(|| all.into_iter().collect())
}

/// The arguments that every value of a function depends on.
fn find_value_origins(f: &KtirFunction) -> Vec<PointerOrigins> {
    let mut origins: Vec<PointerOrigins> = vec![Some(BTreeSet::new()); f.values.len()];
    for (i, v) in f.args().iter().enumerate() {
        origins[v.index()] = Some(BTreeSet::from([i]));
    }
    // A pointer may be carried through several loops; every pass follows it through one more, and
    // the sets only grow, so the iteration ends.
    while propagate_origins(f, f.body(), &mut origins) {}
    origins
}

/// The arguments that a kernel loads from and stores to, and whether all views of its scratchpads are its own core's;
/// none where a view cannot be traced to one argument, or where other functions are called.
pub(crate) fn find_accessed_arguments(
    f: &KtirFunction,
) -> Option<(BTreeSet<usize>, BTreeSet<usize>, bool)> {
    let origins = find_value_origins(f);
    // The arguments behind each view and each access tile: an access has its view as its first operand, and the index
    // views of an indirect one are only read.
    let mut behind: HashMap<KtirValue, BTreeSet<usize>> = HashMap::new();
    let (mut reads, mut writes, mut known) = (BTreeSet::new(), BTreeSet::new(), true);
    f.body().visit_ops(&mut |op| {
        let first = op.operands().first();
        let of = |v: Option<&KtirValue>| v.and_then(|v| behind.get(v)).cloned();
        match op.kind() {
            KtirOpKind::MemoryView => {
                let pointer = first.and_then(|v| origins[v.index()].clone());
                // A pointer without an argument behind it is a fixed address, which may be any array.
                let local = matches!(
                    op.attr("memory_space"),
                    Some(crate::ir::KtirAttr::Space(crate::ir::KtirMemorySpace::Local(_)))
                );
                match (pointer, op.results().first()) {
                    (_, Some(v)) if local => {
                        behind.insert(*v, BTreeSet::new());
                    }
                    (Some(set), Some(v)) if !set.is_empty() => {
                        behind.insert(*v, set);
                    }
                    _ => known = false,
                }
            }
            KtirOpKind::DistributedView => {
                let mut all = BTreeSet::new();
                for v in op.operands() {
                    match behind.get(v) {
                        Some(set) => all.extend(set.iter().copied()),
                        None => known = false,
                    }
                }
                if let Some(v) = op.results().first() {
                    behind.insert(*v, all);
                }
            }
            KtirOpKind::AccessTile | KtirOpKind::IndirectTile => {
                for v in op.operands().iter().skip(1) {
                    reads.extend(behind.get(v).into_iter().flatten().copied());
                }
                match (of(first), op.results().first()) {
                    (Some(set), Some(v)) => {
                        behind.insert(*v, set);
                    }
                    _ => known = false,
                }
            }
            KtirOpKind::Load => match of(first) {
                Some(set) => reads.extend(set),
                None => known = false,
            },
            KtirOpKind::Store => match of(op.operands().get(1)) {
                Some(set) => writes.extend(set),
                None => known = false,
            },
            KtirOpKind::Call | KtirOpKind::MemRefLoad | KtirOpKind::MemRefStore => known = false,
            _ => {}
        }
    });
    known.then_some((reads, writes, true))
}

/// Makes one pass over a block and returns whether anything was added.
fn propagate_origins(f: &KtirFunction, block: &KtirBlock, origins: &mut [PointerOrigins]) -> bool {
    let mut grown = false;
    for op in &block.ops {
        // The arguments of regions count as results of the operation, and what its regions yield as
        // its operands: that covers the iteration arguments of loops and the results of branches
        // without a rule for each.
        let inner = op.regions().iter().flat_map(|r| r.args.iter());
        let made: Vec<KtirValue> = op.results().iter().chain(inner).copied().collect();
        let yields = op.regions().iter().filter_map(|r| r.ops.last());
        let given = yields.flat_map(|end| end.operands().iter());
        let given: Vec<KtirValue> = op.operands().iter().chain(given).copied().collect();
        for v in made.into_iter().filter(|v| may_be_pointer(f.value_type(*v))) {
            for from in &given {
                grown |= merge_origins(origins, *from, v);
            }
        }
        for region in op.regions() {
            grown |= propagate_origins(f, region, origins);
        }
    }
    grown
}

/// Whether a value may be a pointer or an offset.
fn may_be_pointer(ty: &KtirType) -> bool {
    match ty {
        // Integers are followed as well, because a text may compute an address in `i32` or `i64`
        // and cast it.
        KtirType::Scalar(elem) => !elem.is_float(),
        KtirType::RuntimeArg(_) => true,
        _ => false,
    }
}

/// Adds the origins of one value to those of another and returns whether they grew.
fn merge_origins(origins: &mut [PointerOrigins], from: KtirValue, to: KtirValue) -> bool {
    if from == to || origins[to.index()].is_none() {
        return false;
    }
    let Some(more) = origins[from.index()].clone() else {
        origins[to.index()] = None;
        return true;
    };
    let Some(mine) = &mut origins[to.index()] else { return false };
    let before = mine.len();
    mine.extend(more);
    let grown = mine.len() > before;
    // Unknown is the top of this lattice: once reached it stays, so the passes over loops come to
    // an end.
    if mine.len() > MAX_ORIGINS {
        origins[to.index()] = None;
    }
    grown
}
