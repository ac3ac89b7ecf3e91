//! The iteration spaces of common operations on tensors in their default layouts.

use super::iteration_space::{IterationSpace, LoopDim, MAX_LOOP_DIMS, PointCost};
use super::tensor_access::{AccessRole, TensorAccess};
use crate::error::{CompileError, Result};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_machine::WorkKind;
use zellige_stick::StickLayout;

/// An operation by its sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpSizes {
    /// One operand and one result of the same size; dimensions are `c0`, `c1`, ...
    Pointwise {
        /// The size.
        sizes: Vec<i64>,
    },
    /// A reduction; dimensions are `c0`, `c1`, ... in iteration order, the kept ones first.
    Reduction {
        /// The size of the operand.
        sizes: Vec<i64>,
        /// Which dimensions of the operand are summed over.
        reduced: Vec<usize>,
    },
    /// `C[b, m, n] = A[b, m, k] B[b, k, n]`; dimensions are `B` (where there is one), `M`, `N`, `K`.
    Matmul {
        /// How many products.
        batch: Option<i64>,
        /// Whether all of them have the same B.
        shared: bool,
        /// Rows.
        m: i64,
        /// Columns.
        n: i64,
        /// Summed over.
        k: i64,
    },
}

impl OpSizes {
    /// One matrix product.
    pub fn matmul(m: i64, n: i64, k: i64) -> OpSizes {
        OpSizes::Matmul { batch: None, shared: false, m, n, k }
    }

    /// A batch of matrix products.
    pub fn bmm(batch: i64, m: i64, n: i64, k: i64) -> OpSizes {
        OpSizes::Matmul { batch: Some(batch), shared: false, m, n, k }
    }
}

/// The iteration space of an operation on tensors of one dtype in their default layouts.
///
/// # Errors
/// Negative sizes, dimensions that do not exist, dtypes that the device does not store, overflow.
pub fn build_iteration_space(form: &OpSizes, dtype: Dtype) -> Result<IterationSpace> {
    if let OpSizes::Pointwise { sizes } | OpSizes::Reduction { sizes, .. } = form
        && sizes.len() > MAX_LOOP_DIMS
    {
        let reason = format!("an operation has at most {MAX_LOOP_DIMS} dimensions");
        return Err(CompileError::BadDim { dim: format!("c{MAX_LOOP_DIMS}"), reason });
    }
    match form {
        OpSizes::Pointwise { sizes } => pointwise_space(sizes, dtype),
        OpSizes::Reduction { sizes, reduced } => reduction_space(sizes, reduced, dtype),
        OpSizes::Matmul { batch, shared, m, n, k } => {
            matmul_space(*batch, *shared, [*m, *n, *k], dtype)
        }
    }
}

fn check_extent(name: &str, size: i64) -> Result<u64> {
    u64::try_from(size).map_err(|_| CompileError::BadDim {
        dim: name.into(),
        reason: format!("its size {size} is negative; sizes are 0 or more"),
    })
}

/// Lanes along the last dimension; one of size 1 is kept, so that its elements have a stick each.
fn layout_along_last(size: &[i64], dtype: Dtype) -> Result<StickLayout> {
    let order: Vec<i64> = (0..).take(size.len()).collect();
    Ok(match size.last() {
        // A default layout ignores dimensions of size 1, and the lanes would then run along another dimension than
        // the loops of the product say.
        Some(1) => StickLayout::with_dim_order(size, None, dtype, &order)?,
        _ => StickLayout::default_for_dtype(size, dtype)?,
    })
}

fn row_major_strides(size: &[i64]) -> Result<Vec<i64>> {
    Ok(StridedLayout::new_contiguous(size)?.stride().to_vec())
}

fn pointwise_space(sizes: &[i64], dtype: Dtype) -> Result<IterationSpace> {
    let dims = sizes.iter().enumerate().map(|(i, n)| {
        let name = format!("c{i}");
        Ok(LoopDim::output(name.clone(), check_extent(&name, *n)?))
    });
    let dims: Vec<LoopDim> = dims.collect::<Result<_>>()?;
    let (layout, steps) =
        (StickLayout::default_for_dtype(sizes, dtype)?, row_major_strides(sizes)?);
    let tensors = vec![
        TensorAccess::new("input", AccessRole::Read, &layout, &dims, &steps)?,
        TensorAccess::new("output", AccessRole::Write, &layout, &dims, &steps)?,
    ];
    let effort = PointCost { kind: WorkKind::Pointwise, macs: 0, sfu: 1, transcendental: 0 };
    IterationSpace::new(dims, tensors, effort)
}

