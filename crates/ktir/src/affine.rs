//! Affine expressions, maps and sets: they describe which elements a tile has.
//!
//! Dimensions and symbols are numbered; a text may use any names for them. `floordiv` rounds toward
//! minus infinity, `ceildiv` toward plus infinity, and `mod` is never negative. Factors and
//! divisors are constants.

mod bounds;
mod show;

pub use bounds::KtirSetBounds;
pub(crate) use bounds::extract_linear_form;
pub use show::KtirAffineNames;
pub(crate) use show::format_expr_with;

use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

/// An expression over dimensions and symbols.
///
/// ```
/// use zellige_ktir::affine::KtirAffineExpr;
/// let dim = KtirAffineExpr::dim(0);
/// let e = dim.clone() * 64 + KtirAffineExpr::symbol(0) - KtirAffineExpr::constant(1);
/// assert_eq!(e.to_string(), "d0 * 64 + s0 - 1");
/// assert_eq!(e.evaluate_at(&[2], &[7]), Some(134));
/// assert_eq!(dim.floor_div(4).unwrap().evaluate_at(&[-1], &[]), Some(-1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KtirAffineExpr(pub(crate) KtirAffineNode);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum KtirAffineNode {
    Const(i64),
    Dim(usize),
    Symbol(usize),
    Add(Box<KtirAffineExpr>, Box<KtirAffineExpr>),
    Mul(Box<KtirAffineExpr>, i64),
    FloorDiv(Box<KtirAffineExpr>, i64),
    CeilDiv(Box<KtirAffineExpr>, i64),
    Mod(Box<KtirAffineExpr>, i64),
}

impl KtirAffineExpr {
    /// Dimension `i`.
    pub fn dim(i: usize) -> KtirAffineExpr {
        KtirAffineExpr(KtirAffineNode::Dim(i))
    }

    /// Symbol `i`.
    pub fn symbol(i: usize) -> KtirAffineExpr {
        KtirAffineExpr(KtirAffineNode::Symbol(i))
    }

    /// A number.
    pub fn constant(value: i64) -> KtirAffineExpr {
        KtirAffineExpr(KtirAffineNode::Const(value))
    }

    /// The quotient rounded toward minus infinity; none unless the divisor is positive.
    pub fn floor_div(self, by: i64) -> Option<KtirAffineExpr> {
        // MLIR requires a positive constant on the right of `floordiv`, `ceildiv` and `mod`.
        // Refusing the others here means that evaluation needs no check for zero and no rule for
        // the sign of a remainder.
        (by > 0).then(|| KtirAffineExpr(KtirAffineNode::FloorDiv(Box::new(self), by)))
    }

    /// The quotient rounded toward infinity; none unless the divisor is positive.
    pub fn ceil_div(self, by: i64) -> Option<KtirAffineExpr> {
        (by > 0).then(|| KtirAffineExpr(KtirAffineNode::CeilDiv(Box::new(self), by)))
    }

    /// The remainder that is not negative; none unless the divisor is positive.
    pub fn modulo(self, by: i64) -> Option<KtirAffineExpr> {
        (by > 0).then(|| KtirAffineExpr(KtirAffineNode::Mod(Box::new(self), by)))
    }

    /// The number, if the expression is a constant.
    pub fn as_constant(&self) -> Option<i64> {
        if let KtirAffineNode::Const(c) = self.0 { Some(c) } else { None }
    }

    /// The dimension, if the expression is exactly one dimension.
    pub fn as_dim(&self) -> Option<usize> {
        if let KtirAffineNode::Dim(d) = self.0 { Some(d) } else { None }
    }

    /// Its value; `None` where a number does not fit in 64 bits or a dimension or symbol has no
    /// value.
    pub fn evaluate_at(&self, dims: &[i64], symbols: &[i64]) -> Option<i64> {
        let of = |e: &KtirAffineExpr| e.evaluate_at(dims, symbols);
        match &self.0 {
            KtirAffineNode::Const(c) => Some(*c),
            KtirAffineNode::Dim(d) => dims.get(*d).copied(),
            KtirAffineNode::Symbol(s) => symbols.get(*s).copied(),
            KtirAffineNode::Add(a, b) => of(a)?.checked_add(of(b)?),
            KtirAffineNode::Mul(a, k) => of(a)?.checked_mul(*k),
            // For a positive divisor Euclidean division is the floor that the dialect asks for, and
            // the quotient cannot overflow, because only division by -1 can.
            KtirAffineNode::FloorDiv(a, k) => Some(of(a)?.div_euclid(*k)),
            KtirAffineNode::CeilDiv(a, k) => {
                let (a, k) = (of(a)?, *k);
                // A remainder exists only for `k >= 2`, so the quotient is at most half of the
                // range and adding 1 fits.
                Some(a.div_euclid(k) + i64::from(a.rem_euclid(k) != 0))
            }
            KtirAffineNode::Mod(a, k) => Some(of(a)?.rem_euclid(*k)),
        }
    }

