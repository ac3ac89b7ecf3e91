//! A node as the rules of operations see it: operands, attributes, results.

use crate::error::{Needs, OnnxError, Result, quote};
use crate::literal::Literal;
use crate::proto::{self, Given};
use crate::walk::{Import, Value};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{GraphError, GraphOperand, TensorId};

/// A node on its way into the graph.
pub(crate) struct Node<'i, 'a> {
    pub(crate) import: &'i mut Import<'a>,
    pub(crate) proto: &'a proto::Node<'a>,
    index: usize,
    /// Attributes that were asked for.
    taken: Vec<&'static str>,
    /// Whether all were.
    all_taken: bool,
    /// Results that were made.
    pub(crate) named: usize,
}

impl<'i, 'a> Node<'i, 'a> {
    pub(crate) fn new(
        import: &'i mut Import<'a>,
        proto: &'a proto::Node<'a>,
        index: usize,
    ) -> Node<'i, 'a> {
        Node { import, proto, index, taken: Vec::new(), all_taken: false, named: 0 }
    }

    /// Its operation.
    pub(crate) fn op(&self) -> &'a str {
        self.proto.op
    }

    pub(crate) fn domain(&self) -> &'a str {
        self.proto.domain
    }

    pub(crate) fn overload(&self) -> &'a str {
        self.proto.overload
    }

    /// Every attribute, as the call of a function passes them on.
    pub(crate) fn all_attributes(&mut self) -> Vec<(&'a str, &'a Given<'a>)> {
        self.all_taken = true;
        let all = self.proto.attributes.iter();
        all.filter_map(|a| Some((a.name, self.resolved(&a.value)?))).collect()
    }

    pub(crate) fn opset(&self) -> i64 {
        self.import.opset()
    }

    fn label(&self) -> String {
        let name = quote(self.proto.name);
        let name = if name.is_empty() { String::new() } else { format!(" `{name}`") };
        format!("node {}{name} ({})", self.index, quote(self.proto.op))
    }

    /// A refusal of the node.
    pub(crate) fn bad(&self, kind: &'static str, message: impl Into<String>) -> OnnxError {
        OnnxError { node: Some(self.label()), ..OnnxError::new(kind, message) }
    }

    /// A refusal of an operand.
    pub(crate) fn bad_operand(&self, k: usize, message: impl Into<String>) -> OnnxError {
        let name = self.proto.inputs.get(k).map_or(String::new(), |n| quote(n));
        OnnxError { operand: Some((k, name)), ..self.bad("bad_operand", message) }
    }

    /// An error of the node, or of one inside of it.
    pub(crate) fn placed(&self, e: OnnxError) -> OnnxError {
        let node = match &e.node {
            Some(inner) => format!("{inner} in {}", self.label()),
            None => self.label(),
        };
        OnnxError { node: Some(node), ..e }
    }

    pub(crate) fn refused(&self, op: &str, e: &GraphError) -> OnnxError {
        let operand = e.operand.map_or(String::new(), |k| format!(", its operand {k}"));
        self.bad(e.kind, format!("as `{op}`{operand}: {}", e.message))
    }

    // Operands

    /// Operands, with those left out at the end not counted.
    pub(crate) fn inputs(&self) -> usize {
        self.proto.inputs.iter().rposition(|n| !n.is_empty()).map_or(0, |k| k + 1)
    }

    /// That it has this many operands.
    pub(crate) fn arity(&self, least: usize, most: usize) -> Result<()> {
        let have = self.inputs();
        if (least..=most).contains(&have) {
            return Ok(());
        }
        let range = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(self.bad(
            "bad_operand",
            format!("it has {have} operand{}; accepted: {range}", if have == 1 { "" } else { "s" }),
        ))
    }

    /// Whether an operand is given.
    pub(crate) fn has(&self, k: usize) -> bool {
        self.proto.inputs.get(k).is_some_and(|n| !n.is_empty())
    }

    /// Results that are named.
    pub(crate) fn outputs(&self) -> usize {
        self.proto.outputs.iter().rposition(|n| !n.is_empty()).map_or(0, |k| k + 1)
    }

    fn name(&self, k: usize) -> Result<&'a str> {
        match self.proto.inputs.get(k) {
            Some(name) if !name.is_empty() => Ok(name),
            _ => Err(self.bad("bad_operand", format!("operand {k} is missing"))),
        }
    }

    fn unknown(&self, k: usize) -> OnnxError {
        self.bad_operand(
            k,
            "nothing before this node has that name; nodes come in an order in which they can run",
        )
    }

    /// What an operand stands for.
    pub(crate) fn value(&self, k: usize) -> Result<Value> {
        let name = self.name(k)?;
        self.import.value(name).cloned().ok_or_else(|| self.unknown(k))
    }

    /// The tensor of an operand.
    pub(crate) fn tensor(&mut self, k: usize) -> Result<TensorId> {
        let name = self.name(k)?;
        let id = self.import.tensor(name).map_err(|e| self.placed(e))?;
        id.ok_or_else(|| self.unknown(k))
    }

    /// Size and dtype of an operand.
    pub(crate) fn meta(&self, k: usize) -> Result<(Vec<i64>, Dtype)> {
        let name = self.name(k)?;
        let meta = self.import.meta(name).map_err(|e| self.placed(e))?;
        meta.ok_or_else(|| self.unknown(k))
    }

    /// The size of an operand.
    pub(crate) fn size(&self, k: usize) -> Result<Vec<i64>> {
        Ok(self.meta(k)?.0)
    }

    /// The dtype of an operand.
    pub(crate) fn dtype(&self, k: usize) -> Result<Dtype> {
        Ok(self.meta(k)?.1)
    }

    /// The elements of an operand, where they are known.
    pub(crate) fn literal(&mut self, k: usize) -> Result<Option<Rc<Literal>>> {
        let name = self.name(k)?;
        if self.import.value(name).is_none() {
            return Err(self.unknown(k));
        }
        self.import.literal(name).map_err(|e| self.placed(e))
    }

    /// The elements of an operand, which have to be known.
    pub(crate) fn known(&mut self, k: usize, what: &str) -> Result<Rc<Literal>> {
        if let Some(literal) = self.literal(k)? {
            return Ok(literal);
        }
        let value = self.value(k)?;
        Err(self.needed(what, &value, Some(k)))
    }

    /// A refusal because something has to be known and is not.
    pub(crate) fn needed(&self, what: &str, value: &Value, operand: Option<usize>) -> OnnxError {
        let roots = self.import.roots(value);
        let from = match &roots[..] {
            [] => "computed from data".into(),
            [one] => format!("computed from the input `{}`", quote(one)),
            more => format!("computed from the inputs {}", quote(&more.join(", "))),
        };
        let message = format!(
            "{what}: {from}; accepted: a constant, what follows from shapes, or inputs whose elements \
             are at hand when it is compiled (zellige run --input NAME=FILE)"
        );
        let needs = (!roots.is_empty()).then(|| Box::new(Needs(roots)));
        let refused = match operand {
            Some(k) => self.bad_operand(k, message),
            None => self.bad("bad_operand", message),
        };
        OnnxError { needs, ..refused }
    }

    /// Whole numbers that have to be known.
    pub(crate) fn ints(&mut self, k: usize, what: &str) -> Result<Vec<i64>> {
        let literal = self.known(k, what)?;
        let whole = literal.whole().filter(|_| literal.shape.len() <= 1).map(<[i64]>::to_vec);
        whole.ok_or_else(|| self.bad_operand(k, format!("{what}: accepted is a list of integers")))
    }

    /// A single number that has to be known.
    pub(crate) fn number(&mut self, k: usize, what: &str) -> Result<f64> {
        let literal = self.known(k, what)?;
        if literal.len() == 1 {
            return Ok(literal.number(0));
        }
        Err(self.bad_operand(k, format!("{what}: accepted is one number, not {:?}", literal.shape)))
    }

    /// A number, where the operand is one that needs no tensor of its own beside another of `rank`
    /// dimensions; else its tensor.
    pub(crate) fn operand(&mut self, k: usize, rank: usize) -> Result<GraphOperand> {
        if let Some(literal) = self.literal(k)?
            && literal.len() == 1
            && literal.shape.len() <= rank
            && !literal.number(0).is_nan()
        {
            return Ok(GraphOperand::Number(literal.number(0)));
        }
        Ok(GraphOperand::Tensor(self.tensor(k)?))
    }

    /// A dimension of a tensor, negative ones from the end.
    pub(crate) fn dim(&self, axis: i64, rank: usize) -> Result<usize> {
        let n = i64::try_from(rank).unwrap_or(i64::MAX);
        let wrapped = if axis < 0 { axis.checked_add(n) } else { Some(axis) };
        let found = wrapped.filter(|d| *d < n).and_then(|d| usize::try_from(d).ok());
        found.ok_or_else(|| {
            let accepted = if rank == 0 { "none".into() } else { format!("{} to {}", -n, n - 1) };
            self.bad(
                "bad_attribute",
                format!("axis {axis} of {rank} dimensions; accepted: {accepted}"),
            )
        })
    }

    // Attributes

    fn given(&mut self, name: &'static str) -> Option<&'a Given<'a>> {
        self.taken.push(name);
        let given = &self.proto.attributes.iter().find(|a| a.name == name)?.value;
        self.resolved(given)
    }

    /// An attribute; one that refers to the call of a function is what the call says, if it does.
    fn resolved(&self, given: &'a Given<'a>) -> Option<&'a Given<'a>> {
        match given {
            Given::Reference(name) => self.import.attribute(name),
            given => Some(given),
        }
    }

    pub(crate) fn wrong(&self, name: &str, accepted: &str) -> OnnxError {
        let given = self.proto.attributes.iter().find(|a| a.name == name);
        let is = given.map_or("nothing", |a| a.value.kind());
        self.bad("bad_attribute", format!("attribute `{name}` is {is}; accepted: {accepted}"))
    }

    /// Whether an attribute is given.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        let given = self.proto.attributes.iter().find(|a| a.name == name);
        given.is_some_and(|a| self.resolved(&a.value).is_some())
    }

    /// An integer.
    pub(crate) fn int(&mut self, name: &'static str, default: i64) -> Result<i64> {
        match self.given(name) {
            None => Ok(default),
            Some(Given::Int(i)) => Ok(*i),
            Some(_) => Err(self.wrong(name, "an integer")),
        }
    }

    /// A truth value, 0 or 1.
    pub(crate) fn flag(&mut self, name: &'static str, default: bool) -> Result<bool> {
        Ok(self.int(name, i64::from(default))? != 0)
    }

    /// A number.
    pub(crate) fn float(&mut self, name: &'static str, default: f32) -> Result<f64> {
        match self.given(name) {
            None => Ok(shortest(default)),
            Some(Given::Float(f)) => Ok(shortest(*f)),
            Some(_) => Err(self.wrong(name, "a float")),
        }
    }

    /// Integers.
    pub(crate) fn list(&mut self, name: &'static str) -> Result<Option<Vec<i64>>> {
        match self.given(name) {
            None => Ok(None),
            Some(Given::Ints(list)) => Ok(Some(list.clone())),
            Some(_) => Err(self.wrong(name, "a list of integers")),
        }
    }

    /// A word.
    pub(crate) fn word(&mut self, name: &'static str, default: &str) -> Result<String> {
        match self.given(name) {
            None => Ok(default.into()),
            Some(Given::Text(t)) => Ok(String::from_utf8_lossy(t).into_owned()),
            Some(_) => Err(self.wrong(name, "a text")),
        }
    }

    /// Whatever an attribute is.
    pub(crate) fn any(&mut self, name: &'static str) -> Option<&'a Given<'a>> {
        self.given(name)
    }

    /// An attribute that only matters where it has another value.
    pub(crate) fn only(&mut self, name: &'static str, accepted: i64) -> Result<()> {
        let value = self.int(name, accepted)?;
        if value == accepted {
            return Ok(());
        }
        Err(self
            .bad("bad_attribute", format!("attribute `{name}` is {value}; accepted: {accepted}")))
    }

    /// Names the results, after every attribute was looked at.
    pub(crate) fn finish(self, made: &[Value]) -> Result<()> {
        let known = |name: &str| self.all_taken || self.taken.contains(&name);
        if let Some(a) = self.proto.attributes.iter().find(|a| !known(a.name)) {
            let accepted =
                if self.taken.is_empty() { "none".into() } else { self.taken.join(", ") };
            let message =
                format!("attribute `{}` has no equivalent; accepted: {accepted}", quote(a.name));
            return Err(self.bad("bad_attribute", message));
        }
        for (k, name) in self.proto.outputs.iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            let Some(value) = made.get(k) else {
                let message = format!(
                    "result {k} `{}` has no equivalent; accepted: the first {}",
                    quote(name),
                    made.len()
                );
                return Err(self.bad("bad_results", message));
            };
            let defined = self.import.define(name, value.clone());
            defined.map_err(|e| self.placed(e))?;
        }
        Ok(())
    }
}

/// The shortest decimal of a float32, as a number: 0.01 and not 0.009999999776.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or_else(|_| f64::from(x))
}
