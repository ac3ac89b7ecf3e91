//! The form of a graph that programs exchange; `docs/schemas/graph.schema.json` is its schema.

use crate::error::{GraphError, Result};
use crate::graph::{Graph, InputRole, RequestedMemory};
use crate::source::{GraphSource, SizeSymbol, SourceInput, SourceOp, SourceOutput, SymbolicSize};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zellige_float::Dtype;
use zellige_notation::cursor::TextCursor;
use zellige_stick::LayoutRequest;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphDoc {
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    symbols: Vec<DocSymbol>,
    inputs: Vec<DocInput>,
    ops: Vec<DocOp>,
    outputs: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocSymbol {
    name: String,
    min: i64,
    max: i64,
    #[serde(default = "default_step")]
    step: i64,
}

fn default_step() -> i64 {
    1
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocInput {
    name: String,
    dtype: String,
    size: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pin: Option<DocPin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocOp {
    op: String,
    inputs: Vec<Value>,
    outputs: Vec<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    attributes: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pin: Option<DocPin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    split: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum DocPin {
    Stick(u32),
    Sparse(bool),
    Order(Vec<i64>),
    Layout(String),
}

impl DocPin {
    fn from_request(pin: &LayoutRequest) -> DocPin {
        match pin {
            LayoutRequest::Stick(d) => DocPin::Stick(u32::try_from(*d).unwrap_or(u32::MAX)),
            LayoutRequest::Sparse => DocPin::Sparse(true),
            LayoutRequest::Order(o) => DocPin::Order(o.clone()),
            LayoutRequest::Exactly(l) => {
                DocPin::Layout(zellige_notation::spyre::print_with_given_host(l))
            }
        }
    }

    fn to_request(&self) -> Result<LayoutRequest> {
        Ok(match self {
            DocPin::Stick(d) => LayoutRequest::Stick((*d).into()),
            DocPin::Sparse(true) => LayoutRequest::Sparse,
            // `false` could mean that the pin is absent or that the layout must not be sparse; neither is guessed.
            DocPin::Sparse(false) => {
                return Err(GraphError::new("bad_pin", "`sparse` is true or left out"));
            }
            DocPin::Order(o) => LayoutRequest::Order(o.clone()),
            DocPin::Layout(text) => LayoutRequest::Exactly(
                zellige_notation::spyre::parse(text)
                    .map_err(|d| GraphError::new("bad_pin", d.to_string()))?,
            ),
        })
    }
}

/// The memory of a word.
fn parse_memory(word: Option<&str>, name: &str) -> Result<Option<RequestedMemory>> {
    let Some(word) = word else { return Ok(None) };
    let known = RequestedMemory::from_name(word).ok_or_else(|| {
        let shown: String = word.chars().take(40).collect();
        GraphError::new("bad_place", format!("`{name}`: place {shown:?} is none of lx, memory"))
    });
    known.map(Some)
}

/// Words that a text reads as something else than a name.
// A graph in JSON can always be printed as text: a name that the text would read as a keyword is refused in both
// forms.
const RESERVED: [&str; 4] = ["return", "true", "false", "null"];

/// Refuses a name that a text cannot hold: both forms say the same.
fn check_name(name: &str) -> Result<()> {
    let mut c = TextCursor::new(name);
    let whole = c.read_dotted_word().is_some_and(|w| w.value == name);
    if whole && !RESERVED.contains(&name) {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    let message = format!(
        "{shown:?} is no name: letters, digits, `_` and `.` between them, no digit at the beginning, \
         and none of {}",
        RESERVED.join(", ")
    );
    Err(GraphError::new("bad_name", message))
}

/// Reads a graph with its symbols unbound.
///
/// # Errors
/// Text that is no JSON of this form, with line and column; unknown fields.
pub fn parse_source(text: &str) -> Result<GraphSource> {
    let doc: GraphDoc =
        serde_json::from_str(text).map_err(|e| GraphError::new("bad_json", e.to_string()))?;
    // All names are checked before any is used, so that the first error is the first bad name in the file.
    let results = doc.ops.iter().flat_map(|o| &o.outputs);
    let symbols = doc.symbols.iter().map(|s| &s.name);
    for name in doc.inputs.iter().map(|i| &i.name).chain(results).chain(symbols).chain([&doc.name])
    {
        check_name(name)?;
    }
    let mut source = GraphSource { name: doc.name, ..GraphSource::default() };
    for s in doc.symbols {
        if s.min < 0 || s.max < s.min || s.step < 1 || s.max % s.step != 0 {
            let message =
                format!("symbol `{}`: 0 <= min <= max, and max is a multiple of step", s.name);
            return Err(GraphError::new("bad_symbol", message));
        }
        source.symbols.push(SizeSymbol { name: s.name, min: s.min, max: s.max, step: s.step });
    }
    for i in doc.inputs {
        let bad = |message: String| {
            GraphError::new("bad_input", format!("input `{}`: {message}", i.name))
        };
        let size = i.size.iter().map(|v| match v {
            Value::String(s) => Ok(SymbolicSize::Symbol(s.clone())),
            v => match v.as_i64() {
                Some(n) if n >= 0 => Ok(SymbolicSize::Fixed(n)),
                _ => Err(bad(format!("a size is 0 or more, or a symbol, not {v}"))),
            },
        });
        let size = size.collect::<Result<_>>()?;
        let role = match &i.role {
            None => InputRole::Input,
            Some(name) => InputRole::from_name(name)
                .ok_or_else(|| bad(format!("role `{name}` is none of input, weight, state")))?,
        };
        let dtype = Dtype::from_name(&i.dtype)?;
        let pin = i.pin.as_ref().map(DocPin::to_request).transpose()?;
        source.inputs.push(SourceInput {
            name: i.name.clone(),
            dtype,
            size,
            role,
            pin,
            place: parse_memory(i.place.as_deref(), &i.name)?,
            span: 0..0,
        });
    }
    for o in doc.ops {
        let first = o.outputs.first().cloned().unwrap_or_default();
        let split = o.split.iter().map(|(d, n)| {
            let n = n.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
            let bad =
                || GraphError::new("bad_hint", format!("`{first}`: slices of `{d}`: 1 or more"));
            n.map(|n| (d.clone(), n)).ok_or_else(bad)
        });
        source.ops.push(SourceOp {
            hint: split.collect::<Result<_>>()?,
            pin: o.pin.as_ref().map(DocPin::to_request).transpose()?,
            place: parse_memory(o.place.as_deref(), &first)?,
            op: o.op,
            inputs: o.inputs,
            outputs: o.outputs,
            attributes: o.attributes,
            at: o.at,
            span: 0..0,
        });
    }
    source.outputs =
        doc.outputs.into_iter().map(|name| SourceOutput { name, span: 0..0 }).collect();
    Ok(source)
}

/// Reads a graph and binds its symbols to their largest values.
///
/// # Errors
/// As [`parse_source`] and [`GraphSource::bind_symbols`].
pub fn parse(text: &str) -> Result<Graph> {
    zellige_calls::record_call!();
    parse_source(text)?.bind_symbols(&std::collections::BTreeMap::new())
}

/// The JSON of a graph.
pub fn print_graph(graph: &Graph) -> String {
    print_source(&graph.to_source())
}

/// The JSON of a graph with its symbols.
pub fn print_source(source: &GraphSource) -> String {
    let doc = GraphDoc {
        name: source.name.clone(),
        symbols: source
            .symbols
            .iter()
            .map(|s| DocSymbol { name: s.name.clone(), min: s.min, max: s.max, step: s.step })
            .collect(),
        inputs: source
            .inputs
            .iter()
            .map(|i| DocInput {
                name: i.name.clone(),
                dtype: i.dtype.name().into(),
                size: i
                    .size
                    .iter()
                    .map(|n| match n {
                        SymbolicSize::Fixed(n) => Value::from(*n),
                        SymbolicSize::Symbol(s) => Value::from(s.as_str()),
                    })
                    .collect(),
                role: (i.role != InputRole::Input).then(|| i.role.name().into()),
                pin: i.pin.as_ref().map(DocPin::from_request),
                place: i.place.map(|m| m.name().into()),
            })
            .collect(),
        ops: source
            .ops
            .iter()
            .map(|o| DocOp {
                op: o.op.clone(),
                inputs: o.inputs.clone(),
                outputs: o.outputs.clone(),
                attributes: o.attributes.clone(),
                pin: o.pin.as_ref().map(DocPin::from_request),
                place: o.place.map(|m| m.name().into()),
                split: o.hint.iter().map(|(d, n)| (d.clone(), Value::from(*n))).collect(),
                at: o.at.clone(),
            })
            .collect(),
        outputs: source.outputs.iter().map(|o| o.name.clone()).collect(),
    };
    serde_json::to_string_pretty(&doc).expect("maps of texts are JSON")
}