    /// The number of its nodes, which is the cost of evaluating it.
    pub(crate) fn count_nodes(&self) -> usize {
        match &self.0 {
            KtirAffineNode::Const(_) | KtirAffineNode::Dim(_) | KtirAffineNode::Symbol(_) => 1,
            KtirAffineNode::Add(a, b) => 1 + a.count_nodes() + b.count_nodes(),
            KtirAffineNode::Mul(a, _)
            | KtirAffineNode::FloorDiv(a, _)
            | KtirAffineNode::CeilDiv(a, _)
            | KtirAffineNode::Mod(a, _) => 1 + a.count_nodes(),
        }
    }

    /// Calls `f` with every dimension (true) and symbol (false) that is mentioned.
    pub(crate) fn visit_mentions(&self, f: &mut impl FnMut(bool, usize)) {
        match &self.0 {
            KtirAffineNode::Const(_) => {}
            KtirAffineNode::Dim(d) => f(true, *d),
            KtirAffineNode::Symbol(s) => f(false, *s),
            KtirAffineNode::Add(a, b) => {
                a.visit_mentions(f);
                b.visit_mentions(f);
            }
            KtirAffineNode::Mul(a, _)
            | KtirAffineNode::FloorDiv(a, _)
            | KtirAffineNode::CeilDiv(a, _)
            | KtirAffineNode::Mod(a, _) => {
                a.visit_mentions(f);
            }
        }
    }

    /// The same expression with its dimensions renumbered by `f`.
    /// The same expression with symbol `i` as dimension `dims + i`.
    pub(crate) fn symbols_as_dims(&self, dims: usize) -> KtirAffineExpr {
        let of = |e: &KtirAffineExpr| Box::new(e.symbols_as_dims(dims));
        KtirAffineExpr(match &self.0 {
            KtirAffineNode::Symbol(s) => KtirAffineNode::Dim(dims + s),
            KtirAffineNode::Add(a, b) => KtirAffineNode::Add(of(a), of(b)),
            KtirAffineNode::Mul(a, k) => KtirAffineNode::Mul(of(a), *k),
            KtirAffineNode::FloorDiv(a, k) => KtirAffineNode::FloorDiv(of(a), *k),
            KtirAffineNode::CeilDiv(a, k) => KtirAffineNode::CeilDiv(of(a), *k),
            KtirAffineNode::Mod(a, k) => KtirAffineNode::Mod(of(a), *k),
            other => other.clone(),
        })
    }

    pub(crate) fn rename_dims(&self, f: &mut impl FnMut(usize) -> usize) -> KtirAffineExpr {
        let mut of = |e: &KtirAffineExpr| Box::new(e.rename_dims(f));
        KtirAffineExpr(match &self.0 {
            KtirAffineNode::Const(_) | KtirAffineNode::Symbol(_) => self.0.clone(),
            KtirAffineNode::Dim(d) => KtirAffineNode::Dim(f(*d)),
            KtirAffineNode::Add(a, b) => {
                // The left operand is renamed first: a caller numbers values in the order in which
                // the text mentions them.
                let a = of(a);
                KtirAffineNode::Add(a, of(b))
            }
            KtirAffineNode::Mul(a, k) => KtirAffineNode::Mul(of(a), *k),
            KtirAffineNode::FloorDiv(a, k) => KtirAffineNode::FloorDiv(of(a), *k),
            KtirAffineNode::CeilDiv(a, k) => KtirAffineNode::CeilDiv(of(a), *k),
            KtirAffineNode::Mod(a, k) => KtirAffineNode::Mod(of(a), *k),
        })
    }

