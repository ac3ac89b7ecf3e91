//! Moves and transfers.

use super::OpAnswer;
use crate::RequestFault;
use crate::request::Request;
use serde_json::{Value, json};
use zellige_float::Dtype;
use zellige_float::{ConversionLoss, conversion_losses};
use zellige_layout::{Layout, StridedLayout};
use zellige_movement::{MoveDtypes, MovePlan, PaddingValue};
use zellige_stick::StickLayout;
use zellige_stick::{PlannedTransfer, TransferDirection};

fn refuse_too_many_nests(plan: &MovePlan) -> Result<(), RequestFault> {
    let starts: usize = plan.nests().iter().map(|n| n.starts.len()).sum();
    // Each start is an object of its own in the answer; programs that need more take the plan from the library.
    if starts <= 1 << 16 {
        return Ok(());
    }
    Err(RequestFault::new(
        "too_large",
        format!("the plan has {starts} nests, and an answer lists at most 65536"),
    ))
}

pub(super) fn answer_dma(r: &Request) -> OpAnswer {
    let size = r.require_ints("size")?;
    let offset = r.optional_int("offset")?.unwrap_or(0);
    let stride = r.optional_ints("stride")?;
    let host = match &stride {
        Some(stride) => StridedLayout::new(&size, stride, offset)?,
        None => StridedLayout::new(&size, StridedLayout::new_contiguous(&size)?.stride(), offset)?,
    };
    let dtype = r.require_dtype()?;
    // One dimension is the stick in every format but packed weights, whose stick is two-dimensional.
    let together = r.optional_int("stick_dims")?.unwrap_or(1);
    let stick = StickLayout::with_stick_dims(
        &r.require_ints("device_size")?,
        &r.require_ints("stride_map")?,
        zellige_stick::DataFormat::device_format_of(dtype)?,
        usize::try_from(together).unwrap_or(0),
    )?;
    let stick = match r.optional_ints("device_stride")? {
        Some(strides) => stick.with_device_strides(&strides)?,
        None => stick,
    };
    let stick = match r.optional_ints("tensor_stride")? {
        // The strides that the stride_map was made for, which a view of the tensor does not have.
        Some(own) => stick.with_own_strides(&size, &own)?,
        None => stick.with_host(&size, stride.as_deref())?,
    };
    let direction = match r.optional_str("direction")?.unwrap_or("h2d") {
        "h2d" => TransferDirection::HostToDevice,
        "d2h" => TransferDirection::DeviceToHost,
        other => {
            let shown: String = other.chars().take(40).collect();
            let message = format!("unknown direction `{shown}`; known: h2d, d2h");
            return Err(RequestFault {
                kind: "bad_request",
                message,
                witness: json!({"field": "direction"}),
            });
        }
    };
    let transfer = PlannedTransfer::new(&host, &stick, dtype, direction)?;
    refuse_too_many_nests(transfer.plan())?;
    Ok(json!({"nests": transfer.named_nests(), "dci": transfer.build_descriptor("DCI-Tensor-0")?}))
}

/// The padding in the field `fill`: a word or a number.
fn read_padding(r: &Request) -> Result<PaddingValue, RequestFault> {
    let bad = |message: String| RequestFault {
        kind: "bad_request",
        message,
        witness: json!({"field": "fill"}),
    };
    match r.get("fill") {
        None => Ok(PaddingValue::Leave),
        // A plan has padding, which a request may name without a value; it is zero then.
        Some(Value::String(word)) if word == "padding" => Ok(PaddingValue::Zero),
        Some(Value::String(word)) => PaddingValue::parse(word).map_err(|e| bad(e.to_string())),
        Some(v) => match (v.as_i64(), v.as_f64()) {
            (Some(n), _) => Ok(PaddingValue::Integer(n)),
            (_, Some(x)) => Ok(PaddingValue::Real(x)),
            _ => {
                Err(RequestFault::wrong_type("`fill`", "leave, zero, sum, max, min or a number", v))
            }
        },
    }
}

/// One move as a request writes it.
#[derive(Debug, Clone)]
pub struct MoveRequest {
    /// The layout of the source.
    pub src: Layout,
    /// The layout of the destination.
    pub dst: Layout,
    /// The logical shape of both.
    pub shape: Vec<i64>,
    /// The element type.
    pub dtype: Dtype,
    /// The element type at the destination, where it is another one.
    pub to_dtype: Option<Dtype>,
    /// What padding is filled with.
    pub padding: PaddingValue,
}