fn reduction_space(sizes: &[i64], reduced: &[usize], dtype: Dtype) -> Result<IterationSpace> {
    for (i, d) in reduced.iter().enumerate() {
        if *d >= sizes.len() || reduced[..i].contains(d) {
            let reason = format!(
                "the reduced dimensions are different ones of the {} there are",
                sizes.len()
            );
            return Err(CompileError::BadDim { dim: d.to_string(), reason });
        }
    }
    // Iteration order is output first, then reduced dimensions, as in torch-spyre: its splits and core numbers are
    // defined in that order.
    let kept = (0..sizes.len()).filter(|d| !reduced.contains(d));
    let order: Vec<usize> = kept.chain((0..sizes.len()).filter(|d| reduced.contains(d))).collect();
    let mut dims = Vec::with_capacity(sizes.len());
    for (i, d) in order.iter().enumerate() {
        let name = format!("c{i}");
        let size = check_extent(&name, sizes[*d])?;
        dims.push(LoopDim { reduced: reduced.contains(d), ..LoopDim::output(name, size) });
    }
    let of_input = row_major_strides(sizes)?;
    let steps: Vec<i64> = order.iter().map(|d| of_input[*d]).collect();
    let layout = StickLayout::default_for_dtype(sizes, dtype)?;
    let input = TensorAccess::new("input", AccessRole::Read, &layout, &dims, &steps)?;
    let lanes_reduced = input.stick_loop().is_some_and(|d| dims[d].reduced);

    let kept: Vec<i64> = order[..sizes.len() - reduced.len()].iter().map(|d| sizes[*d]).collect();
    // Dimensions of size 1 do not contribute to a default layout, sparse or not.
    let real: Vec<i64> = kept.iter().copied().filter(|n| *n != 1).collect();
    // torch-spyre's rule: reducing along the stick gives a sparse result, one element per stick, because each lane of
    // the sum ends in a stick of its own.
    let layout = if lanes_reduced && !real.is_empty() {
        let sparse: Vec<i64> = (0..).take(real.len()).chain([-1]).collect();
        StickLayout::with_dim_order(&real, None, dtype, &sparse)?
    } else {
        StickLayout::default_for_dtype(&kept, dtype)?
    };
    let mut steps = row_major_strides(&kept)?;
    steps.resize(dims.len(), 0);
    let output = TensorAccess::new("output", AccessRole::Write, &layout, &dims, &steps)?;
    // The two have different measured rates: a sum along lanes adds up within sticks, one across rows adds whole
    // sticks.
    let kind = if lanes_reduced { WorkKind::RowReduction } else { WorkKind::CrossRowReduction };
    let effort = PointCost { kind, macs: 0, sfu: 1, transcendental: 0 };
    IterationSpace::new(dims, vec![input, output], effort)
}

/// A size, rounded up to whole sticks.
fn round_up_to_sticks(size: i64, dtype: Dtype) -> Result<i64> {
    let eps = zellige_stick::DataFormat::device_format_of(dtype)?.elems_per_stick().unwrap_or(1);
    let last = size.checked_add(eps - 1).ok_or_else(|| CompileError::Overflow {
        what: format!("a size of {size} in whole sticks of {eps}"),
    })?;
    Ok(last - last % eps)
}

fn matmul_space(
    batch: Option<i64>,
    shared: bool,
    [m, n, k]: [i64; 3],
    dtype: Dtype,
) -> Result<IterationSpace> {
    let mut dims = Vec::with_capacity(4);
    if let Some(b) = batch {
        dims.push(LoopDim::output("B", check_extent("B", b)?));
    }
    dims.push(LoopDim::output("M", check_extent("M", m)?));
    dims.push(LoopDim::output("N", check_extent("N", n)?));
    dims.push(LoopDim::reduced("K", check_extent("K", k)?));
    let tensor = |name: &str, role, batch: Option<i64>, rows: (usize, i64), cols: (usize, i64)| {
        let size: Vec<i64> = batch.into_iter().chain([rows.1, cols.1]).collect();
        let own = row_major_strides(&size)?;
        let first = dims.len() - 3;
        let mut steps = vec![0; dims.len()];
        steps[first + rows.0] = own[own.len() - 2];
        steps[first + cols.0] = own[own.len() - 1];
        if batch.is_some() {
            steps[0] = own[0];
        }
        TensorAccess::new(name, role, &layout_along_last(&size, dtype)?, &dims, &steps)
    };
    // Lanes of A past k meet rows of B past k, so B has whole sticks of them.
    let rows = round_up_to_sticks(k, dtype)?;
    let tensors = vec![
        tensor("A", AccessRole::Read, batch, (0, m), (2, k))?,
        tensor("B", AccessRole::Read, batch.filter(|_| !shared), (2, rows), (1, n))?,
        tensor("C", AccessRole::Write, batch, (0, m), (1, n))?,
    ];
    // A batch in the default layout has its batch dimension inside the rows, and torch-spyre measured such products
    // at a fraction of the rate of a plain one (160 against 1140 multiply-adds per nanosecond and core).
    let kind = match batch {
        Some(b) if !shared => WorkKind::BatchMatmulDefault { batch: check_extent("B", b)? },
        _ => WorkKind::Matmul,
    };
    let effort = PointCost { kind, macs: 1, sfu: 0, transcendental: 0 };
    IterationSpace::new(dims, tensors, effort)
}