    fn check_indices(&self, dims: usize, symbols: usize) -> Result<(), KtirAffineError> {
        // The visitor cannot stop early, so the first wrong index is kept: it is the one that a
        // reader of the text meets first.
        let mut bad = None;
        self.visit_mentions(&mut |is_dim, i| {
            let count = if is_dim { dims } else { symbols };
            if i >= count && bad.is_none() {
                let what = if is_dim { "dimension" } else { "symbol" };
                bad = Some(KtirAffineError { what, index: i, count });
            }
        });
        bad.map_or(Ok(()), Err)
    }
}

impl Add for KtirAffineExpr {
    type Output = KtirAffineExpr;
    fn add(self, other: KtirAffineExpr) -> KtirAffineExpr {
        // Only two constants are folded. Any further simplification would give a tree that differs
        // from the text that it was read from, and `parse(print(m)) == m` compares trees. A sum
        // that does not fit stays a tree, whose evaluation then reports the overflow.
        let folded = match (&self.0, &other.0) {
            (KtirAffineNode::Const(a), KtirAffineNode::Const(b)) => a.checked_add(*b),
            _ => None,
        };
        folded.map_or_else(
            || KtirAffineExpr(KtirAffineNode::Add(Box::new(self), Box::new(other))),
            KtirAffineExpr::constant,
        )
    }
}

impl Mul<i64> for KtirAffineExpr {
    type Output = KtirAffineExpr;
    fn mul(self, by: i64) -> KtirAffineExpr {
        // Folding a constant times a constant is what lets the reader treat `-1` and `2 * 64` as
        // numbers, which the right side of a division has to be.
        let folded = self.as_constant().and_then(|c| c.checked_mul(by));
        folded.map_or_else(
            || KtirAffineExpr(KtirAffineNode::Mul(Box::new(self), by)),
            KtirAffineExpr::constant,
        )
    }
}

impl Neg for KtirAffineExpr {
    type Output = KtirAffineExpr;
    fn neg(self) -> KtirAffineExpr {
        self * -1
    }
}

impl Sub for KtirAffineExpr {
    type Output = KtirAffineExpr;
    fn sub(self, other: KtirAffineExpr) -> KtirAffineExpr {
        // A difference has no node of its own, so that one set has one tree whether it was built or
        // read; the printer writes a factor of -1 as a minus sign again.
        self + -other
    }
}

/// An expression that mentions a dimension or symbol that its map or set does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {index} is mentioned, but there are {count}")]
pub struct KtirAffineError {
    /// `dimension` or `symbol`.
    pub what: &'static str,
    /// Its index.
    pub index: usize,
    /// How many the map or set has.
    pub count: usize,
}

/// A map: each result is an expression of the dimensions and symbols.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KtirAffineMap {
    dims: usize,
    symbols: usize,
    // Shared: a text may use one alias any number of times.
    results: Arc<[KtirAffineExpr]>,
}

impl KtirAffineMap {
    /// Makes a map with this many dimensions and symbols.
    ///
    /// # Errors
    /// A result that mentions other dimensions or symbols.
    pub fn new(
        dims: usize,
        symbols: usize,
        results: Vec<KtirAffineExpr>,
    ) -> Result<KtirAffineMap, KtirAffineError> {
        results.iter().try_for_each(|e| e.check_indices(dims, symbols))?;
        Ok(KtirAffineMap { dims, symbols, results: results.into() })
    }

    /// `(d0, d1, ..) -> (d0, d1, ..)`.
    pub fn identity(rank: usize) -> KtirAffineMap {
        KtirAffineMap {
            dims: rank,
            symbols: 0,
            results: (0..rank).map(KtirAffineExpr::dim).collect(),
        }
    }

    /// `(d0, .., dn) -> (d_i for i in dims)`: a permutation, or a projection.
    ///
    /// # Errors
    /// A dimension out of range.
    pub fn select_dims(rank: usize, dims: &[usize]) -> Result<KtirAffineMap, KtirAffineError> {
        KtirAffineMap::new(rank, 0, dims.iter().map(|d| KtirAffineExpr::dim(*d)).collect())
    }

    /// How many dimensions it takes.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// How many symbols it takes.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// Its results.
    pub fn results(&self) -> &[KtirAffineExpr] {
        &self.results
    }

    /// The cost of evaluating it, in nodes of its expressions.
    pub(crate) fn count_nodes(&self) -> usize {
        self.results.iter().map(KtirAffineExpr::count_nodes).sum()
    }