pub(super) fn read_move_fields(r: &Request) -> Result<MoveRequest, RequestFault> {
    let shape = r.require_ints("shape")?;
    let src = r.lower_layout("src", &r.parse_layout("src")?, Some(&shape))?;
    let dst = r.lower_layout("dst", &r.parse_layout("dst")?, Some(&shape))?;
    let dtype = r.require_dtype()?;
    let to_dtype = r.optional_str("to_dtype")?.map(Dtype::from_name).transpose()?;
    let padding = read_padding(r)?;
    Ok(MoveRequest { src, dst, shape, dtype, to_dtype, padding })
}

/// Reads the fields of the request `move` for a caller that does more with it than plan it.
pub(crate) fn read_move_request(r: &Request) -> Result<MoveRequest, RequestFault> {
    let fields = "src, dst, shape, dtype, to_dtype?, fill?";
    let wrong_op = match r.get("op") {
        None => None,
        Some(v) if v.as_str() == Some("move") => None,
        Some(other) => Some(RequestFault::wrong_type("`op`", "\"move\", or left out", other)),
    };
    let found = wrong_op.map_or_else(|| read_move_fields(r), Err);
    match &found {
        Ok(_) => r.refuse_unknown_fields()?,
        Err(fault) if fault.kind == "bad_request" => r.refuse_misspelt(fields, fault)?,
        Err(_) => {}
    }
    found
}

pub(super) fn answer_move(r: &Request) -> OpAnswer {
    let MoveRequest { src, dst, shape, dtype, to_dtype, padding } = read_move_fields(r)?;
    let written = to_dtype.unwrap_or(dtype);
    let refused = |field: &str, message: String| RequestFault {
        kind: "bad_request",
        message: format!("`{field}`: {message}"),
        witness: json!({"field": field}),
    };
    let element = padding.element_for_dtype(written).map_err(|e| refused("fill", e.to_string()))?;
    let losses: Vec<String> = match to_dtype.map(|to| MoveDtypes::between(dtype, to)).transpose() {
        Ok(Some(MoveDtypes::Formats { from, to })) => {
            conversion_losses(from, to).iter().map(ConversionLoss::to_string).collect()
        }
        Ok(_) => Vec::new(),
        Err(e) => return Err(refused("to_dtype", e.to_string())),
    };
    let plan = MovePlan::between(&src, &dst, &shape, padding.fill_mode())?;
    refuse_too_many_nests(&plan)?;
    // Elements narrower than a byte are counted as bits and rounded up at the end.
    let (read, wrote) = (dtype.bits(), written.bits());
    let cost = plan.cost_in_bytes(read, wrote);
    let nests: Vec<Value> = plan
        .nests()
        .iter()
        .flat_map(|n| {
            n.starts.iter().map(|(a, b)| {
                json!({
                    "ranges": n.loops.iter().map(|l| l.range).collect::<Vec<_>>(),
                    "src_strides": n.loops.iter().map(|l| l.src).collect::<Vec<_>>(),
                    "dst_strides": n.loops.iter().map(|l| l.dst).collect::<Vec<_>>(),
                    "src_offset": a,
                    "dst_offset": b,
                })
            })
        })
        .collect();
    let runs: Vec<Value> = plan
        .run_lengths()
        .iter()
        .map(|(run, count)| json!({"elements": run, "count": count}))
        .collect();
    // Lines of a cache need whole bytes, so elements below a byte count as one here; the bytes above stay exact.
    let bytes = plan.cost_in_bytes((read / 8).max(1), (wrote / 8).max(1));
    let mut answer = json!({
        "nests": nests,
        "fills": plan.fills().len(),
        "bytes_read": (cost.bytes_read + 7) / 8,
        "bytes_written": (cost.bytes_written + 7) / 8,
        "runs": runs,
        "cost": {"lines": bytes.lines, "runs": bytes.runs},
        "text": plan.to_string(),
    });
    if let Some(element) = element.filter(|_| !plan.fills().is_empty()) {
        // JSON has no infinities: the bytes say everything, the text what a person reads.
        answer["fill"] = json!({"value": element.value.to_string(), "bytes": element.bytes});
    }
    if to_dtype.is_some() {
        answer["conversion"] = json!({
            "from": dtype.name(), "to": written.name(), "exact": losses.is_empty(), "losses": losses,
        });
    }
    Ok(answer)
}
