//! How far predictions are off, group by group.

use super::case::{Category, MeasuredStack};
use super::evaluate::PredictedRow;
use std::collections::BTreeMap;

/// What counts as close.
pub const CLOSE_SHARE: f64 = 0.15;

/// How much longer than the best measured division a preferred one may take.
pub const PREFERRED_SHARE: f64 = 0.05;

/// Rows of a group: how far their predictions are off.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorFigures {
    /// How many there are.
    pub count: usize,
    /// The root of the mean square of the logarithm of predicted over measured time.
    pub rms_log: f64,
    /// How much longer predictions are than measurements, as a share, by the mean of the logarithm.
    pub bias: f64,
    /// The share of rows that are within [`CLOSE_SHARE`].
    pub close: f64,
    /// The mean of Spearman's rank correlation over shapes with three divisions or more, and the number of shapes.
    pub rank: Option<(f64, usize)>,
    /// Of the shapes that were measured in two divisions or more on one number of cores: for how many the division
    /// that is predicted to be fastest takes at most [`PREFERRED_SHARE`] longer than the fastest one, and how many
    /// there are.
    pub preferred: (usize, usize),
}

/// The figures of a group of one category and one stack.
#[derive(Debug, Clone, PartialEq)]
pub struct CategoryFigures {
    /// The category.
    pub category: Category,
    /// The software.
    pub stack: MeasuredStack,
    /// The figures.
    pub figures: ErrorFigures,
    /// The rows whose predictions are furthest off, at most ten, the worst first, as places among all rows.
    pub worst: Vec<usize>,
}

/// The division that is predicted to be fastest for a shape, beside the one that was measured to be fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct PreferredDivision {
    /// The row that is predicted to be fastest, as a place among all rows.
    pub preferred: usize,
    /// The row that was measured to be fastest.
    pub best: usize,
    /// How many divisions were measured.
    pub divisions: usize,
}

/// The figures of every category and stack that has rows.
pub fn figures_by_category(rows: &[PredictedRow]) -> Vec<CategoryFigures> {
    let mut groups: BTreeMap<(MeasuredStack, Category), Vec<usize>> = BTreeMap::new();
    for (i, row) in rows.iter().enumerate() {
        groups.entry((row.stack, row.case.category)).or_default().push(i);
    }
    let figures = |((stack, category), places): ((MeasuredStack, Category), Vec<usize>)| {
        let mut worst = places.clone();
        worst.sort_by(|a, b| {
            let off = |i: &usize| rows[*i].log_error().abs();
            off(b).total_cmp(&off(a)).then(rows[*a].id.cmp(&rows[*b].id))
        });
        worst.truncate(10);
        CategoryFigures { category, stack, figures: compute_errors(rows, &places), worst }
    };
    groups.into_iter().map(figures).collect()
}

/// The figures of the rows at these places.
pub fn compute_errors(rows: &[PredictedRow], places: &[usize]) -> ErrorFigures {
    let logs: Vec<f64> = places.iter().map(|i| rows[*i].log_error()).collect();
    let count = logs.len();
    let mean = |sum: f64| if count == 0 { 0.0 } else { sum / count as f64 };
    let close = places.iter().filter(|i| (rows[**i].time_ratio() - 1.0).abs() <= CLOSE_SHARE);
    let ranks: Vec<f64> = shapes_of(rows, places, false)
        .values()
        .filter(|list| list.len() >= 3)
        .filter_map(|list| rank_correlation(rows, list))
        .collect();
    let rank =
        (!ranks.is_empty()).then(|| (ranks.iter().sum::<f64>() / ranks.len() as f64, ranks.len()));
    let choices = shapes_of(rows, places, true);
    let choices: Vec<&Vec<usize>> = choices.values().filter(|list| list.len() >= 2).collect();
    let kept = choices.iter().filter(|list| {
        let (preferred, best) = preferred_and_best(rows, list);
        rows[preferred].measured <= rows[best].measured * (1.0 + PREFERRED_SHARE)
    });
    ErrorFigures {
        count,
        rms_log: mean(logs.iter().map(|x| x * x).sum()).sqrt(),
        bias: mean(logs.iter().sum()).exp() - 1.0,
        close: mean(close.count() as f64),
        rank,
        preferred: (kept.count(), choices.len()),
    }
}

/// The preferred division of every shape that was measured in two or more on one number of cores, the costliest first.
pub fn preferred_divisions(rows: &[PredictedRow]) -> Vec<PreferredDivision> {
    let all: Vec<usize> = (0..rows.len()).collect();
    let mut list: Vec<PreferredDivision> = shapes_of(rows, &all, true)
        .values()
        .filter(|list| list.len() >= 2)
        .map(|list| {
            let (preferred, best) = preferred_and_best(rows, list);
            PreferredDivision { preferred, best, divisions: list.len() }
        })
        .collect();
    let loss = |m: &PreferredDivision| rows[m.preferred].measured / rows[m.best].measured;
    list.sort_by(|a, b| loss(b).total_cmp(&loss(a)).then(rows[a.best].id.cmp(&rows[b.best].id)));
    list
}