    /// Its results at a point.
    pub fn evaluate_at(&self, dims: &[i64], symbols: &[i64]) -> Option<Vec<i64>> {
        self.results.iter().map(|e| e.evaluate_at(dims, symbols)).collect()
    }

    /// Whether it is the identity.
    pub fn is_identity(&self) -> bool {
        self.results.len() == self.dims
            && self.results.iter().enumerate().all(|(i, e)| e.as_dim() == Some(i))
    }

    /// The dimensions that are its results, if every result is a plain dimension.
    pub fn selected_dims(&self) -> Option<Vec<usize>> {
        self.results.iter().map(KtirAffineExpr::as_dim).collect()
    }
}

/// One condition of a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KtirAffineConstraint {
    /// The expression that is compared with zero.
    pub expr: KtirAffineExpr,
    /// `== 0`, or else `>= 0`.
    pub equal: bool,
}

/// A set of points: those that satisfy all conditions.
///
/// ```
/// use zellige_ktir::affine::KtirAffineSet;
/// let set = KtirAffineSet::from_extents(&[2, 64]);
/// assert_eq!(
///     set.to_string(),
///     "affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 63 >= 0)>"
/// );
/// assert!(set.contains(&[1, 63], &[]) && !set.contains(&[2, 0], &[]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KtirAffineSet {
    dims: usize,
    symbols: usize,
    // Shared: a text may use one alias any number of times.
    constraints: Arc<[KtirAffineConstraint]>,
}

impl KtirAffineSet {
    /// Makes a set with this many dimensions and symbols.
    ///
    /// # Errors
    /// A condition that mentions other dimensions or symbols.
    pub fn new(
        dims: usize,
        symbols: usize,
        constraints: Vec<KtirAffineConstraint>,
    ) -> Result<KtirAffineSet, KtirAffineError> {
        constraints.iter().try_for_each(|c| c.expr.check_indices(dims, symbols))?;
        Ok(KtirAffineSet { dims, symbols, constraints: constraints.into() })
    }

    /// `0 <= d_i < extents[i]`.
    pub fn from_extents(extents: &[i64]) -> KtirAffineSet {
        let origin = vec![0; extents.len()];
        KtirAffineSet::box_at(&origin, extents)
    }

    /// `origin[i] <= d_i < origin[i] + extents[i]`; as many extents as the shorter list has.
    pub fn box_at(origin: &[i64], extents: &[i64]) -> KtirAffineSet {
        let mut constraints = Vec::new();
        for (i, (from, n)) in origin.iter().zip(extents).enumerate() {
            // `d0 >= 0` rather than `d0 - 0 >= 0`: the same set built at the origin and read from a
            // hand-written text has to be equal, or it would get a second alias.
            let low = if *from == 0 {
                KtirAffineExpr::dim(i)
            } else {
                KtirAffineExpr::dim(i) - KtirAffineExpr::constant(*from)
            };
            // A box beyond 64 bits is refused by the verifier with its place. Saturating keeps the
            // constructor free of a panic until then, and a saturated bound only makes the set
            // larger.
            let last = from.saturating_add(*n).saturating_sub(1);
            let high = -KtirAffineExpr::dim(i) + KtirAffineExpr::constant(last);
            constraints.extend([low, high].map(|expr| KtirAffineConstraint { expr, equal: false }));
        }
        let dims = origin.len().min(extents.len());
        KtirAffineSet { dims, symbols: 0, constraints: constraints.into() }
    }

    /// How many dimensions its points have.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// How many symbols it takes.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// Its conditions.
    pub fn constraints(&self) -> &[KtirAffineConstraint] {
        &self.constraints
    }

    /// The cost of testing one point, in nodes of its expressions.
    pub(crate) fn count_nodes(&self) -> usize {
        self.constraints.iter().map(|c| c.expr.count_nodes()).sum()
    }

    /// Whether a point is in the set; false where a value does not fit in 64 bits.
    pub fn contains(&self, point: &[i64], symbols: &[i64]) -> bool {
        self.constraints.iter().all(|c| {
            let value = c.expr.evaluate_at(point, symbols);
            // A condition whose value does not fit in 64 bits counts as not met: a point outside is
            // refused with its coordinates, while a point that is wrongly inside would be an access
            // to the wrong element.
            value.is_some_and(|v| if c.equal { v == 0 } else { v >= 0 })
        })
    }
}
