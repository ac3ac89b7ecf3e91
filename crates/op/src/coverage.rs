//! How torch-spyre runs each operation, which of them a card runs itself, and what each one accepts.

use crate::error::OpError;
use crate::op::TensorOp;
use crate::row::OpRow;
use crate::tensor_type::TensorType;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt;
use std::str::FromStr;
use zellige_float::Dtype;

/// One line of the coverage matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpCoverage {
    /// The operation.
    pub name: &'static str,
    /// Its operands; `x?` may be left out, `x...` is one operand or more.
    pub operands: &'static [&'static str],
    /// Its attributes with what they accept.
    pub attributes: &'static [(&'static str, &'static str)],
    /// How torch-spyre runs it.
    pub layer: UpstreamLayer,
    /// Whether the host does it under the profile.
    pub on_host: bool,
    /// Dtypes of its operands, if it has some, found by asking the operation about small tensors of each.
    pub dtypes: Vec<Dtype>,
}

impl OpCoverage {
    /// The matrix under a profile, in the order of the table.
    pub fn under_profile(profile: CoverageProfile) -> Vec<OpCoverage> {
        let row = |entry: &'static OpRow| OpCoverage {
            name: entry.name,
            operands: entry.operands,
            attributes: entry.attributes,
            layer: entry.layer,
            on_host: profile.runs_on_host(entry.layer),
            dtypes: if entry.operands.is_empty() { Vec::new() } else { accepted_dtypes(entry) },
        };
        TensorOp::all_rows().map(row).collect()
    }

    /// Its dtypes in words, whole families by their names: `float` (float32, float16, bfloat16),
    /// `float8`, `int` (int64, int32, int16, int8, uint8), `bool` and `quantized`.
    pub fn dtype_words(&self) -> String {
        use Dtype::{Bfloat16, Bool, Float8E4m3fn, Float8E5m2, Float8E5m2fnuz, Float16, Float32};
        use Dtype::{Int8, Int16, Int32, Int64, Qint8, Quint8, Uint8};
        let families: [(&str, &[Dtype]); 5] = [
            ("float", &[Float32, Float16, Bfloat16]),
            ("float8", &[Float8E4m3fn, Float8E5m2, Float8E5m2fnuz]),
            ("int", &[Int64, Int32, Int16, Int8, Uint8]),
            ("bool", &[Bool]),
            ("quantized", &[Qint8, Quint8]),
        ];
        let mut words = Vec::new();
        for (name, family) in families {
            let held = family.iter().filter(|d| self.dtypes.contains(d));
            if held.clone().count() == family.len() {
                words.push(name);
            } else {
                words.extend(held.map(|d| d.name()));
            }
        }
        words.join(" ")
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let attributes: Map<String, Value> =
            self.attributes.iter().map(|(n, v)| ((*n).to_owned(), (*v).into())).collect();
        json!({
            "name": self.name, "operands": self.operands, "attributes": attributes,
            "layer": self.layer.name(), "runs_on": if self.on_host { "host" } else { "device" },
            "dtypes": self.dtypes.iter().map(|d| d.name()).collect::<Vec<_>>(),
        })
    }
}

/// Dtypes for which the operation takes some small operands.
fn accepted_dtypes(entry: &OpRow) -> Vec<Dtype> {
    let ops = probe_ops(entry);
    let fits = |dtype: Dtype| ops.iter().any(|op| accepts_dtype(entry, op, dtype));
    // What the card stores fills whole bytes.
    let stored =
        |d: &Dtype| d.bits() >= 8 && zellige_stick::DataFormat::device_format_of(*d).is_ok();
    Dtype::ALL.iter().copied().filter(stored).filter(|d| fits(*d)).collect()
}

