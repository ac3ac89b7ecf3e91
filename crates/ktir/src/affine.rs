//! Affine expressions, maps and sets: how KTIR says which elements a tile has.
//!
//! Dimensions and symbols are numbered; a text may name them as it likes. Division and remainder are
//! those of floors: `floordiv` rounds toward minus infinity and `mod` is never negative. Factors and
//! divisors are constants.

mod bounds;
mod show;

pub use bounds::Bounds;
pub use show::Names;
pub(crate) use show::show_with;

use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

/// An expression over dimensions and symbols.
///
/// ```
/// use zellige_ktir::affine::Expr;
/// let e = Expr::dim(0) * 64 + Expr::symbol(0) - Expr::constant(1);
/// assert_eq!(e.to_string(), "d0 * 64 + s0 - 1");
/// assert_eq!(e.eval(&[2], &[7]), Some(134));
/// assert_eq!(Expr::dim(0).floor_div(4).unwrap().eval(&[-1], &[]), Some(-1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expr(pub(crate) Node);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Const(i64),
    Dim(usize),
    Symbol(usize),
    Add(Box<Expr>, Box<Expr>),
    Mul(Box<Expr>, i64),
    FloorDiv(Box<Expr>, i64),
    CeilDiv(Box<Expr>, i64),
    Mod(Box<Expr>, i64),
}

impl Expr {
    /// Dimension `i`.
    pub fn dim(i: usize) -> Expr {
        Expr(Node::Dim(i))
    }

    /// Symbol `i`.
    pub fn symbol(i: usize) -> Expr {
        Expr(Node::Symbol(i))
    }

    /// A number.
    pub fn constant(value: i64) -> Expr {
        Expr(Node::Const(value))
    }

    /// The quotient rounded toward minus infinity; none unless the divisor is positive.
    pub fn floor_div(self, by: i64) -> Option<Expr> {
        (by > 0).then(|| Expr(Node::FloorDiv(Box::new(self), by)))
    }

    /// The quotient rounded toward infinity; none unless the divisor is positive.
    pub fn ceil_div(self, by: i64) -> Option<Expr> {
        (by > 0).then(|| Expr(Node::CeilDiv(Box::new(self), by)))
    }

    /// The remainder that is not negative; none unless the divisor is positive.
    pub fn modulo(self, by: i64) -> Option<Expr> {
        (by > 0).then(|| Expr(Node::Mod(Box::new(self), by)))
    }

    /// The number, if it is one.
    pub fn as_constant(&self) -> Option<i64> {
        if let Node::Const(c) = self.0 { Some(c) } else { None }
    }

    /// The dimension, if it is nothing else.
    pub fn as_dim(&self) -> Option<usize> {
        if let Node::Dim(d) = self.0 { Some(d) } else { None }
    }

    /// Its value; none where a number does not fit in 64 bits or an index is not given.
    pub fn eval(&self, dims: &[i64], symbols: &[i64]) -> Option<i64> {
        let of = |e: &Expr| e.eval(dims, symbols);
        match &self.0 {
            Node::Const(c) => Some(*c),
            Node::Dim(d) => dims.get(*d).copied(),
            Node::Symbol(s) => symbols.get(*s).copied(),
            Node::Add(a, b) => of(a)?.checked_add(of(b)?),
            Node::Mul(a, k) => of(a)?.checked_mul(*k),
            Node::FloorDiv(a, k) => Some(of(a)?.div_euclid(*k)),
            Node::CeilDiv(a, k) => {
                let (a, k) = (of(a)?, *k);
                Some(a.div_euclid(k) + i64::from(a.rem_euclid(k) != 0))
            }
            Node::Mod(a, k) => Some(of(a)?.rem_euclid(*k)),
        }
    }

