//! Operands as steps read them, and the copies that are made where a reader needs another layout.
//!
//! Readers that need the same bytes share one copy (torch-spyre restickified once per reader in summer 2026), through
//! whichever views they read. It is made in the dimensions of the tensor where they read through different ones, so
//! that each finds its operand by its own view.

use super::GraphLowering;
use super::lowered::{LoweredBuffer, MemoryClass};
use crate::choose::{LayoutAssignment, demanded_output_layout, move_ends};
use crate::error::Result;
use crate::options::CompilerOptions;
use crate::program::{BufferId, BufferRead, ElementOrigin};
use crate::propagate::{
    CopyBytes, OperandLayout, bind_operand_layout, copy_bytes, have_same_coordinates,
    is_read_in_place, view_in_copy, whole_copy,
};
use std::collections::HashMap;
use zellige_device::TensorLayout;
use zellige_graph::{Graph, NodeId, TensorId};
use zellige_layout::StridedLayout;

/// A copy of a tensor, and for whom it was made.
#[derive(Clone)]
pub(super) struct MadeCopy {
    buffer: BufferId,
    key: OperandLayout,
}

/// Of every tensor, the layouts that readers need, each once.
pub(super) fn collect_wanted_layouts(
    graph: &Graph,
    options: &CompilerOptions,
    assignment: &LayoutAssignment,
) -> Result<HashMap<TensorId, Vec<OperandLayout>>> {
    let mut wanted: HashMap<TensorId, Vec<OperandLayout>> = HashMap::new();
    let mut add = |tensor: TensorId, key: &OperandLayout| {
        let list = wanted.entry(graph.base_and_view(tensor).0).or_default();
        if !list.contains(key) {
            list.push(key.clone());
        }
    };
    for (id, node) in graph.nodes() {
        let keys = node.inputs.iter().zip(&assignment.nodes[id.0].operands);
        keys.for_each(|(operand, key)| key.iter().for_each(|key| add(*operand, key)));
    }
    for output in graph.outputs() {
        demanded_output_layout(graph, options, *output)?.iter().for_each(|key| add(*output, key));
    }
    Ok(wanted)
}

