//! Iteration spaces: what an operation loops over.

use super::tensor_access::{AccessRole, TensorAccess};
use crate::error::{CompileError, Result};
use zellige_device::PlanOp;
use zellige_device::{LoopSpan, OpLoops, TensorLayout, WorkDivision};
use zellige_machine::{LoopCharge, OperationCharges, PartialSums, WorkKind};
use zellige_op::TensorOp;

/// Dimensions of an iteration space at most.
// The search recurses over the dimensions, so that their number bounds the depth of its stack.
pub(super) const MAX_LOOP_DIMS: usize = 64;

/// One loop of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDim {
    /// What hints and reports call it.
    pub name: String,
    /// Iterations; of a symbolic dimension the most there can be.
    pub size: u64,
    /// Whether results of different slices have to be combined.
    pub reduced: bool,
    /// Of a symbolic dimension: every size it takes is a multiple of this, so splits divide it.
    pub granularity: Option<u64>,
    /// The only splits that are accepted, where not all are; `[1]` blocks a dimension.
    pub allowed: Option<Vec<u64>>,
}

impl LoopDim {
    /// A dimension of the result.
    pub fn output(name: impl Into<String>, size: u64) -> LoopDim {
        LoopDim { name: name.into(), size, reduced: false, granularity: None, allowed: None }
    }

    /// A dimension that is summed over.
    pub fn reduced(name: impl Into<String>, size: u64) -> LoopDim {
        LoopDim { reduced: true, ..LoopDim::output(name, size) }
    }
}

/// What one point of an iteration space costs the units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointCost {
    /// What the operation is, for the hardware's figures.
    pub kind: WorkKind,
    /// Multiply-adds per point.
    pub macs: u64,
    /// Plain element operations per point.
    pub sfu: u64,
    /// Transcendental element operations per point.
    pub transcendental: u64,
}

/// What an operation loops over: dimensions of the result, then reduced ones, and its tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IterationSpace {
    dims: Vec<LoopDim>,
    /// Per dimension, the iterations that stay together.
    units: Vec<u64>,
    tensors: Vec<TensorAccess>,
    effort: PointCost,
    charges: Vec<LoopCharge>,
    partial: PartialSums,
    product: Option<[usize; 2]>,
    /// The loops of a product's rows and columns, where the result has them.
    sides: [Option<usize>; 2],
}