    /// How many nodes it has: what evaluating it takes.
    pub(crate) fn nodes(&self) -> usize {
        match &self.0 {
            Node::Const(_) | Node::Dim(_) | Node::Symbol(_) => 1,
            Node::Add(a, b) => 1 + a.nodes() + b.nodes(),
            Node::Mul(a, _) | Node::FloorDiv(a, _) | Node::CeilDiv(a, _) | Node::Mod(a, _) => {
                1 + a.nodes()
            }
        }
    }

    /// Calls `f` with every dimension (true) and symbol (false) that is mentioned.
    pub(crate) fn mentions(&self, f: &mut impl FnMut(bool, usize)) {
        match &self.0 {
            Node::Const(_) => {}
            Node::Dim(d) => f(true, *d),
            Node::Symbol(s) => f(false, *s),
            Node::Add(a, b) => {
                a.mentions(f);
                b.mentions(f);
            }
            Node::Mul(a, _) | Node::FloorDiv(a, _) | Node::CeilDiv(a, _) | Node::Mod(a, _) => {
                a.mentions(f);
            }
        }
    }

    /// The same with other dimensions.
    pub(crate) fn renamed(&self, f: &mut impl FnMut(usize) -> usize) -> Expr {
        let mut of = |e: &Expr| Box::new(e.renamed(f));
        Expr(match &self.0 {
            Node::Const(_) | Node::Symbol(_) => self.0.clone(),
            Node::Dim(d) => Node::Dim(f(*d)),
            Node::Add(a, b) => {
                let a = of(a);
                Node::Add(a, of(b))
            }
            Node::Mul(a, k) => Node::Mul(of(a), *k),
            Node::FloorDiv(a, k) => Node::FloorDiv(of(a), *k),
            Node::CeilDiv(a, k) => Node::CeilDiv(of(a), *k),
            Node::Mod(a, k) => Node::Mod(of(a), *k),
        })
    }

    fn check(&self, dims: usize, symbols: usize) -> Result<(), AffineError> {
        let mut bad = None;
        self.mentions(&mut |is_dim, i| {
            let count = if is_dim { dims } else { symbols };
            if i >= count && bad.is_none() {
                let what = if is_dim { "dimension" } else { "symbol" };
                bad = Some(AffineError { what, index: i, count });
            }
        });
        bad.map_or(Ok(()), Err)
    }
}

impl Add for Expr {
    type Output = Expr;
    fn add(self, other: Expr) -> Expr {
        let folded = match (&self.0, &other.0) {
            (Node::Const(a), Node::Const(b)) => a.checked_add(*b),
            _ => None,
        };
        folded.map_or_else(|| Expr(Node::Add(Box::new(self), Box::new(other))), Expr::constant)
    }
}

impl Mul<i64> for Expr {
    type Output = Expr;
    fn mul(self, by: i64) -> Expr {
        let folded = self.as_constant().and_then(|c| c.checked_mul(by));
        folded.map_or_else(|| Expr(Node::Mul(Box::new(self), by)), Expr::constant)
    }
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self * -1
    }
}

impl Sub for Expr {
    type Output = Expr;
    fn sub(self, other: Expr) -> Expr {
        self + -other
    }
}

/// An expression that mentions a dimension or symbol that its map or set does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {index} is mentioned, but there are {count}")]
pub struct AffineError {
    /// `dimension` or `symbol`.
    pub what: &'static str,
    /// Which one.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

/// A map: each result is an expression of the dimensions and symbols.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Map {
    dims: usize,
    symbols: usize,
    // Shared: a text may use one alias any number of times.
    results: Arc<[Expr]>,
}

impl Map {
    /// A map of so many dimensions and symbols.
    ///
    /// # Errors
    /// A result that mentions others.
    pub fn new(dims: usize, symbols: usize, results: Vec<Expr>) -> Result<Map, AffineError> {
        results.iter().try_for_each(|e| e.check(dims, symbols))?;
        Ok(Map { dims, symbols, results: results.into() })
    }

    /// `(d0, d1, ..) -> (d0, d1, ..)`.
    pub fn identity(rank: usize) -> Map {
        Map { dims: rank, symbols: 0, results: (0..rank).map(Expr::dim).collect() }
    }