/// Rows with a forced division by shape, and where that counts by the number of cores.
fn shapes_of(
    rows: &[PredictedRow],
    places: &[usize],
    by_cores: bool,
) -> BTreeMap<(MeasuredStack, String, i64), Vec<usize>> {
    let mut shapes: BTreeMap<(MeasuredStack, String, i64), Vec<usize>> = BTreeMap::new();
    for i in places {
        let Some(split) = rows[*i].split() else { continue };
        let cores = if by_cores { split.b * split.m * split.n * split.k } else { 0 };
        let key = (rows[*i].stack, rows[*i].case.shape.clone(), cores);
        shapes.entry(key).or_default().push(*i);
    }
    shapes
}

/// The place with the least prediction, and that with the least measurement; of equals the first.
fn preferred_and_best(rows: &[PredictedRow], list: &[usize]) -> (usize, usize) {
    let least = |value: fn(&PredictedRow) -> f64| {
        let smaller = |a: &usize, b: &usize| value(&rows[*a]).total_cmp(&value(&rows[*b]));
        list.iter().copied().min_by(smaller).unwrap_or_default()
    };
    (least(|r| r.predicted), least(|r| r.measured))
}

/// Spearman's rank correlation of predictions with measurements; none where one of them is the same for all rows.
fn rank_correlation(rows: &[PredictedRow], list: &[usize]) -> Option<f64> {
    let predicted = ranks_of(&list.iter().map(|i| rows[*i].predicted).collect::<Vec<_>>());
    let measured = ranks_of(&list.iter().map(|i| rows[*i].measured).collect::<Vec<_>>());
    let mean = (list.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - mean) * (y - mean)).sum()
    };
    let scale = (product(&predicted, &predicted) * product(&measured, &measured)).sqrt();
    (scale > 0.0).then(|| product(&predicted, &measured) / scale)
}

/// The rank of every value from 0; equal ones share the mean of their ranks.
fn ranks_of(values: &[f64]) -> Vec<f64> {
    let rank = |x: &f64| {
        let below = values.iter().filter(|y| *y < x).count() as f64;
        let equal = values.iter().filter(|y| *y == x).count() as f64;
        below + (equal - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::case::{MeasuredCase, MeasuredQuantity};
    use crate::fidelity::row::ProductSplit;

    fn row(id: i64, measured: f64, predicted: f64, split: Option<ProductSplit>) -> PredictedRow {
        let case = MeasuredCase {
            category: Category::Matmul,
            parts: Vec::new(),
            cores: 32,
            lx: true,
            lx_reserved: 0.2,
            copies: false,
            quantity: MeasuredQuantity::Time,
            shape: "one".into(),
            split,
        };
        let stack = MeasuredStack::TorchSpyre;
        PredictedRow {
            id,
            what: String::new(),
            source: String::new(),
            stack,
            case,
            measured,
            predicted,
            bound: "pt",
            terms: Vec::new(),
            kernels: Vec::new(),
        }
    }

    fn split(m: i64, n: i64) -> Option<ProductSplit> {
        Some(ProductSplit { b: 1, m, n, k: 1 })
    }

    #[test]
    fn figures_follow_their_definitions() {
        let rows =
            [row(1, 100.0, 200.0, None), row(2, 100.0, 50.0, None), row(3, 100.0, 114.0, None)];
        let found = compute_errors(&rows, &[0, 1, 2]);
        let two = 2.0_f64.ln();
        let rms = ((2.0 * two * two + 1.14_f64.ln().powi(2)) / 3.0).sqrt();
        assert!((found.rms_log - rms).abs() < 1e-12);
        assert!((found.bias - (1.14_f64.ln() / 3.0).exp() + 1.0).abs() < 1e-12);
        assert!((found.close - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!((found.count, found.rank, found.preferred), (3, None, (0, 0)));
        assert_eq!(figures_by_category(&rows)[0].worst, [0, 1, 2]);
        assert_eq!(compute_errors(&rows, &[]).rms_log, 0.0);
    }

    #[test]
    fn ranks_and_preferences_are_within_a_shape() {
        let rows = [
            row(1, 10.0, 1.0, split(4, 8)),
            row(2, 20.0, 2.0, split(8, 4)),
            row(3, 30.0, 3.0, split(16, 2)),
            // On fewer cores: part of the ranks, no alternative to the others.
            row(4, 40.0, 0.5, split(2, 2)),
        ];
        let found = compute_errors(&rows, &[0, 1, 2]);
        assert_eq!((found.rank, found.preferred), (Some((1.0, 1)), (1, 1)));
        let (rank, shapes) = compute_errors(&rows, &[0, 1, 2, 3]).rank.expect("ranked");
        // Ranks 1 2 3 0 beside 0 1 2 3: the sum of their squared differences is 12, and 1 - 6 * 12 / (4 * 15).
        assert!((rank + 0.2).abs() < 1e-12 && shapes == 1, "{rank}");
        let wrong = [row(1, 10.0, 2.0, split(4, 8)), row(2, 20.0, 1.0, split(8, 4))];
        let choices = preferred_divisions(&wrong);
        assert_eq!(choices, [PreferredDivision { preferred: 1, best: 0, divisions: 2 }]);
        assert_eq!(ranks_of(&[5.0, 1.0, 5.0]), [1.5, 0.0, 1.5]);
    }
}
