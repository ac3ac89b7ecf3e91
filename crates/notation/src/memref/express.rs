//! Any layout as strides or as an affine map, or why there is none.

use super::affine::{AffineMap, AffineMapExpr};
use super::{MemrefForm, MemrefLayout};
use crate::blocked::{BlockedDigits, DigitBlock};
use crate::convert::ConversionRefusal;
use zellige_layout::Layout;
use zellige_layout::int::checked_product;

/// Strides if every dimension has one; else the coordinates of blocks, if these are dense in memory; else
/// the address as a sum. That the text is the layout is proved where it is parsed again
/// ([`crate::convert::convert_layout`]).
pub(super) fn express_as_memref(
    layout: &Layout,
    shape: &[i64],
) -> Result<MemrefLayout, ConversionRefusal> {
    let digits = BlockedDigits::from_layout(layout, shape, "a memref")?;
    let found = if digits.dims.iter().all(|own| own.len() <= 1) {
        express_as_strides(&digits, shape)?
    } else {
        let results = match digits.dense_block_order(shape, false, |d| d.to_string()) {
            Ok(order) => {
                order.iter().map(|b| block_as_affine(&digits, b)).collect::<Result<_, _>>()?
            }
            Err(_) => vec![address_as_affine(&digits)?],
        };
        MemrefLayout::without_type(MemrefForm::Map(AffineMap { rank: shape.len(), results }))
    };
    Ok(found)
}

fn express_as_strides(
    digits: &BlockedDigits,
    shape: &[i64],
) -> Result<MemrefLayout, ConversionRefusal> {
    // No element depends on the stride of a dimension of extent 1; it gets the value of a row-major memref,
    // so that an ordinary memref prints in its ordinary form.
    let mut strides: Vec<i64> = vec![1; shape.len()];
    for d in (0..shape.len()).rev() {
        strides[d] = match digits.dims[d].first() {
            Some(digit) => digit.stride,
            None => strides.get(d + 1).map_or(1, |s| s.saturating_mul(shape[d + 1].max(1))),
        };
    }
    Ok(MemrefLayout::without_type(MemrefForm::Strided(strides, digits.base)))
}

/// `floor(d / inner) mod count` of a digit, without a division by 1 and without an unneeded modulus.
fn digit_as_affine(
    digits: &BlockedDigits,
    dim: usize,
    k: usize,
    modulo: Option<i64>,
) -> Result<AffineMapExpr, ConversionRefusal> {
    let inner = digits.dims[dim].iter().skip(k + 1).map(|d| d.extent);
    let inner = checked_product(inner, "a block")?;
    let mut expr = AffineMapExpr::Dim(dim);
    if inner > 1 {
        expr = AffineMapExpr::FloorDiv(Box::new(expr), inner);
    }
    Ok(match modulo {
        Some(count) => AffineMapExpr::Mod(Box::new(expr), count),
        None => expr,
    })
}

fn block_as_affine(
    digits: &BlockedDigits,
    b: &DigitBlock,
) -> Result<AffineMapExpr, ConversionRefusal> {
    // A block of padding has one value, but extents are computed from the map, so it is written as a
    // modulus that is always 0 and has the padded extent.
    if b.count == 1 {
        let past = checked_product(digits.dims[b.dim].iter().map(|d| d.extent), "a block")?;
        let whole = AffineMapExpr::FloorDiv(Box::new(AffineMapExpr::Dim(b.dim)), past);
        let whole = if past == 1 { AffineMapExpr::Dim(b.dim) } else { whole };
        return Ok(AffineMapExpr::Mod(Box::new(whole), b.extent));
    }
    digit_as_affine(digits, b.dim, b.digit, (!b.outer).then_some(b.extent))
}

fn address_as_affine(digits: &BlockedDigits) -> Result<AffineMapExpr, ConversionRefusal> {
    let mut sum: Option<AffineMapExpr> = None;
    let mut add = |e: AffineMapExpr| {
        sum = Some(match sum.take() {
            None => e,
            Some(s) => AffineMapExpr::Add(Box::new(s), Box::new(e)),
        });
    };
    for (d, own) in digits.dims.iter().enumerate() {
        for (k, one) in own.iter().enumerate() {
            let value = digit_as_affine(digits, d, k, (k > 0).then_some(one.extent))?;
            add(if one.stride == 1 {
                value
            } else {
                AffineMapExpr::Mul(Box::new(value), one.stride)
            });
        }
    }
    if digits.base != 0 || sum.is_none() {
        let base = AffineMapExpr::Constant(digits.base);
        sum = Some(match sum {
            None => base,
            Some(s) => AffineMapExpr::Add(Box::new(s), Box::new(base)),
        });
    }
    Ok(sum.unwrap_or(AffineMapExpr::Constant(0)))
}
