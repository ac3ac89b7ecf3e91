//! Predicted times beside measured ones: `zellige bench fidelity`.
//!
//! Every row of a file of measured figures becomes a graph with settings ([`express_row`]), is compiled with the
//! division and the layouts that the row names, and is compared. Rows that cannot be expressed are listed with the
//! reason.

mod case;
mod evaluate;
mod express;
mod graphs;
mod report;
mod row;
mod scatter;
mod statistics;
mod texts;

pub use case::{
    CasePart, Category, ExcludedRow, Exclusion, MeasuredCase, MeasuredQuantity, MeasuredStack,
};
pub use evaluate::{PredictedRow, RowPredictor};
pub use express::{express_row, find_stack};
pub use report::{fidelity_json, fidelity_markdown, fidelity_text};
pub use row::{
    MAX_FILE_BYTES, MeasuredFile, MeasuredFileError, MeasuredRow, ProductSplit, parse_measured_rows,
};
pub use scatter::draw_scatter;
pub use statistics::{
    CLOSE_SHARE, CategoryFigures, ErrorFigures, MissedPreference, PREFERRED_SHARE, compute_errors,
    figures_by_category, missed_preferences,
};

use std::collections::BTreeSet;
use zellige_machine::Hardware;

/// All rows of a file beside their predictions.
#[derive(Debug, Clone, PartialEq)]
pub struct FidelityComparison {
    /// The name of the hardware preset.
    pub hardware: String,
    /// Rows with a prediction.
    pub rows: Vec<PredictedRow>,
    /// Rows without one: number, operation and sizes, and why.
    pub excluded: Vec<(i64, String, ExcludedRow)>,
    /// Names of fields of the file that are not read.
    pub unread_fields: BTreeSet<String>,
}

/// The preset whose stack most of the rows were measured on, which predicts where none is named.
pub const DEFAULT_PRESET: &str = "card-2026-09";

/// Other presets that the page shows the same rows with.
pub const COMPARED_PRESETS: [&str; 1] = ["card-2026-05"];

/// The page and the picture of the project's own rows.
///
/// # Errors
/// Presets that are not there.
pub fn write_page(file: &MeasuredFile) -> Result<FidelityPage, zellige_machine::MachineError> {
    let compare = |name: &str| {
        Ok(compare_measured(file, Hardware::built_in_preset(name)?, &implausible_rows()))
    };
    let comparison = compare(DEFAULT_PRESET)?;
    let others = COMPARED_PRESETS.into_iter().map(compare);
    let others = others.collect::<Result<Vec<_>, zellige_machine::MachineError>>()?;
    let markdown = fidelity_markdown(&comparison, &others);
    Ok(FidelityPage { markdown, scatter: draw_scatter(&comparison), comparison })
}

/// The page of the documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct FidelityPage {
    /// Its text.
    pub markdown: String,
    /// Its picture.
    pub scatter: String,
    /// What it is about.
    pub comparison: FidelityComparison,
}

/// Rows of `tests/data/spyre_measured.json` that are implausible beside their neighbours, with the reason: the fit of the
/// account leaves them out too.
pub fn implausible_rows() -> Vec<ImplausibleRow> {
    let text = include_str!("../../fidelity/excluded_rows.json");
    parse_implausible_rows(text).expect("a test reads it")
}

/// A row that is left out as implausible.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImplausibleRow {
    /// Its number.
    pub id: i64,
    /// Why.
    pub reason: String,
}

/// Reads a list of rows to leave out: `[{"id": 70, "reason": ".."}]`.
///
/// # Errors
/// Text that is no such list, with its line and column.
pub fn parse_implausible_rows(text: &str) -> Result<Vec<ImplausibleRow>, serde_json::Error> {
    serde_json::from_str(text)
}

/// Compares all rows of a file with predictions for a hardware; rows that are implausible are left out as doubtful.
pub fn compare_measured(
    file: &MeasuredFile,
    hardware: Hardware,
    implausible: &[ImplausibleRow],
) -> FidelityComparison {
    let mut predictor = RowPredictor::new(hardware);
    let (mut rows, mut excluded) = (Vec::new(), Vec::new());
    for row in &file.rows {
        let what = || format!("{} {}", row.op, row.shapes);
        match (predictor.predict_row(row), implausible.iter().find(|i| i.id == row.id)) {
            (Ok(_), Some(i)) => {
                excluded.push((row.id, what(), ExcludedRow::new(Exclusion::Doubtful, &i.reason)));
            }
            (Ok(predicted), None) => rows.push(predicted),
            (Err(why), _) => excluded.push((row.id, what(), why)),
        }
    }
    let hardware = predictor.hardware().name().into();
    FidelityComparison { hardware, rows, excluded, unread_fields: file.unread_fields.clone() }
}

impl FidelityComparison {
    /// How many rows are times of the card, and of these how many have no prediction although nobody doubts them.
    pub fn count_unexpressed(&self) -> (usize, usize) {
        let excluded =
            |e: Exclusion| self.excluded.iter().filter(|(_, _, x)| x.exclusion == e).count();
        let times = self.rows.len() + self.excluded.len() - excluded(Exclusion::NotATime);
        let kinds = [
            Exclusion::NotOfKernels,
            Exclusion::Unstated,
            Exclusion::NotExpressible,
            Exclusion::Refused,
        ];
        (times, kinds.into_iter().map(excluded).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// The page and the picture follow from the measured rows and today's account; `ZELLIGE_BLESS=1` writes them again.
    #[test]
    fn the_page_is_current() {
        let text = std::fs::read_to_string(root().join("tests/data/spyre_measured.json"))
            .expect("the rows");
        let file = parse_measured_rows(&text).expect("rows");
        assert!(file.unread_fields.is_empty(), "{:?}", file.unread_fields);
        let FidelityPage { markdown, scatter, comparison } = write_page(&file).expect("presets");
        let (times, unexpressed) = comparison.count_unexpressed();
        assert!(unexpressed * 10 < times, "{unexpressed} of {times} rows are not expressed");
        for (name, made) in
            [("docs/fidelity.md", markdown), ("docs/pictures/fidelity.svg", scatter)]
        {
            let path = root().join(name);
            if std::env::var_os("ZELLIGE_BLESS").is_some() {
                std::fs::write(&path, &made).expect("written");
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            let same = found == made;
            assert!(
                same,
                "{name} is not current: ZELLIGE_BLESS=1 cargo test -p zellige-bench fidelity writes it"
            );
        }
        // Every row is either predicted or has a reason.
        assert_eq!(comparison.rows.len() + comparison.excluded.len(), file.rows.len());
        for (id, what, why) in &comparison.excluded {
            assert!(!why.reason.is_empty(), "{id} {what}");
        }
    }
}
