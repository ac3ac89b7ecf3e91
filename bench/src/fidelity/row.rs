//! The file of measured figures: a JSON list of rows, each a figure with its source, date and conditions.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The largest file that is read: 30 times the one that comes with the project.
pub const MAX_FILE_BYTES: usize = 32 << 20;

/// A division that was forced, in slices of the dimensions of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProductSplit {
    /// Of the batch.
    pub b: i64,
    /// Of the rows.
    pub m: i64,
    /// Of the columns.
    pub n: i64,
    /// Of the dimension that is summed over.
    pub k: i64,
}

/// One measured figure, as the file has it. Texts that a row does not have are empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasuredRow {
    /// Its number.
    pub id: i64,
    /// Where it was published.
    pub source: String,
    /// When.
    pub date: String,
    /// The operation.
    pub op: String,
    /// The sizes of its tensors, as the source writes them.
    pub shapes: String,
    /// The number format.
    pub dtype: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// How it was measured.
    pub kind: String,
    /// Cores that the compiler could use.
    pub cores: Option<i64>,
    /// The division.
    pub work_division: String,
    /// Layouts and loops.
    pub layout: String,
    /// The software and its settings.
    pub conditions: String,
    /// What the source adds.
    pub note: String,
    /// What the operation computes.
    pub op_meaning: String,
    /// Rows of the input.
    pub rows: Option<i64>,
    /// Columns of the input.
    pub cols: Option<i64>,
    /// Columns of a product.
    pub n: Option<i64>,
    /// Batch of a product.
    pub b: Option<i64>,
    /// The middle dimension of a transposed tensor with three.
    pub mid: Option<i64>,
    /// Trips of a loop.
    pub tiles: Option<i64>,
    /// Whether scratchpads were planned.
    pub lx_planning: Option<bool>,
    /// The forced division.
    pub forced_split: Option<ProductSplit>,
    /// Whether its collector doubts it.
    pub suspicious: bool,
    /// Bytes of device memory that the source counts.
    pub counted_bytes: Option<i64>,
}

/// What is wrong with a file of measured figures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasuredFileError {
    /// It is no JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// It is JSON of another form.
    #[error(
        "it is {found}; a list of rows is read, each an object with id, source, date, op, shapes, dtype, value, unit and kind"
    )]
    NotRows {
        /// What was found.
        found: &'static str,
    },
    /// It is too large.
    #[error("it has {bytes} bytes; at most {MAX_FILE_BYTES} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A field of a row is missing or has a value that is not accepted.
    #[error("{row}: the field `{field}` {problem}; {accepted}")]
    Field {
        /// Which row: by its id, or by its place where it has none.
        row: String,
        /// The field.
        field: &'static str,
        /// What is wrong.
        problem: String,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// Two rows have one id.
    #[error("two rows have the id {id}; every row needs its own")]
    RepeatedId {
        /// The id.
        id: i64,
    },
}

/// The rows of a file, and the fields of rows that nothing here reads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasuredFile {
    /// The rows in the order of the file.
    pub rows: Vec<MeasuredRow>,
    /// Names of fields that are not read.
    pub unread_fields: BTreeSet<String>,
}

/// Fields that are read, and those that only describe how a figure was found.
const KNOWN_FIELDS: [&str; 35] = [
    "id",
    "source",
    "date",
    "op",
    "shapes",
    "dtype",
    "value",
    "unit",
    "kind",
    "cores",
    "work_division",
    "layout_tile_order",
    "stack_conditions",
    "note",
    "op_meaning",
    "rows",
    "cols",
    "N",
    "B",
    "mid",
    "tiles",
    "lx_planning",
    "forced_split",
    "suspicious",
    "hbm_bytes_counted",
    "kernel_us_min",
    "kernel_us_std",
    "cv_pct",
    "reps",
    "bw_gbps_reported",
    "hbm_bytes_exact",
    "bytes_note",
    "build",
    "log",
    "plan_index",
];