impl IterationSpace {
    /// Checks the parts against each other. A dimension that runs along lanes counts in sticks, of
    /// the longest ones of the tensors that share it.
    pub fn new(
        dims: Vec<LoopDim>,
        tensors: Vec<TensorAccess>,
        effort: PointCost,
    ) -> Result<IterationSpace> {
        if dims.len() > MAX_LOOP_DIMS {
            let reason = format!("an operation has at most {MAX_LOOP_DIMS} dimensions");
            return Err(CompileError::BadDim { dim: dims[MAX_LOOP_DIMS].name.clone(), reason });
        }
        let mut units = vec![1; dims.len()];
        for t in &tensors {
            let terms = t.coordinates.iter().flat_map(|e| &e.terms);
            if let Some(term) = terms.into_iter().find(|term| term.var >= dims.len()) {
                let reason = format!("loop {} of {} is past the last", term.var, dims.len());
                return Err(CompileError::BadTensor { tensor: t.name.clone(), reason });
            }
            let Some(d) = t.stick_loop() else { continue };
            if dims[d].granularity.is_some() {
                let (dim, tensor) = (dims[d].name.clone(), t.name.clone());
                // The number of sticks of a symbolic dimension is not known when it is compiled, and a split of it
                // could cut a stick.
                return Err(CompileError::SymbolicStick { dim, tensor });
            }
            // torch-spyre's rule: a loop along lanes counts in the longest sticks of the tensors that share it, so
            // that no slice begins inside a stick of any of them.
            units[d] = t.eps().max(units[d]);
        }
        let mut volume = 1_u64;
        for (i, (d, unit)) in dims.iter().zip(&units).enumerate() {
            let bad = |reason: String| CompileError::BadDim { dim: d.name.clone(), reason };
            if dims[..i].iter().any(|e| e.name == d.name) {
                return Err(bad("its name occurs twice; names are different".into()));
            }
            if !d.reduced && dims[..i].iter().any(|e| e.reduced) {
                return Err(bad("dimensions of the result come before reduced ones".into()));
            }
            if d.granularity.is_some_and(|g| g == 0 || d.size % g != 0) {
                let g = d.granularity.unwrap_or(0);
                return Err(bad(format!("granularity {g} must divide max {}", d.size)));
            }
            if d.allowed.as_ref().is_some_and(|a| a.is_empty() || a.contains(&0)) {
                return Err(bad("the accepted splits are 1 or more, and at least one".into()));
            }
            // Checked here once, so that all later products of sizes and costs stay below 64 bits and need no checks
            // of their own.
            let padded = d.size.div_ceil(*unit).max(1).checked_mul(*unit);
            volume = padded.and_then(|p| volume.checked_mul(p)).ok_or_else(|| {
                CompileError::Overflow { what: format!("the iteration space up to `{}`", d.name) }
            })?;
        }
        let each = [effort.macs, effort.sfu, effort.transcendental].into_iter().max().unwrap_or(0);
        if volume.checked_mul(each.max(8)).is_none() {
            return Err(CompileError::Overflow { what: "the work of the iteration space".into() });
        }
        let unit = |d: usize| usize::try_from(units[d]).unwrap_or(usize::MAX);
        let loops = |reduced: bool| -> Vec<(usize, usize)> {
            let dims = dims.iter().enumerate().filter(|(_, dim)| reduced || !dim.reduced);
            dims.map(|(d, _)| (d, unit(d))).collect()
        };
        let PointCost { macs, sfu, transcendental, .. } = effort;
        let charge = LoopCharge { loops: loops(true), macs, sfu, transcendental, finishing: false };
        // Partial sums travel as float32 whatever the stored dtype: they are sums that are not finished and not
        // rounded yet.
        let partial = PartialSums { loops: loops(false), bytes: 4 };
        let mut space = IterationSpace {
            dims,
            units,
            tensors,
            effort,
            charges: vec![charge],
            partial,
            product: None,
            sides: [None; 2],
        };
        let reads: Vec<usize> = (0..space.tensors.len())
            .filter(|i| space.tensors[*i].role == AccessRole::Read)
            .filter(|i| !space.is_finishing_operand(&space.tensors[*i]))
            .collect();
        // A bias is read by a product too, but only where the sum is finished: it is no factor.
        if let ([a, b], true) = (&reads[..], macs > 0) {
            space.product = Some([*a, *b]);
            // The last loop that one operand alone has; before it, those are batches that the other does not know.
            let only = |own: usize, other: usize| {
                let mut outer = (0..space.dims.len()).filter(|d| !space.dims[*d].reduced);
                let [own, other] = [own, other].map(|i| &space.tensors[i]);
                outer.rfind(|d| own.depends_on(*d) && !other.depends_on(*d))
            };
            space.sides = [only(*a, *b), only(*b, *a)];
        }
        Ok(space)
    }

