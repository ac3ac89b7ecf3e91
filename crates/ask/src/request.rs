//! Typed access to the fields of a request.

use crate::RequestFault;
use crate::fault::clip_text;
use crate::fields::RequestFields;
use serde_json::{Value, json};
use std::cell::RefCell;
use zellige_float::Dtype;
use zellige_layout::{Axis, AxisKind, AxisTable, ExecutionScope, LaneAccessPattern, Layout};
use zellige_notation::convert::{ConversionRefusal, convert_layout};
use zellige_notation::{Diagnostic, Notation, ParsedText, linear, parse, parse_as};

type Result<T> = std::result::Result<T, RequestFault>;

/// A request: its fields, and which of them were read. A field that was never read is unknown to the operation.
pub(crate) struct Request {
    fields: RequestFields,
    used: RefCell<Vec<&'static str>>,
}

impl Request {
    pub(crate) fn new(fields: RequestFields) -> Request {
        let mut used = Vec::with_capacity(16);
        // Fields that every request may have, whether its operation looks at them or not.
        used.extend(["id", "op", "notation", "as", "axes"]);
        Request { fields, used: RefCell::new(used) }
    }

    pub(crate) fn id(&self) -> Value {
        self.fields.get("id").cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn op(&self) -> Result<&str> {
        match self.fields.get("op") {
            Some(Value::String(op)) => Ok(op),
            Some(other) => Err(RequestFault::wrong_type("`op`", "the name of a request", other)),
            None => Err(RequestFault::new(
                "bad_request",
                "the request has no `op`; `op` names what is asked",
            )),
        }
    }

    /// The field, where it is given and not null.
    pub(crate) fn get(&self, field: &'static str) -> Option<&Value> {
        self.used.borrow_mut().push(field);
        self.fields.get(field).filter(|v| !v.is_null())
    }

    pub(crate) fn require_field(&self, field: &'static str) -> Result<&Value> {
        self.get(field).ok_or_else(|| RequestFault {
            kind: "bad_request",
            message: format!("`{field}` is missing"),
            witness: json!({"field": field}),
        })
    }

    /// Names a field that the request does not know beside the fault that followed.
    pub(crate) fn refuse_misspelt(&self, fields: &str, fault: &RequestFault) -> Result<()> {
        let known = |name: &str| {
            // Fields behind the one that is missing have not been looked at yet, so the description of the request
            // decides what is known.
            fields.split([',', ' ', '?']).any(|f| f == name) || self.used.borrow().contains(&name)
        };
        match self.fields.field_names().find(|n| !known(n)) {
            None => Ok(()),
            Some(unknown) => {
                let message =
                    format!("{}; unknown field `{}`", fault.message, clip_text(unknown, 60));
                Err(RequestFault { message, ..fault.clone() })
            }
        }
    }

    /// Refuses fields that the request does not know.
    pub(crate) fn refuse_unknown_fields(&self) -> Result<()> {
        let used = self.used.borrow();
        match self.fields.field_names().find(|name| !used.contains(name)) {
            None => Ok(()),
            Some(unknown) => {
                let mut known: Vec<&str> = used.iter().copied().filter(|f| *f != "id").collect();
                known.sort_unstable();
                known.dedup();
                let shown: String = unknown.chars().take(60).collect();
                Err(RequestFault {
                    kind: "unknown_field",
                    message: format!(
                        "unknown field `{shown}`; this request knows {}",
                        known.join(", ")
                    ),
                    witness: json!({"field": shown}),
                })
            }
        }
    }

    pub(crate) fn require_str(&self, field: &'static str) -> Result<&str> {
        let v = self.require_field(field)?;
        v.as_str().ok_or_else(|| RequestFault::wrong_type(&quote_field(field), "a text", v))
    }

    pub(crate) fn optional_str(&self, field: &'static str) -> Result<Option<&str>> {
        if self.get(field).is_some() { self.require_str(field).map(Some) } else { Ok(None) }
    }

    pub(crate) fn require_int(&self, field: &'static str) -> Result<i64> {
        parse_int(field, self.require_field(field)?)
    }

    pub(crate) fn optional_int(&self, field: &'static str) -> Result<Option<i64>> {
        self.get(field).map(|v| parse_int(field, v)).transpose()
    }

    pub(crate) fn require_ints(&self, field: &'static str) -> Result<Vec<i64>> {
        parse_ints(field, self.require_field(field)?)
    }

    pub(crate) fn optional_ints(&self, field: &'static str) -> Result<Option<Vec<i64>>> {
        self.get(field).map(|v| parse_ints(field, v)).transpose()
    }

    pub(crate) fn require_indices(&self, field: &'static str) -> Result<Vec<usize>> {
        let v = self.require_field(field)?;
        let list = parse_ints(field, v)?;
        list.into_iter()
            .map(|i| {
                usize::try_from(i).map_err(|_| {
                    RequestFault::wrong_type(&quote_field(field), "a list of indices, 0 or more", v)
                })
            })
            .collect()
    }

    pub(crate) fn require_list(&self, field: &'static str) -> Result<&Vec<Value>> {
        let v = self.require_field(field)?;
        v.as_array().ok_or_else(|| RequestFault::wrong_type(&quote_field(field), "a list", v))
    }

    pub(crate) fn require_int_lists(&self, field: &'static str) -> Result<Vec<Vec<i64>>> {
        self.require_list(field)?.iter().map(|v| parse_ints(field, v)).collect()
    }

    pub(crate) fn require_region(&self, field: &'static str) -> Result<Vec<(i64, i64)>> {
        let pair = |v: &Value| match parse_ints(field, v)?.as_slice() {
            [b, e] => Ok((*b, *e)),
            _ => Err(RequestFault::wrong_type(&quote_field(field), "a list of [begin, end]", v)),
        };
        self.require_list(field)?.iter().map(pair).collect()
    }

    pub(crate) fn require_dtype(&self) -> Result<Dtype> {
        Ok(Dtype::from_name(self.require_str("dtype")?)?)
    }

    pub(crate) fn optional_dtype(&self) -> Result<Option<Dtype>> {
        Ok(self.optional_str("dtype")?.map(Dtype::from_name).transpose()?)
    }

    /// Bits of an element of a layout: those of its text, else those of `dtype`, which is then needed.
    pub(crate) fn element_bits(&self, parsed: &ParsedText) -> Result<i64> {
        let given = self.optional_dtype()?.map(Dtype::bits);
        parsed.element_bits(given).map_or_else(|| Ok(self.require_dtype()?.bits()), Ok)
    }

    /// The axes a text may name: built-in, and those of the field `axes`
    /// (`{"lx": "memory", "core": "device", "lane2": ["thread", "warp"]}`).
    pub(crate) fn axis_table(&self) -> Result<AxisTable> {
        let mut table = AxisTable::new();
        let Some(v) = self.get("axes") else { return Ok(table) };
        let object = v
            .as_object()
            .ok_or_else(|| RequestFault::wrong_type("`axes`", "an object name -> kind", v))?;
        for (name, kind) in object {
            table.declare_axis(name, parse_axis_kind(kind)?)?;
        }
        Ok(table)
    }

    pub(crate) fn require_axis(&self, field: &'static str) -> Result<Axis> {
        Ok(self.axis_table()?.get(self.require_str(field)?)?)
    }

    pub(crate) fn notation_field(&self, field: &'static str) -> Result<Option<Notation>> {
        let Some(name) = self.optional_str(field)? else { return Ok(None) };
        let Some(notation) = Notation::from_name(name) else {
            return Err(RequestFault {
                kind: "bad_request",
                message: format!(
                    "unknown notation `{}`; known: {}",
                    clip_text(name, 60),
                    Notation::list_names(Notation::all_notations())
                ),
                witness: json!({"field": field}),
            });
        };
        Ok(Some(notation))
    }

    /// The layout in a field, as it was written.
    pub(crate) fn parse_layout(&self, field: &'static str) -> Result<ParsedText> {
        self.parse_layout_value(field, self.require_field(field)?)
    }

    pub(crate) fn parse_layout_value(&self, field: &'static str, v: &Value) -> Result<ParsedText> {
        let axes = self.axis_table()?;
        let notation = self.notation_field("notation")?;
        match v {
            Value::String(text) => {
                let parsed = match notation {
                    Some(n) => parse_as(text, n, &axes),
                    None => parse(text, &axes),
                };
                parsed.map_err(|d| {
                    RequestFault::unreadable_text(field, text, &d).with_readings(&d, text, &axes)
                })
            }
            // Only a linear layout has the field `in`; another object is a layout of the algebra.
            Value::Object(o) if o.contains_key("in") => linear::linear_from_json(v)
                .map(|l| ParsedText::from_written(Notation::LINEAR, linear::WrittenLinear(l)))
                .map_err(|e| RequestFault::unreadable_layout_json(field, &e)),
            Value::Object(_) => zellige_notation::json::layout_from_json(v, &axes)
                .map(ParsedText::from)
                .map_err(|e| RequestFault::unreadable_layout_json(field, &e)),
            other => Err(RequestFault::wrong_type(
                &quote_field(field),
                "a layout (text, or an object)",
                other,
            )),
        }
    }

    /// The layout in a field, lowered; a Spyre text takes its host size from `shape`.
    pub(crate) fn require_layout(&self, field: &'static str) -> Result<Layout> {
        let shape = self.optional_ints("shape")?;
        self.lower_layout(field, &self.parse_layout(field)?, shape.as_deref())
    }

    /// A layout in an operand, for requests whose `shape` is not the host size of it.
    pub(crate) fn require_operand(&self, field: &'static str) -> Result<Layout> {
        self.lower_layout(field, &self.parse_layout(field)?, None)
    }

    pub(crate) fn lower_layout(
        &self,
        field: &'static str,
        p: &ParsedText,
        shape: Option<&[i64]>,
    ) -> Result<Layout> {
        p.layout_over_shape(shape).map_err(|d| self.refused_text(field, &d))
    }

    /// A text that was read and that has no layout, or none of this shape.
    pub(crate) fn refused_text(&self, field: &'static str, d: &Diagnostic) -> RequestFault {
        match &d.cause {
            Some(cause) => RequestFault::from((**cause).clone()),
            None => RequestFault {
                kind: "bad_request",
                message: format!(
                    "`{field}`: {}; {}",
                    d.message,
                    d.help.as_ref().unwrap_or(&d.label)
                ),
                witness: json!({"field": field}),
            },
        }
    }

    /// The layout and the shape of its coordinates: `shape`, or the shape of the layout itself.
    pub(crate) fn layout_and_shape(&self, field: &'static str) -> Result<(Layout, Vec<i64>)> {
        let parsed = self.parse_layout(field)?;
        let given = self.optional_ints("shape")?;
        let layout = self.lower_layout(field, &parsed, given.as_deref())?;
        let shape =
            given.or_else(|| parsed.default_shape()).unwrap_or_else(|| layout.default_shape());
        layout.check_shape_size(&shape)?;
        Ok((layout, shape))
    }

    /// The text of a result: in the notation of `as`, of `notation`, or TIRx.
    pub(crate) fn print_layout(&self, layout: &Layout) -> Result<Value> {
        let notation = self.notation_field("as")?.or(self.notation_field("notation")?);
        let dtype = self.optional_dtype()?;
        let to = notation.unwrap_or(Notation::TIRX);
        convert_layout(layout, &layout.default_shape(), dtype, to)
            .map(Value::String)
            .map_err(refuse_conversion)
    }

    /// The access of a field: `{"kind":"column","index":0}` or a list of coordinates.
    pub(crate) fn parse_access(&self, v: &Value, vector: i64) -> Result<(LaneAccessPattern, i64)> {
        let what = "access";
        if let Value::Array(lanes) = v {
            let lanes = lanes.iter().map(|l| parse_ints(what, l)).collect::<Result<_>>()?;
            return Ok((LaneAccessPattern::Lanes(lanes), vector));
        }
        let accepted =
            "{\"kind\": \"column\"|\"row\"|\"ldmatrix\"|\"lanes\", ..} or a list of coordinates";
        let o = v
            .as_object()
            .ok_or_else(|| RequestFault::wrong_type(&quote_field(what), accepted, v))?;
        let number = |k: &str| o.get(k).map_or(Ok(0), |v| parse_int(what, v));
        let (access, fields): (LaneAccessPattern, &[&str]) = match o
            .get("kind")
            .and_then(Value::as_str)
        {
            Some("column") => (LaneAccessPattern::Column { index: number("index")? }, &["index"]),
            Some("row") => (LaneAccessPattern::Row { index: number("index")? }, &["index"]),
            Some("ldmatrix") => (
                LaneAccessPattern::Ldmatrix { row: number("row")?, column: number("column")? },
                &["row", "column"],
            ),
            // The kind may be left out where the coordinates make it clear.
            Some("lanes") | None if lanes_of(o).is_some() => {
                let list = lanes_of(o).unwrap_or_default();
                let lanes = list.into_iter().map(|l| parse_ints(what, l)).collect::<Result<_>>()?;
                return Ok((
                    LaneAccessPattern::Lanes(lanes),
                    o.get("vector").map_or(Ok(vector), |v| parse_int(what, v))?,
                ));
            }
            _ => return Err(RequestFault::wrong_type(&quote_field(what), accepted, v)),
        };
        if let Some(k) =
            o.keys().find(|k| !fields.contains(&k.as_str()) && *k != "kind" && *k != "vector")
        {
            let shown: String = k.chars().take(60).collect();
            let known = fields.join(", ");
            let message =
                format!("unknown field `{shown}` of an access; known: kind, vector, {known}");
            return Err(RequestFault::new("unknown_field", message));
        }
        let vector = o.get("vector").map_or(Ok(vector), |v| parse_int(what, v))?;
        Ok((access, vector))
    }
}

/// The coordinates of lanes in an access: a list `coords` or `lanes`, or an object from lane numbers
/// (0, 1, 2, ..) to coordinates.
fn lanes_of(o: &serde_json::Map<String, Value>) -> Option<Vec<&Value>> {
    let known = |k: &String| matches!(k.as_str(), "kind" | "vector" | "coords" | "lanes");
    if let Some(list) = o.get("coords").or(o.get("lanes")).and_then(Value::as_array) {
        return o.keys().all(known).then(|| list.iter().collect());
    }
    let count = o.keys().filter(|k| !matches!(k.as_str(), "kind" | "vector")).count();
    let lanes: Option<Vec<&Value>> = (0..count).map(|i| o.get(&i.to_string())).collect();
    lanes.filter(|l| !l.is_empty())
}

fn quote_field(field: &str) -> String {
    format!("`{field}`")
}

pub(crate) fn refuse_conversion(refusal: ConversionRefusal) -> RequestFault {
    match refusal {
        ConversionRefusal::NotExpressible(n) => RequestFault {
            kind: "not_expressible",
            message: n.reason,
            witness: n.witness.map_or(Value::Null, |i| json!({"index": i})),
        },
        ConversionRefusal::Error(e) => e.into(),
    }
}

fn parse_axis_kind(v: &Value) -> Result<AxisKind> {
    let scope = |v: &Value| v.as_str().and_then(ExecutionScope::from_name);
    let found = match v {
        Value::String(s) if s == "memory" => Some(AxisKind::Memory),
        Value::String(s) if s == "device" => Some(AxisKind::Device),
        Value::Array(pair) => match pair.as_slice() {
            [of, within] => {
                scope(of).zip(scope(within)).map(|(of, within)| AxisKind::Thread { of, within })
            }
            _ => None,
        },
        _ => None,
    };
    let accepted = "\"memory\", \"device\" or [scope counted, scope counted in] such as [\"thread\", \"warp\"]";
    found.ok_or_else(|| RequestFault::wrong_type("the kind of an axis", accepted, v))
}

pub(crate) fn parse_int(field: &str, v: &Value) -> Result<i64> {
    v.as_i64().ok_or_else(|| RequestFault::wrong_type(&quote_field(field), "a 64-bit integer", v))
}

pub(crate) fn parse_ints(field: &str, v: &Value) -> Result<Vec<i64>> {
    let list = v
        .as_array()
        .ok_or_else(|| RequestFault::wrong_type(&quote_field(field), "a list of integers", v))?;
    list.iter().map(|x| parse_int(field, x)).collect()
}