/// Reads the rows of a text.
///
/// # Errors
/// Texts that are no list of rows, and the first field that is not accepted, with the id of its row.
pub fn parse_measured_rows(text: &str) -> Result<MeasuredFile, MeasuredFileError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(MeasuredFileError::TooLarge { bytes: text.len() });
    }
    let value: Value =
        serde_json::from_str(text).map_err(|e| MeasuredFileError::Json(e.to_string()))?;
    let Value::Array(list) = value else {
        return Err(MeasuredFileError::NotRows { found: json_kind(&value) });
    };
    let mut file = MeasuredFile::default();
    let mut ids = BTreeSet::new();
    for (place, value) in list.iter().enumerate() {
        let Value::Object(fields) = value else {
            return Err(MeasuredFileError::NotRows {
                found: "a list with something that is no object",
            });
        };
        let row = RowFields::new(place, fields).read_row()?;
        if !ids.insert(row.id) {
            return Err(MeasuredFileError::RepeatedId { id: row.id });
        }
        file.rows.push(row);
        let unread = fields.keys().filter(|k| !KNOWN_FIELDS.contains(&k.as_str()));
        file.unread_fields.extend(unread.cloned());
    }
    Ok(file)
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "one object",
    }
}

struct RowFields<'a> {
    name: String,
    fields: &'a Map<String, Value>,
}

impl<'a> RowFields<'a> {
    fn new(place: usize, fields: &'a Map<String, Value>) -> RowFields<'a> {
        let name = match fields.get("id").and_then(Value::as_i64) {
            Some(id) => format!("row {id}"),
            None => format!("row number {} of the file", place + 1),
        };
        RowFields { name, fields }
    }

    fn read_row(&self) -> Result<MeasuredRow, MeasuredFileError> {
        let value = self.number("value")?;
        if !value.is_finite() || value < 0.0 {
            return Err(self.refuse("value", format!("is {value}"), "a number, 0 or more"));
        }
        Ok(MeasuredRow {
            id: self.integer("id")?.ok_or_else(|| self.missing("id", "a whole number"))?,
            source: self.text("source")?,
            date: self.text("date")?,
            op: self.text("op")?,
            shapes: self.text("shapes")?,
            dtype: self.text("dtype")?,
            value,
            unit: self.text("unit")?,
            kind: self.text("kind")?,
            cores: self.positive("cores")?,
            work_division: self.optional_text("work_division")?,
            layout: self.optional_text("layout_tile_order")?,
            conditions: self.optional_text("stack_conditions")?,
            note: self.optional_text("note")?,
            op_meaning: self.optional_text("op_meaning")?,
            rows: self.positive("rows")?,
            cols: self.positive("cols")?,
            n: self.positive("N")?,
            b: self.positive("B")?,
            mid: self.positive("mid")?,
            tiles: self.integer("tiles")?,
            lx_planning: self.flag("lx_planning")?,
            forced_split: self.split("forced_split")?,
            suspicious: self.flag("suspicious")?.unwrap_or(false),
            counted_bytes: self.integer("hbm_bytes_counted")?,
        })
    }

    /// The value of a field; a null counts as none.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|v| !v.is_null())
    }

    fn refuse(
        &self,
        field: &'static str,
        problem: String,
        accepted: &'static str,
    ) -> MeasuredFileError {
        MeasuredFileError::Field { row: self.name.clone(), field, problem, accepted }
    }

    fn missing(&self, field: &'static str, accepted: &'static str) -> MeasuredFileError {
        self.refuse(field, "is missing".into(), accepted)
    }

    fn wrong(&self, field: &'static str, v: &Value, accepted: &'static str) -> MeasuredFileError {
        let shown: String = v.to_string().chars().take(60).collect();
        self.refuse(field, format!("is {shown}"), accepted)
    }

    fn text(&self, field: &'static str) -> Result<String, MeasuredFileError> {
        let v = self.get(field).ok_or_else(|| self.missing(field, "a text"))?;
        v.as_str().map(String::from).ok_or_else(|| self.wrong(field, v, "a text"))
    }

    fn optional_text(&self, field: &'static str) -> Result<String, MeasuredFileError> {
        if self.get(field).is_none() { Ok(String::new()) } else { self.text(field) }
    }

    fn number(&self, field: &'static str) -> Result<f64, MeasuredFileError> {
        let v = self.get(field).ok_or_else(|| self.missing(field, "a number"))?;
        v.as_f64().ok_or_else(|| self.wrong(field, v, "a number"))
    }

    fn integer(&self, field: &'static str) -> Result<Option<i64>, MeasuredFileError> {
        let Some(v) = self.get(field) else { return Ok(None) };
        v.as_i64().map(Some).ok_or_else(|| self.wrong(field, v, "a whole number"))
    }