impl GraphLowering<'_> {
    /// An operand as a step reads it; where the reader needs another layout, a copy.
    pub(super) fn read_operand(
        &mut self,
        operand: TensorId,
        key: Option<&OperandLayout>,
        reader: Option<NodeId>,
    ) -> Result<BufferRead> {
        let (base, view) = self.graph.base_and_view(operand);
        let own = self.of[&base];
        let mine = self.buffers[own.0].laid.stick_layout().clone();
        let dtype = self.graph.get(operand).dtype;
        let as_is = |layout| OperandLayout { view: None, layout };
        let in_place = |key: &OperandLayout| {
            // The caller reads coordinates alone, so that device dimensions of extent 1 make no difference to it.
            let caller = reader.is_none() && key.view.is_none();
            is_read_in_place(self.options, self.graph.get(base), &mine, key)
                || (caller && have_same_coordinates(&key.layout, &mine))
        };
        let Some(key) = key.filter(|k| !in_place(k)) else {
            let laid = bind_operand_layout(self.options, dtype, &as_is(mine), view)?;
            return Ok(BufferRead { buffer: own, laid });
        };
        let asked = bind_operand_layout(self.options, dtype, key, view)?;
        let (bytes, made_as) = self.plan_shared_copy(base, key, &asked, view);
        // Without sharing, every reader has copies of its own.
        let whose = if self.assignment.shared { 0 } else { self.readers };
        if let Some(copy) = self.copies.get(&(base, bytes.clone(), whose)).cloned()
            && let Some(laid) = self.layout_in_copy(&copy, key, &asked, view)
        {
            return Ok(BufferRead { buffer: copy.buffer, laid });
        }
        let laid = bind_operand_layout(self.options, dtype, &made_as, view)?;
        let buffer = self.make_copy(base, &made_as, reader)?;
        self.copies.insert((base, bytes, whose), MadeCopy { buffer, key: made_as });
        Ok(BufferRead { buffer, laid })
    }

    /// The identity of the copy that a reader needs, and how it is made: in the dimensions of the tensor where readers
    /// need it through different views, otherwise in those of their one view.
    fn plan_shared_copy(
        &self,
        base: TensorId,
        key: &OperandLayout,
        asked: &TensorLayout,
        view: Option<&StridedLayout>,
    ) -> (CopyBytes, OperandLayout) {
        let own = || (CopyBytes::AsWritten(key.clone()), key.clone());
        let others = self.wanted.get(&base).map_or(&[][..], Vec::as_slice);
        if !self.assignment.shared || others.iter().all(|other| other.view == key.view) {
            return own();
        }
        let t = self.graph.get(base);
        let bytes = copy_bytes(self.options, t, key);
        let same =
            |other: &OperandLayout| other != key && copy_bytes(self.options, t, other) == bytes;
        // A copy for one reader is made in the dimensions of that reader, because a kernel may not accept the same
        // bytes through a view.
        if !others.iter().any(same) {
            return (bytes, key.clone());
        }
        let whole = whole_copy(self.options, t, key);
        match bind_operand_layout(self.options, t.dtype, &whole, view) {
            // Sharing is allowed only where the reader sees in the shared copy exactly the sticks that it would see
            // in a copy of its own.
            Ok(seen) if whole == *key || have_same_sticks(&seen, asked) => (bytes, whole),
            _ => own(),
        }
    }

    /// How a reader that needs `key`, and would read it as `asked`, finds it in a copy; none where the copy does not
    /// hold the elements as a copy of its own would.
    fn layout_in_copy(
        &self,
        copy: &MadeCopy,
        key: &OperandLayout,
        asked: &TensorLayout,
        view: Option<&StridedLayout>,
    ) -> Option<TensorLayout> {
        if copy.key == *key {
            return Some(asked.clone());
        }
        let whole = &self.buffers[copy.buffer.0].laid;
        let seen = match (&copy.key.view, view) {
            (None, None) => whole.clone(),
            (None, Some(view)) => whole.view_layout(|_| Ok(view.clone())).ok()?,
            (Some(held), Some(view)) => {
                let view = view_in_copy(view, held, &copy.key.layout)?;
                whole.view_layout(|_| Ok(view)).ok()?
            }
            (Some(_), None) => return None,
        };
        have_same_sticks(&seen, asked).then_some(seen)
    }

    fn make_copy(
        &mut self,
        base: TensorId,
        key: &OperandLayout,
        reader: Option<NodeId>,
    ) -> Result<BufferId> {
        let t = self.graph.get(base);
        let own = self.of[&base];
        let from = self.buffers[own.0].laid.stick_layout().clone();
        let (source, to) = move_ends(self.options, t.dtype, &from, key)?;
        let load = self.loads[base.0];
        let count = self.copied.entry(base).or_default();
        *count += 1;
        // The first copy has the plain name, which reports and hints use; more are numbered.
        let suffix = if *count == 1 { String::new() } else { format!("{count}") };
        let name = self.free_name(format!("{}.moved{suffix}", t.name));
        let why = match padded_rows(&to) {
            Some((n, rows))
                if source.stick_form().ok().map(|s| s.stick)
                    == to.stick_form().ok().map(|s| s.stick) =>
            {
                format!("a sum over {n} needs whole sticks: rows to {rows} are filled with 0")
            }
            Some((n, rows)) => {
                let why = explain_move(&source, &to);
                format!(
                    "{why}; a sum over {n} needs whole sticks: rows to {rows} are filled with 0"
                )
            }
            None => explain_move(&source, &to),
        };
        let copy = self.push_buffer(LoweredBuffer {
            name: name.clone(),
            tensor: base,
            laid: to,
            origin: ElementOrigin::Copy(own),
            memory: if load { MemoryClass::Own } else { MemoryClass::Temporary },
            loaded: load,
        });
        self.push_move_step(
            name,
            BufferRead { buffer: own, laid: source },
            copy,
            reader,
            why,
            load,
        )?;
        Ok(copy)
    }
}

/// Whether a kernel finds the same elements at the same coordinates in both.
fn have_same_sticks(a: &TensorLayout, b: &TensorLayout) -> bool {
    matches!((a.stick_form(), b.stick_form()), (Ok(a), Ok(b)) if a == b)
}

/// Elements and places of the dimension that has rows past its end.
fn padded_rows(laid: &TensorLayout) -> Option<(i64, i64)> {
    let rows = laid.rows_past_the_end()?;
    let dim = (0..rows.size().len())
        .find(|d| rows.stick_layout().host().is_some_and(|h| h.size()[*d] != laid.size()[*d]))?;
    Some((laid.size()[dim], rows.stick_layout().host()?.size()[dim]))
}

/// Why elements are moved, from their layouts before and after.
fn explain_move(from: &TensorLayout, to: &TensorLayout) -> String {
    let dim = |d: Option<usize>| {
        d.map_or("one element in each stick".into(), |d| format!("sticks along dimension {d}"))
    };
    match (from.stick_form(), to.stick_form()) {
        (Err(e), _) => e.to_string(),
        (Ok(a), Ok(b)) if a.stick != b.stick => {
            format!("it has {}, and {} are wanted", dim(a.stick), dim(b.stick))
        }
        (Ok(_), Ok(_)) => "its dimensions are wanted in another order".into(),
        (Ok(_), Err(e)) => e.to_string(),
    }
}
