//! How much of a large grid is drawn, and the sentence that names the part.

/// Widest grid that is drawn whole.
const MAX_UNCLIPPED_COLS: usize = 128;
/// Columns of a grid that is clipped.
const CLIPPED_COLS: usize = 64;
/// Most rows of a grid.
const MAX_ROWS: usize = 256;
/// Most grids side by side.
const MAX_PANELS: usize = 64;

/// The extents that are drawn of `panels` grids of `rows` x `cols`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShownExtents {
    pub(crate) panels: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

/// Fits the extents into a budget of cells; every extent that is not 0 keeps at least 1.
pub(crate) fn fit_extents(panels: i128, rows: i128, cols: i128, budget: usize) -> ShownExtents {
    let most =
        |value: i128, limit: usize| usize::try_from(value.clamp(0, limit as i128)).unwrap_or(limit);
    // A grid that fits is drawn up to a larger width, because a complete row is worth a wide page; what is clipped
    // anyway may as well be narrow.
    let whole = rows.saturating_mul(cols) <= budget as i128;
    let cols = most(cols, if whole { MAX_UNCLIPPED_COLS } else { CLIPPED_COLS }.min(budget));
    let rows = most(rows, (budget / cols.max(1)).min(MAX_ROWS));
    // Columns first, then rows, then panels: a reader learns more from one whole grid than from corners of many.
    let panels = most(panels, (budget / (rows * cols).max(1)).clamp(1, MAX_PANELS));
    ShownExtents { panels, rows, cols }
}

/// `laneid 0..16 of 32`, or nothing when all are shown.
pub(crate) fn clip_phrase(what: &str, first: i64, shown: usize, total: i128) -> Option<String> {
    let end = i128::from(first) + shown as i128;
    (total > shown as i128).then(|| format!("{what} {first}..{end} of {total}"))
}

/// Joins the parts of a clip into one sentence.
pub(crate) fn clip_sentence(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{} shown", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_hold_and_never_reach_zero() {
        for panels in [0, 1, 3, 1 << 40] {
            for rows in [0, 1, 8, 300, 1 << 40] {
                for cols in [0, 1, 64, 128, 4096, 1 << 40] {
                    for budget in [1, 7, 64, 4096] {
                        let s = fit_extents(panels, rows, cols, budget);
                        assert!(s.panels * s.rows * s.cols <= budget, "{s:?} in {budget}");
                        assert_eq!(
                            [s.panels, s.rows, s.cols].map(|v| v > 0),
                            [panels, rows, cols].map(|v| v > 0)
                        );
                    }
                }
            }
        }
        assert_eq!(fit_extents(1, 8, 128, 4096), ShownExtents { panels: 1, rows: 8, cols: 128 });
        assert_eq!(
            fit_extents(1, 4096, 4096, 4096),
            ShownExtents { panels: 1, rows: 64, cols: 64 }
        );
    }

    #[test]
    fn sentences_name_every_cut() {
        assert_eq!(clip_sentence([clip_phrase("rows", 0, 4, 4), None]), None);
        let text =
            clip_sentence([clip_phrase("rows", 0, 64, 4096), clip_phrase("columns", 2, 3, 9)]);
        assert_eq!(text.as_deref(), Some("rows 0..64 of 4096, columns 2..5 of 9 shown"));
    }
}