/// The operation with attributes that it accepts: its defaults, or plain values for what it needs.
fn probe_ops(entry: &OpRow) -> Vec<TensorOp> {
    let values = || [json!(0), json!(1), json!([0]), json!([4, 4]), json!(true), json!("float32")];
    let mut found = Vec::new();
    let mut tries = vec![Map::new()];
    // What is missing is named by the error, one attribute at a time.
    while let Some(attributes) = tries.pop() {
        match TensorOp::new(entry.name, &Value::Object(attributes.clone())) {
            Ok(op) => found.push(op),
            Err(OpError::BadAttribute { name, .. })
                if !attributes.contains_key(&name) && attributes.len() < 4 =>
            {
                tries.extend(values().into_iter().map(|value| {
                    let mut more = attributes.clone();
                    more.insert(name.clone(), value);
                    more
                }));
            }
            Err(_) => {}
        }
        // A few ways to set the attributes are enough to see which dtypes are accepted.
        if found.len() >= 8 {
            break;
        }
    }
    found
}

/// Whether the operation infers a result from operands of this dtype, of some ranks. Indices are
/// integers and masks are truth values, whatever the other operands are.
fn accepts_dtype(entry: &OpRow, op: &TensorOp, dtype: Dtype) -> bool {
    const PROBE_SIZES: [&[i64]; 5] = [&[4, 4], &[4], &[], &[4, 4, 4], &[4, 4, 4, 4]];
    let names: Vec<&str> = entry.operands.iter().map(|o| o.trim_end_matches(['?', '.'])).collect();
    let (least, _) = entry.arity();
    let kinds = |name: &str| match name {
        n if n.starts_with("ind") => vec![Dtype::Int64],
        n if n.starts_with("mask") || n.starts_with("cond") => vec![Dtype::Bool, dtype],
        // Scales of 8-bit products are float32, whatever the factors are.
        n if n.contains("scale") => vec![dtype, Dtype::Float32],
        _ => vec![dtype],
    };
    // Every operand of one size first, then every mixture of sizes.
    let mut partial: Vec<Vec<TensorType>> = vec![Vec::new()];
    for name in names.iter().take(least.max(1).min(names.len()).min(5)) {
        let mut longer = Vec::new();
        for metas in &partial {
            for size in PROBE_SIZES {
                for kind in kinds(name) {
                    let mut metas = metas.clone();
                    metas.push(TensorType { size: size.to_vec(), dtype: kind });
                    longer.push(metas);
                }
            }
        }
        partial = longer;
        // Operations with many operands would be tried with too many mixtures; those with equal sizes, which come
        // first, accept most.
        if partial.len() > 4000 {
            partial.truncate(4000);
        }
    }
    partial.iter().any(|metas| op.infer_types(metas).is_ok())
}

/// How an operation reaches the card in torch-spyre; the coverage profile `card` follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamLayer {
    /// An instruction of the hardware.
    Native,
    /// A kernel of its own.
    Custom,
    /// Decomposed into other operations.
    Decomposed,
    /// Computed by the host.
    Fallback,
    /// Not at all.
    Missing,
}

/// The coverage profile of a card.
///
/// Results are the same under both: kernels compute them either way. What differs is the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageProfile {
    /// What torch-spyre runs on the device; for the rest operands go to the host and results come
    /// back.
    Card,
    /// Every operation of the table on the device.
    #[default]
    Full,
}

impl CoverageProfile {
    /// Every profile.
    pub const ALL: [CoverageProfile; 2] = [CoverageProfile::Card, CoverageProfile::Full];

    /// Whether an operation of that layer is done by the host.
    pub fn runs_on_host(self, layer: UpstreamLayer) -> bool {
        self == CoverageProfile::Card
            && matches!(layer, UpstreamLayer::Fallback | UpstreamLayer::Missing)
    }
}

impl fmt::Display for CoverageProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CoverageProfile::Card => "card",
            CoverageProfile::Full => "full",
        })
    }
}

impl FromStr for CoverageProfile {
    type Err = OpError;
    fn from_str(text: &str) -> Result<CoverageProfile, OpError> {
        let known = CoverageProfile::ALL.into_iter().find(|p| p.to_string() == text);
        known.ok_or_else(|| OpError::UnknownProfile { profile: text.into() })
    }
}

impl UpstreamLayer {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            UpstreamLayer::Native => "native",
            UpstreamLayer::Custom => "custom",
            UpstreamLayer::Decomposed => "decomposed",
            UpstreamLayer::Fallback => "fallback",
            UpstreamLayer::Missing => "missing",
        }
    }
}