    /// `(d0, .., dn) -> (d_i for i in dims)`: a permutation, or a projection.
    ///
    /// # Errors
    /// A dimension that is not there.
    pub fn select(rank: usize, dims: &[usize]) -> Result<Map, AffineError> {
        Map::new(rank, 0, dims.iter().map(|d| Expr::dim(*d)).collect())
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
    pub fn results(&self) -> &[Expr] {
        &self.results
    }

    /// What evaluating it takes, in nodes of its expressions.
    pub(crate) fn nodes(&self) -> usize {
        self.results.iter().map(Expr::nodes).sum()
    }

    /// Its results at a point.
    pub fn eval(&self, dims: &[i64], symbols: &[i64]) -> Option<Vec<i64>> {
        self.results.iter().map(|e| e.eval(dims, symbols)).collect()
    }

    /// Whether it is the identity.
    pub fn is_identity(&self) -> bool {
        self.results.len() == self.dims
            && self.results.iter().enumerate().all(|(i, e)| e.as_dim() == Some(i))
    }

    /// The dimensions that are its results, where all of them are.
    pub fn selected(&self) -> Option<Vec<usize>> {
        self.results.iter().map(Expr::as_dim).collect()
    }
}

/// One condition of a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Constraint {
    /// What is compared with zero.
    pub expr: Expr,
    /// `== 0`, or else `>= 0`.
    pub equal: bool,
}

/// A set of points: those where all its conditions hold.
///
/// ```
/// use zellige_ktir::affine::Set;
/// let set = Set::boxed(&[2, 64]);
/// assert_eq!(
///     set.to_string(),
///     "affine_set<(d0, d1) : (d0 >= 0, -d0 + 1 >= 0, d1 >= 0, -d1 + 63 >= 0)>"
/// );
/// assert!(set.contains(&[1, 63], &[]) && !set.contains(&[2, 0], &[]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Set {
    dims: usize,
    symbols: usize,
    // Shared: a text may use one alias any number of times.
    constraints: Arc<[Constraint]>,
}

impl Set {
    /// A set of so many dimensions and symbols.
    ///
    /// # Errors
    /// A condition that mentions others.
    pub fn new(
        dims: usize,
        symbols: usize,
        constraints: Vec<Constraint>,
    ) -> Result<Set, AffineError> {
        constraints.iter().try_for_each(|c| c.expr.check(dims, symbols))?;
        Ok(Set { dims, symbols, constraints: constraints.into() })
    }

    /// `0 <= d_i < extents[i]`.
    pub fn boxed(extents: &[i64]) -> Set {
        let origin = vec![0; extents.len()];
        Set::box_at(&origin, extents)
    }

    /// `origin[i] <= d_i < origin[i] + extents[i]`; as many extents as the shorter list has.
    pub fn box_at(origin: &[i64], extents: &[i64]) -> Set {
        let mut constraints = Vec::new();
        for (i, (from, n)) in origin.iter().zip(extents).enumerate() {
            let low = if *from == 0 { Expr::dim(i) } else { Expr::dim(i) - Expr::constant(*from) };
            let last = from.saturating_add(*n).saturating_sub(1);
            let high = -Expr::dim(i) + Expr::constant(last);
            constraints.extend([low, high].map(|expr| Constraint { expr, equal: false }));
        }
        let dims = origin.len().min(extents.len());
        Set { dims, symbols: 0, constraints: constraints.into() }
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
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// What looking at one point takes, in nodes of its expressions.
    pub(crate) fn nodes(&self) -> usize {
        self.constraints.iter().map(|c| c.expr.nodes()).sum()
    }

    /// Whether a point is in it; not where a number does not fit in 64 bits.
    pub fn contains(&self, point: &[i64], symbols: &[i64]) -> bool {
        self.constraints.iter().all(|c| {
            let value = c.expr.eval(point, symbols);
            value.is_some_and(|v| if c.equal { v == 0 } else { v >= 0 })
        })
    }
}
