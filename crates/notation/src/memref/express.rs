//! Any layout as strides or as an affine map, or why there is none.

use super::affine::{AffineMap, Expr};
use super::{Form, MemrefLayout};
use crate::blocked::{Block, Digits};
use crate::convert::Refusal;
use zellige_layout::Layout;
use zellige_layout::int::product;

/// Strides where every dimension has one; else the coordinates of blocks where these follow one another in memory; else the
/// address as a sum. Whether the text is the layout is seen where it is read again ([`crate::convert::convert`]).
pub(super) fn express(layout: &Layout, shape: &[i64]) -> Result<MemrefLayout, Refusal> {
    let digits = Digits::of(layout, shape, "a memref")?;
    let found = if digits.dims.iter().all(|own| own.len() <= 1) {
        strided(&digits, shape)?
    } else {
        let results = match digits.dense_order(shape, false, |d| d.to_string()) {
            Ok(order) => order.iter().map(|b| block(&digits, b)).collect::<Result<_, _>>()?,
            Err(_) => vec![address(&digits)?],
        };
        MemrefLayout::alone(Form::Map(AffineMap { rank: shape.len(), results }))
    };
    Ok(found)
}

fn strided(digits: &Digits, shape: &[i64]) -> Result<MemrefLayout, Refusal> {
    // A dimension of extent 1 steps over the one after it, as in a row-major memref.
    let mut strides: Vec<i64> = vec![1; shape.len()];
    for d in (0..shape.len()).rev() {
        strides[d] = match digits.dims[d].first() {
            Some(digit) => digit.stride,
            None => strides.get(d + 1).map_or(1, |s| s.saturating_mul(shape[d + 1].max(1))),
        };
    }
    Ok(MemrefLayout::alone(Form::Strided(strides, digits.base)))
}

/// `floor(d / inner) mod count` of a digit, without what says nothing.
fn digit(digits: &Digits, dim: usize, k: usize, modulo: Option<i64>) -> Result<Expr, Refusal> {
    let inner = digits.dims[dim].iter().skip(k + 1).map(|d| d.extent);
    let inner = product(inner, "a block")?;
    let mut expr = Expr::Dim(dim);
    if inner > 1 {
        expr = Expr::FloorDiv(Box::new(expr), inner);
    }
    Ok(match modulo {
        Some(count) => Expr::Mod(Box::new(expr), count),
        None => expr,
    })
}

fn block(digits: &Digits, b: &Block) -> Result<Expr, Refusal> {
    // What is padded counts further than its elements; what is added counts nothing.
    if b.count == 1 {
        let past = product(digits.dims[b.dim].iter().map(|d| d.extent), "a block")?;
        let whole = Expr::FloorDiv(Box::new(Expr::Dim(b.dim)), past);
        let whole = if past == 1 { Expr::Dim(b.dim) } else { whole };
        return Ok(Expr::Mod(Box::new(whole), b.extent));
    }
    digit(digits, b.dim, b.digit, (!b.outer).then_some(b.extent))
}

fn address(digits: &Digits) -> Result<Expr, Refusal> {
    let mut sum: Option<Expr> = None;
    let mut add = |e: Expr| {
        sum = Some(match sum.take() {
            None => e,
            Some(s) => Expr::Add(Box::new(s), Box::new(e)),
        });
    };
    for (d, own) in digits.dims.iter().enumerate() {
        for (k, one) in own.iter().enumerate() {
            let value = digit(digits, d, k, (k > 0).then_some(one.extent))?;
            add(if one.stride == 1 { value } else { Expr::Mul(Box::new(value), one.stride) });
        }
    }
    if digits.base != 0 || sum.is_none() {
        let base = Expr::Constant(digits.base);
        sum = Some(match sum {
            None => base,
            Some(s) => Expr::Add(Box::new(s), Box::new(base)),
        });
    }
    Ok(sum.unwrap_or(Expr::Constant(0)))
}
