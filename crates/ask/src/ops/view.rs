//! Host views.

use super::Answer;
use crate::Fault;
use crate::request::{Request, int, ints};
use serde_json::{Value, json};
use zellige_layout::{Error, Strided};

/// The arguments of a view: by position in `args`, or by name beside `call`.
struct Arguments<'a> {
    request: &'a Request,
    list: Vec<Value>,
}

impl Arguments<'_> {
    fn get(&self, position: usize, name: &'static str) -> Option<Value> {
        let named = self.request.get(name).cloned();
        self.list.get(position).filter(|v| !v.is_null()).cloned().or(named)
    }

    fn need(&self, position: usize, name: &'static str) -> Result<Value, Fault> {
        self.get(position, name).ok_or_else(|| Fault {
            kind: "bad_request",
            message: format!("`{name}` is missing: argument {position} of the view"),
            witness: json!({"field": name}),
        })
    }

    fn int(&self, position: usize, name: &'static str) -> Result<i64, Fault> {
        int(name, &self.need(position, name)?)
    }

    fn opt_int(&self, position: usize, name: &'static str) -> Result<Option<i64>, Fault> {
        self.get(position, name).map(|v| int(name, &v)).transpose()
    }

    /// A list as one argument, or spread over all of them as PyTorch also allows.
    fn ints(&self, name: &'static str) -> Result<Vec<i64>, Fault> {
        if self.list.first().is_some_and(Value::is_i64) {
            return ints(name, &Value::Array(self.list.clone()));
        }
        ints(name, &self.need(0, name)?)
    }
}

pub(super) fn view(r: &Request) -> Answer {
    let size = r.ints("size")?;
    let offset = r.opt_int("offset")?.unwrap_or(0);
    let host = match r.opt_ints("stride")? {
        Some(stride) => Strided::new(&size, &stride, offset)?,
        None => {
            let contiguous = Strided::contiguous(&size)?;
            Strided::new(&size, contiguous.stride(), offset)?
        }
    };
    let list = match r.get("args") {
        None => Vec::new(),
        Some(Value::Array(list)) => list.clone(),
        Some(other) => return Err(Fault::expected("`args`", "a list", other)),
    };
    let a = Arguments { request: r, list };
    let found = match r.str("call")? {
        "transpose" => host.transpose(a.int(0, "dim0")?, a.int(1, "dim1")?),
        "permute" => host.permute(&a.ints("dims")?),
        "slice" => host.slice(
            a.int(0, "dim")?,
            a.opt_int(1, "start")?,
            a.opt_int(2, "end")?,
            a.opt_int(3, "step")?.unwrap_or(1),
        ),
        "select" => host.select(a.int(0, "dim")?, a.int(1, "index")?),
        "expand" => host.expand(&a.ints("sizes")?),
        "squeeze" => host.squeeze(a.opt_int(0, "dim")?),
        "unsqueeze" => host.unsqueeze(a.int(0, "dim")?),
        "unfold" => host.unfold(a.int(0, "dim")?, a.int(1, "length")?, a.int(2, "step")?),
        "flip" => host.flip(&a.ints("dims")?),
        "view" => host.view(&a.ints("shape")?),
        "reshape" => host.reshape(&a.ints("shape")?),
        other => {
            let shown: String = other.chars().take(60).collect();
            let message = format!(
                "unknown view `{shown}`; known: transpose, permute, slice, select, expand, squeeze, \
                 unsqueeze, unfold, flip, view, reshape"
            );
            return Err(Fault { kind: "bad_request", message, witness: json!({"field": "call"}) });
        }
    };
    match found {
        Ok(v) => Ok(json!({"size": v.size(), "stride": v.stride(), "offset": v.offset()})),
        Err(Error::NeedsCopy { reason, .. }) => Ok(json!({"needs_copy": {"reason": reason}})),
        Err(e) => Err(e.into()),
    }
}