    fn positive(&self, field: &'static str) -> Result<Option<i64>, MeasuredFileError> {
        // Products of four of these stay below 2^63.
        let accepted = "a whole number from 1 to 10000000";
        let Some(v) = self.get(field) else { return Ok(None) };
        let fits = v.as_i64().filter(|n| (1..=10_000_000).contains(n));
        fits.map(Some).ok_or_else(|| self.wrong(field, v, accepted))
    }

    fn flag(&self, field: &'static str) -> Result<Option<bool>, MeasuredFileError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(v) => match v.as_i64() {
                Some(0) => Ok(Some(false)),
                Some(1) => Ok(Some(true)),
                _ => Err(self.wrong(field, v, "0, 1, true or false")),
            },
        }
    }

    fn split(&self, field: &'static str) -> Result<Option<ProductSplit>, MeasuredFileError> {
        let accepted = "an object with B, M, N and K, each a number of slices from 1 to 4096";
        let Some(v) = self.get(field) else { return Ok(None) };
        let object = v.as_object().ok_or_else(|| self.wrong(field, v, accepted))?;
        let mut split = ProductSplit { b: 1, m: 1, n: 1, k: 1 };
        for (name, slices) in object {
            let slot = match name.as_str() {
                "B" => &mut split.b,
                "M" => &mut split.m,
                "N" => &mut split.n,
                "K" => &mut split.k,
                _ => return Err(self.wrong(field, v, accepted)),
            };
            let fits = slices.as_i64().filter(|n| (1..=4096).contains(n));
            *slot = fits.ok_or_else(|| self.wrong(field, v, accepted))?;
        }
        Ok(Some(split))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"id":7,"source":"s","date":"d","op":"neg","shapes":"R=2 C=64","dtype":"fp16","value":1.5,"unit":"us","kind":"kernel"}"#;

    fn refusal(from: &str, to: &str) -> String {
        let text = format!("[{}]", ROW.replace(from, to));
        parse_measured_rows(&text).expect_err("refused").to_string()
    }

    #[test]
    fn a_row_with_the_required_fields_is_read() {
        let file = parse_measured_rows(&format!("[{ROW}]")).expect("read");
        assert_eq!((file.rows[0].id, file.rows[0].value), (7, 1.5));
        let more = ROW.replace("\"id\":7", "\"id\":7,\"colour\":1");
        let file = parse_measured_rows(&format!("[{more}]")).expect("read");
        assert_eq!(file.unread_fields.iter().collect::<Vec<_>>(), ["colour"]);
    }

    #[test]
    fn errors_name_the_row_and_the_field() {
        for (from, to, expected) in [
            (
                "\"value\":1.5",
                "\"value\":\"fast\"",
                "row 7: the field `value` is \"fast\"; a number",
            ),
            (
                "\"value\":1.5",
                "\"value\":-2",
                "row 7: the field `value` is -2; a number, 0 or more",
            ),
            ("\"unit\":\"us\",", "", "row 7: the field `unit` is missing; a text"),
            (
                "\"id\":7,",
                "",
                "row number 1 of the file: the field `id` is missing; a whole number",
            ),
            (
                "\"id\":7",
                "\"id\":7,\"cores\":0",
                "row 7: the field `cores` is 0; a whole number from 1 to 10000000",
            ),
            (
                "\"id\":7",
                "\"id\":7,\"forced_split\":{\"Q\":1}",
                "row 7: the field `forced_split` is {\"Q\":1}; an object with B",
            ),
            (
                "\"id\":7",
                "\"id\":7,\"lx_planning\":2",
                "row 7: the field `lx_planning` is 2; 0, 1, true or false",
            ),
        ] {
            let message = refusal(from, to);
            assert!(message.starts_with(expected), "{message}\n{expected}");
        }
        for (text, expected) in [
            ("{}", "it is one object"),
            ("[1]", "it is a list with something that is no object"),
            ("[", "not JSON"),
        ] {
            let message = parse_measured_rows(text).expect_err("refused").to_string();
            assert!(message.starts_with(expected), "{message}");
        }
        let twice = parse_measured_rows(&format!("[{ROW},{ROW}]")).expect_err("refused");
        assert_eq!(twice, MeasuredFileError::RepeatedId { id: 7 });
    }
}