    /// The iteration space of an operation on tensors in these layouts, as the device charges it. Loops are `M`,
    /// `N`, `K` and `B`, `B1`, ... of a product, else `c0`, `c1`, ...
    ///
    /// **Law**: the [`plan_core_work`](super::plan_core_work) of a division takes as long as the device's own account
    /// of it.
    ///
    /// None for operations whose work is no plain function of slices of loops.
    ///
    /// # Errors
    /// Tensors that are not those of the operation, or whose layouts kernels cannot read; overflow.
    pub fn from_op(
        op: &TensorOp,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<IterationSpace>> {
        let (Some(loops), Some(charges)) =
            (op.tensor_loops(inputs, outputs)?, op.unit_charges(inputs, outputs)?)
        else {
            return Ok(None);
        };
        let spans = loops.loop_spans();
        let names = name_loops(&loops, &charges, inputs.len());
        let dims: Vec<LoopDim> = (spans.iter().zip(names))
            .map(|(s, name)| LoopDim { reduced: s.reduced, ..LoopDim::output(name, s.size as u64) })
            .collect();
        let mut tensors = Vec::with_capacity(loops.tensor_count());
        for (i, laid) in inputs.iter().chain(outputs).enumerate() {
            if charges.unread.contains(&i) {
                continue;
            }
            let (role, name) = match i.checked_sub(inputs.len()) {
                None => (AccessRole::Read, operand_name(op, i)),
                Some(0) => (AccessRole::Write, "output".into()),
                Some(n) => (AccessRole::Write, format!("output{n}")),
            };
            tensors.push(TensorAccess::from_layout(
                name,
                role,
                laid,
                &dims,
                loops.followed_loops(i),
            )?);
        }
        let sum = |f: fn(&LoopCharge) -> u64| charges.each.iter().map(f).sum();
        let effort = PointCost {
            kind: charges.kind,
            macs: sum(|c| c.macs),
            sfu: sum(|c| c.sfu),
            transcendental: sum(|c| c.transcendental),
        };
        let space = IterationSpace::new(dims, tensors, effort)?;
        // The device's own units take the place of those derived from lanes: a kernel may need larger ones, and its
        // division is the one that runs.
        let units = spans.iter().map(|s| s.unit.max(1) as u64).collect();
        let OperationCharges { each, partial, product, sides, unread, .. } = charges;
        // Operands that are not read are no tensors of the space.
        let place = |i: usize| i - unread.iter().filter(|u| **u < i).count();
        let product = product.map(|both| both.map(place));
        Ok(Some(IterationSpace { units, charges: each, partial, product, sides, ..space }))
    }

    /// What the units do.
    pub(super) fn charges(&self) -> &[LoopCharge] {
        &self.charges
    }

    /// What travels where a reduction is split.
    pub(super) fn partial_sums(&self) -> &PartialSums {
        &self.partial
    }

    /// The operands of a product, of which one stays in the scratchpad and the other passes by.
    pub(super) fn product_operands(&self) -> Option<[usize; 2]> {
        self.product
    }

    /// The loops of a product's rows and columns. A loop of one iteration is found too, which no tensor depends on.
    pub(super) fn product_sides(&self) -> [Option<usize>; 2] {
        self.sides
    }

    /// The loops.
    pub fn dims(&self) -> &[LoopDim] {
        &self.dims
    }

    /// The tensors.
    pub fn tensors(&self) -> &[TensorAccess] {
        &self.tensors
    }

    /// What a point costs.
    pub fn point_cost(&self) -> PointCost {
        self.effort
    }

    /// Iterations of a dimension that stay together: the lanes of a stick, or 1.
    pub fn unit_iterations(&self, dim: usize) -> u64 {
        self.units[dim]
    }

    /// How many units a dimension has: what is split.
    pub fn unit_count(&self, dim: usize) -> u64 {
        self.dims[dim].size.div_ceil(self.units[dim])
    }

    /// Whether a dimension runs along lanes.
    pub fn is_stick(&self, dim: usize) -> bool {
        self.tensors.iter().any(|t| t.stick_loop() == Some(dim))
    }

    /// The number whose divisors cut a dimension evenly.
    pub fn even_split_basis(&self, dim: usize) -> u64 {
        self.dims[dim].granularity.unwrap_or_else(|| self.unit_count(dim)).max(1)
    }

    /// The splits up to `most` that cut a dimension evenly and are accepted, ascending.
    pub fn even_splits(&self, dim: usize, most: u64) -> Vec<u64> {
        let basis = self.even_split_basis(dim);
        let accepted = |s: &u64| self.dims[dim].allowed.as_ref().is_none_or(|a| a.contains(s));
        (1..=most.min(basis)).filter(|s| basis.is_multiple_of(*s)).filter(accepted).collect()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.dims.iter().any(|d| d.size == 0)
    }

    /// Whether an operand is no part of the sums that the others make, but of what becomes of them:
    /// of the cores that split a sum, only the one that finishes it reads the operand.
    pub fn is_finishing_operand(&self, tensor: &TensorAccess) -> bool {
        let summed = |t: &TensorAccess| {
            (0..self.dims.len()).any(|d| self.dims[d].reduced && t.depends_on(d))
        };
        tensor.role == AccessRole::Read
            && !summed(tensor)
            && self.tensors.iter().any(|t| t.role == AccessRole::Read && summed(t))
    }

    /// The dimensions as the device divides them.
    pub fn spans(&self) -> Vec<LoopSpan> {
        let narrow = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let span = |(d, unit): (&LoopDim, &u64)| LoopSpan {
            size: narrow(d.size),
            unit: narrow(*unit),
            reduced: d.reduced,
        };
        self.dims.iter().zip(&self.units).map(span).collect()
    }

    /// The division with these splits, as the device takes it.
    pub fn division_with(&self, splits: &[u64], cores: usize) -> Result<WorkDivision> {
        let narrow = |n: &u64| usize::try_from(*n).unwrap_or(usize::MAX);
        let narrow: Vec<usize> = splits.iter().map(narrow).collect();
        WorkDivision::new(&narrow, &self.spans(), cores).map_err(|e| CompileError::BadDim {
            dim: self.dims.first().map_or_else(String::new, |d| d.name.clone()),
            reason: e.to_string(),
        })
    }

    /// Splits with their names, for people.
    pub fn format_splits(&self, splits: &[u64]) -> String {
        let pairs = self.dims.iter().zip(splits).map(|(d, s)| format!("{}={s}", d.name));
        pairs.collect::<Vec<_>>().join(" ")
    }
}

/// The name of an operand in the table of operations; of several under one name, with a number.
fn operand_name(op: &TensorOp, i: usize) -> String {
    let names = op.row().operands;
    match names.get(i).or(names.last()) {
        Some(name) if i < names.len() => name.trim_end_matches(['?', '.']).to_owned(),
        Some(name) => format!("{}{i}", name.trim_end_matches(['?', '.'])),
        None => format!("input{i}"),
    }
}

/// Names of the loops: by what A, B and the result of a product follow, else numbered.
fn name_loops(loops: &OpLoops, charges: &OperationCharges, inputs: usize) -> Vec<String> {
    let numbered = || (0..loops.loop_spans().len()).map(|l| format!("c{l}")).collect();
    let Some([a, b]) = charges.product.filter(|_| inputs < loops.tensor_count()) else {
        return numbered();
    };
    let follows = |t: usize, l: usize| loops.followed_loops(t).contains(&Some(l));
    let (mut batches, mut names) = (0, Vec::new());
    // The last loop that only A has are the rows; before it, those are batches that B does not know.
    let outer = || (0..loops.loop_spans().len()).filter(|l| !loops.loop_spans()[*l].reduced);
    // torch-spyre's hints and reports call the loops of a product by these letters, so that the same names work here.
    let rows = outer().rev().find(|l| follows(a, *l) && !follows(b, *l));
    let columns = outer().rev().find(|l| follows(b, *l) && !follows(a, *l));
    for l in 0..loops.loop_spans().len() {
        names.push(match l {
            _ if loops.loop_spans()[l].reduced => "K".into(),
            _ if Some(l) == rows => "M".into(),
            _ if Some(l) == columns => "N".into(),
            _ => {
                batches += 1;
                if batches == 1 { "B".into() } else { format!("B{}", batches - 1) }
            }
        });
    }
    names
}
