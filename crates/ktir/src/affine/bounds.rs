//! Bounding boxes of sets, from the conditions that mention a single dimension, and the points of a
//! set.

use super::{KtirAffineExpr, KtirAffineNode, KtirAffineSet};

/// A box around a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KtirSetBounds {
    /// The first coordinate of each dimension.
    pub low: Vec<i64>,
    /// How many coordinates each dimension has.
    pub extents: Vec<i64>,
    /// Whether the set equals the box.
    pub exact: bool,
}

impl KtirSetBounds {
    /// The number of points of the box; `None` where it does not fit in 64 bits.
    pub fn point_count(&self) -> Option<i64> {
        self.extents.iter().try_fold(1_i64, |n, e| n.checked_mul(*e))
    }
}

/// A linear expression: the coefficients of the dimensions, and the constant.
pub(crate) struct KtirLinearForm {
    pub(crate) coefficients: Vec<i64>,
    pub(crate) constant: i64,
}

/// An expression as a sum of multiples of dimensions, for these values of the symbols; `None` where it has another form.
pub(crate) fn extract_linear_form(
    e: &KtirAffineExpr,
    dims: usize,
    symbols: &[i64],
) -> Option<KtirLinearForm> {
    let zero = || vec![0; dims];
    match &e.0 {
        KtirAffineNode::Const(c) => Some(KtirLinearForm { coefficients: zero(), constant: *c }),
        KtirAffineNode::Symbol(s) => {
            Some(KtirLinearForm { coefficients: zero(), constant: *symbols.get(*s)? })
        }
        KtirAffineNode::Dim(d) => {
            let mut coefficients = zero();
            *coefficients.get_mut(*d)? = 1;
            Some(KtirLinearForm { coefficients, constant: 0 })
        }
        KtirAffineNode::Add(a, b) => {
            let (mut a, b) =
                (extract_linear_form(a, dims, symbols)?, extract_linear_form(b, dims, symbols)?);
            for (x, y) in a.coefficients.iter_mut().zip(&b.coefficients) {
                // Coefficients of a text can be as large as they like. One that does not fit makes
                // the condition count as not linear, which costs exactness of the box and nothing
                // else.
                *x = x.checked_add(*y)?;
            }
            a.constant = a.constant.checked_add(b.constant)?;
            Some(a)
        }
        KtirAffineNode::Mul(a, k) => {
            let mut a = extract_linear_form(a, dims, symbols)?;
            for x in &mut a.coefficients {
                *x = x.checked_mul(*k)?;
            }
            a.constant = a.constant.checked_mul(*k)?;
            Some(a)
        }
        // A quotient of symbols alone is a constant here, because the values of the symbols are
        // known.
        KtirAffineNode::FloorDiv(a, _)
        | KtirAffineNode::CeilDiv(a, _)
        | KtirAffineNode::Mod(a, _) => {
            let inner = extract_linear_form(a, dims, symbols)?;
            if inner.coefficients.iter().any(|c| *c != 0) {
                return None;
            }
            Some(KtirLinearForm {
                coefficients: zero(),
                constant: e.evaluate_at(&zero(), symbols)?,
            })
        }
    }
}

impl KtirAffineSet {
    /// A box around the set for these values of the symbols; `None` where no single condition
    /// bounds a dimension.
    ///
    /// Law: every point of the set is in the box, and where `exact`, every point of the box is in
    /// the set.
    pub fn bounding_box(&self, symbols: &[i64]) -> Option<KtirSetBounds> {
        if symbols.len() < self.symbols {
            return None;
        }
        let mut low = vec![i64::MIN; self.dims];
        let mut high = vec![i64::MAX; self.dims];
        let (mut exact, mut empty) = (true, false);
        for c in self.constraints.iter() {
            let Some(l) = extract_linear_form(&c.expr, self.dims, symbols) else {
                // Leaving out a condition can only make the box larger, so the law "every point of
                // the set is in the box" holds; only `exact` has to be given up.
                exact = false;
                continue;
            };
            let mut used = l.coefficients.iter().enumerate().filter(|(_, k)| **k != 0);
            match (used.next(), used.next()) {
                // A condition without dimensions, such as `s0 - 4 >= 0`, holds for all points or
                // for none.
                (None, _) => {
                    empty |= if c.equal { l.constant != 0 } else { l.constant < 0 };
                }
                (Some((d, k)), None) => {
                    // k d + c >= 0, and for an equality also -k d - c >= 0.
                    let sides = [(*k, l.constant), (k.checked_neg()?, l.constant.checked_neg()?)];
                    for (k, c) in &sides[..if c.equal { 2 } else { 1 }] {
                        // `k d + c >= 0` means `d >= -c / k`, rounded up, for a positive k, and `d
                        // <= c / -k`, rounded down, for a negative one. Rounding toward minus
                        // infinity gives both, because `ceil(-c / k) = -floor(c / k)`.
                        if *k > 0 {
                            let bound = c.div_euclid(*k).checked_neg()?;
                            low[d] = low[d].max(bound);
                        } else {
                            let bound = c.div_euclid(k.checked_neg()?);
                            high[d] = high[d].min(bound);
                        }
                    }
                }
                // A condition on two dimensions at once, such as `d0 + d1 <= 7`, bounds neither of
                // them alone. Looking for what several such conditions imply together would be
                // integer programming; points are tested instead.
                (Some(_), Some(_)) => exact = false,
            }
        }
        if empty {
            let extents = vec![0; self.dims];
            // A box without points is equal to a set without points, whatever the other conditions
            // say.
            return Some(KtirSetBounds { low: vec![0; self.dims], extents, exact: true });
        }
        let mut extents = Vec::with_capacity(self.dims);
        for (l, h) in low.iter().zip(&high) {
            // The initial values are still there, so no condition bounds this side, and there is no
            // box.
            if *l == i64::MIN || *h == i64::MAX {
                return None;
            }
            // Contradicting bounds such as `d0 >= 5, d0 <= 3` give a negative difference, which is
            // an empty dimension.
            extents.push(h.checked_sub(*l)?.checked_add(1)?.max(0));
        }
        Some(KtirSetBounds { low, extents, exact })
    }

    /// The points of the set in lexicographic order; `None` where its bounding box has more than
    /// `limit` points.
    pub fn list_points(&self, symbols: &[i64], limit: i64) -> Option<Vec<Vec<i64>>> {
        let bounds = self.bounding_box(symbols)?;
        // The limit is on the box and not on the set, because the loop below visits every point of
        // the box.
        let count = bounds.point_count().filter(|n| *n <= limit)?;
        let mut points = Vec::new();
        if count == 0 {
            return Some(points);
        }
        let mut at = bounds.low.clone();
        loop {
            // In an exact box every point belongs to the set, which saves the evaluation of every
            // condition per point.
            if bounds.exact || self.contains(&at, symbols) {
                points.push(at.clone());
            }
            let mut d = self.dims;
            loop {
                if d == 0 {
                    return Some(points);
                }
                d -= 1;
                at[d] += 1;
                if at[d] < bounds.low[d] + bounds.extents[d] {
                    break;
                }
                at[d] = bounds.low[d];
            }
        }
    }
}
