//! Runs one operation of a core.

use super::access::{
    BoundSubscript, KtirAccess, KtirByteSpace, KtirView, KtirViewPart, resolve_space,
};
use super::core::KtirCore;
use super::error::KtirFault;
use super::exchange::PartialExchange;
use super::memory::KtirMemory;
use super::pointwise;
use super::value::{KtirElements, KtirRunValue, element_count};
use crate::affine::KtirAffineSet;
use crate::ir::{DYNAMIC_SIZE, KtirAttr, KtirMemorySpace, KtirOp, KtirValue};
use crate::number::literal_to_float;
use crate::op::{KtirOpForm, KtirOpKind};
use crate::types::{KtirElem, KtirType, RuntimeArgument};
use std::rc::Rc;

impl<'m> KtirCore<'m> {
    /// Runs one operation; returns false if the core has to wait.
    pub(super) fn run_op(
        &mut self,
        op: &'m KtirOp,
        memory: &mut KtirMemory,
        exchange: &mut PartialExchange,
    ) -> Result<bool, KtirFault> {
        match op.kind {
            KtirOpKind::For
            | KtirOpKind::If
            | KtirOpKind::While
            | KtirOpKind::Parallel
            | KtirOpKind::Call => self.run_control(op)?,
            KtirOpKind::Produce => self.run_produce(op)?,
            k if k.is_delivery() => return self.run_delivery(op, exchange),
            k if k.is_terminator() => self.end_block(op, exchange)?,
            _ => {
                self.ledger.begin_op(op.kind.name());
                let values = self.evaluate_op(op, memory)?;
                self.ledger.end_op();
                for (v, value) in op.results.iter().zip(values) {
                    self.write_value(*v, value);
                }
                self.advance_to_next_op();
            }
        }
        Ok(true)
    }

    /// Computes the results of an operation that opens no block.
    fn evaluate_op(
        &mut self,
        op: &'m KtirOp,
        memory: &mut KtirMemory,
    ) -> Result<Vec<KtirRunValue>, KtirFault> {
        for v in &op.results {
            self.check_tile_room(self.value_type(*v))?;
        }
        let value = match op.kind.form() {
            KtirOpForm::Constant => self.evaluate_constant(op)?,
            KtirOpForm::Structured(n) => self.run_structured(op, n)?,
            KtirOpForm::Same(_) | KtirOpForm::Compare | KtirOpForm::Select | KtirOpForm::Cast => {
                self.evaluate_pointwise(op)?
            }
            _ => match op.kind {
                KtirOpKind::TileId => {
                    let dims = match op.int_attr("dim") {
                        Some(d) => vec![usize::try_from(d).unwrap_or(0)],
                        None => (0..op.results.len()).collect(),
                    };
                    return Ok(dims
                        .into_iter()
                        .map(|d| KtirRunValue::I(self.grid_coordinate(d)))
                        .collect());
                }
                KtirOpKind::CoreId => {
                    let at = self.read_ints(&op.operands)?;
                    KtirRunValue::I(self.find_core(&at)?)
                }
                KtirOpKind::RuntimeArgExtract => {
                    let KtirType::RuntimeArg(text) = self.value_type(op.operands[0]) else {
                        return Err(KtirFault::Invalid("not a runtime argument".into()));
                    };
                    let argument = RuntimeArgument::read(text).map_err(KtirFault::Invalid)?;
                    let value = self.read_value(op.operands[0])?.as_int();
                    KtirRunValue::I(match op.word_attr("field") {
                        Some("granularity") => argument.granularity.unwrap_or(1),
                        Some("upperbound") => argument.upperbound.unwrap_or(i64::MAX),
                        _ => value,
                    })
                }
                KtirOpKind::AffineApply => {
                    let Some(map) = op.map_attr("map") else { return Ok(vec![]) };
                    let at = self.read_ints(&op.operands)?;
                    let (dims, symbols) = at.split_at(map.dims().min(at.len()));
                    let out =
                        map.evaluate_at(dims, symbols).ok_or(KtirFault::Overflow("an index"))?;
                    KtirRunValue::I(out.first().copied().unwrap_or(0))
                }
                KtirOpKind::MemoryView => self.make_memory_view(op)?,
                KtirOpKind::DistributedView => self.make_distributed_view(op)?,
                KtirOpKind::AccessTile => self.make_access_tile(op)?,
                KtirOpKind::IndirectTile => self.make_indirect_tile(op)?,
                KtirOpKind::Load => self.run_load(op, memory)?,
                KtirOpKind::Store => {
                    self.run_store(op, memory)?;
                    return Ok(vec![]);
                }
                KtirOpKind::MemRefLoad => {
                    let view = self.read_view(op.operands[0])?;
                    let byte = view.element_byte(&self.read_ints(&op.operands[1..])?)?;
                    let value = memory.read_runs(&[byte], 1, view.elem)?.first_value();
                    self.record_element_access(byte, view.elem, false);
                    value
                }
                KtirOpKind::MemRefStore => {
                    let view = self.read_view(op.operands[1])?;
                    let byte = view.element_byte(&self.read_ints(&op.operands[2..])?)?;
                    let data = self.read_value(op.operands[0])?.to_elements();
                    memory.write_runs(&[byte], 1, view.elem, &data, self.id)?;
                    self.record_element_access(byte, view.elem, true);
                    return Ok(vec![]);
                }
                KtirOpKind::Generic | KtirOpKind::Reduce | KtirOpKind::LinalgMap => {
                    return self.run_looped_body(op);
                }
                _ => self.run_tile_op(op)?,
            },
        };
        Ok(vec![value])
    }

    fn record_element_access(&mut self, byte: (KtirByteSpace, i64), elem: KtirElem, write: bool) {
        let runs = super::access::KtirAccessRuns {
            runs: vec![byte],
            len: 1,
            parts: vec![],
            index: vec![],
        };
        self.ledger.record_transfer(&runs, elem.byte_size(), write, self.id, self.cores);
    }

    fn evaluate_constant(&mut self, op: &KtirOp) -> Result<KtirRunValue, KtirFault> {
        let ty = self.value_type(op.results[0]);
        let elem = ty.elem().unwrap_or(KtirElem::Index);
        let data = constant_elements(op, elem, element_count(ty.shape().unwrap_or(&[])));
        self.make_tile(ty, data)
    }

    fn evaluate_pointwise(&mut self, op: &KtirOp) -> Result<KtirRunValue, KtirFault> {
        let values: Vec<Rc<KtirElements>> = op
            .operands
            .iter()
            .map(|v| Ok(self.read_value(*v)?.to_elements()))
            .collect::<Result<_, KtirFault>>()?;
        let inputs: Vec<&KtirElements> = values.iter().map(AsRef::as_ref).collect();
        let ty = self.value_type(op.results[0]);
        let from =
            self.value_elem(op.operands[if op.kind == KtirOpKind::ArithSelect { 1 } else { 0 }]);
        let data = pointwise::apply_pointwise(op, &inputs, from, ty.elem().unwrap_or(from))?;
        let scalar = matches!(ty, KtirType::Scalar(_));
        self.ledger.record_elements(op.kind, data.len(), scalar);
        if !scalar {
            self.record_tile_traffic(op);
        }
        self.make_tile(ty, data)
    }

    /// Records the bytes of the tiles that an operation reads and writes through the scratchpad's
    /// port.
    pub(super) fn record_tile_traffic(&mut self, op: &KtirOp) {
        let all = op.operands.iter().chain(&op.results);
        let bytes = all
            .map(|v| super::value::bytes_in_scratchpad(self.value_type(*v)))
            .fold(0, u64::saturating_add);
        self.ledger.record_lx_bytes(bytes);
    }

    fn read_view(&self, v: KtirValue) -> Result<Rc<KtirView>, KtirFault> {
        match self.read_value(v)? {
            KtirRunValue::View(view) => Ok(view),
            _ => Err(KtirFault::Invalid("a view is needed".into())),
        }
    }

    fn make_memory_view(&mut self, op: &KtirOp) -> Result<KtirRunValue, KtirFault> {
        let at = self.read_ints(&op.operands)?;
        let mut dynamic = at[1..].iter().copied();
        let mut fill = |key: &str| -> Vec<i64> {
            let list = op.ints_attr(key).unwrap_or(&[]);
            list.iter()
                .map(|n| if *n == DYNAMIC_SIZE { dynamic.next().unwrap_or(0) } else { *n })
                .collect()
        };
        let (shape, strides) = (fill("sizes"), fill("strides"));
        let space = match op.attr("memory_space") {
            Some(KtirAttr::Space(space)) => *space,
            _ => KtirMemorySpace::Global,
        };
        // The symbols of the coordinate set are the dynamic sizes, in their order.
        let sizes = op.ints_attr("sizes").unwrap_or(&[]);
        let symbols: Vec<i64> = sizes
            .iter()
            .zip(&shape)
            .filter(|(n, _)| **n == DYNAMIC_SIZE)
            .map(|(_, n)| *n)
            .collect();
        let coordinates = op.set_attr("coordinate_set").and_then(|set| {
            let low = set.bounding_box(&symbols)?.low;
            Some((set.clone(), symbols, low))
        });
        let part = KtirViewPart {
            base: at[0],
            strides,
            place: resolve_space(space, self.id),
            coordinates,
        };
        let elem = self.value_elem(op.results[0]);
        Ok(KtirRunValue::View(Rc::new(KtirView { elem, shape, parts: vec![part], joined: false })))
    }

    fn make_distributed_view(&mut self, op: &KtirOp) -> Result<KtirRunValue, KtirFault> {
        let mut parts = Vec::new();
        for v in &op.operands {
            parts.extend(self.read_view(*v)?.parts.iter().cloned());
        }
        let shape = match self.value_type(op.results[0]) {
            KtirType::MemRef(shape, _) => shape.iter().map(|n| n.unwrap_or(i64::MAX)).collect(),
            _ => Vec::new(),
        };
        let elem = self.value_elem(op.results[0]);
        Ok(KtirRunValue::View(Rc::new(KtirView { elem, shape, parts, joined: true })))
    }

    fn make_access_tile(&mut self, op: &KtirOp) -> Result<KtirRunValue, KtirFault> {
        let view = self.read_view(op.operands[0])?;
        let at = self.read_ints(&op.operands[1..])?;
        let far = || KtirFault::Overflow("a coordinate");
        let Some(indices) = op.map_attr("indices") else { return Err(far()) };
        let mut base = indices.evaluate_at(&at, &[]).ok_or_else(far)?;
        if let Some(map) = op.map_attr("base_map") {
            base = map.evaluate_at(&base, &[]).ok_or_else(far)?;
        }
        let shape = self.value_type(op.results[0]).shape().unwrap_or(&[]);
        let set = op
            .set_attr("access_tile_set")
            .cloned()
            .unwrap_or_else(|| KtirAffineSet::from_extents(shape));
        let order = op.map_attr("access_tile_order").cloned();
        Ok(KtirRunValue::Access(Rc::new(KtirAccess::Direct { view, base, set, order })))
    }

    fn make_indirect_tile(&mut self, op: &KtirOp) -> Result<KtirRunValue, KtirFault> {
        let view = self.read_view(op.operands[0])?;
        let flags = op.ints_attr("indirect").unwrap_or(&[]);
        let sources = flags.iter().filter(|f| **f != 0).count();
        let captured = self.read_ints(&op.operands[1 + sources..])?;
        let mut next = op.operands[1..].iter();
        let mut subscripts = Vec::new();
        for (map, flag) in op.maps_attr("subscripts").iter().zip(flags) {
            let through = match (*flag != 0).then(|| next.next()).flatten() {
                Some(v) => Some(self.read_view(*v)?),
                None => None,
            };
            subscripts.push(BoundSubscript {
                map: map.clone(),
                captured: captured.clone(),
                through,
            });
        }
        let Some(set) = op.set_attr("variables_space_set").cloned() else {
            return Err(KtirFault::Invalid("an indirect tile without its set".into()));
        };
        let order = op.map_attr("variables_space_order").cloned();
        Ok(KtirRunValue::Access(Rc::new(KtirAccess::Indirect { view, subscripts, set, order })))
    }

    fn read_access(&self, v: KtirValue) -> Result<Rc<KtirAccess>, KtirFault> {
        match self.read_value(v)? {
            KtirRunValue::Access(access) => Ok(access),
            _ => Err(KtirFault::Invalid("an access tile is needed".into())),
        }
    }

    fn run_load(
        &mut self,
        op: &KtirOp,
        memory: &mut KtirMemory,
    ) -> Result<KtirRunValue, KtirFault> {
        let access = self.read_access(op.operands[0])?;
        let elem = access.view().elem;
        let runs = access.resolve_runs(memory, &self.meter)?;
        let ty = self.value_type(op.results[0]);
        self.check_accessed_elements(runs.runs.len() * runs.len, elem, ty)?;
        let data = memory.read_runs(&runs.runs, runs.len, elem)?;
        self.ledger.record_transfer(&runs, elem.byte_size(), false, self.id, self.cores);
        self.record_tile_traffic(op);
        self.make_tile(ty, data)
    }

    fn run_store(&mut self, op: &KtirOp, memory: &mut KtirMemory) -> Result<(), KtirFault> {
        let access = self.read_access(op.operands[1])?;
        let elem = access.view().elem;
        let runs = access.resolve_runs(memory, &self.meter)?;
        let ty = self.value_type(op.operands[0]);
        self.check_accessed_elements(runs.runs.len() * runs.len, elem, ty)?;
        let data = self.read_value(op.operands[0])?.to_elements();
        memory.write_runs(&runs.runs, runs.len, elem, &data, self.id)?;
        self.ledger.record_transfer(&runs, elem.byte_size(), true, self.id, self.cores);
        self.record_tile_traffic(op);
        Ok(())
    }

    /// Refuses a tensor that does not fit the elements that an access tile selects.
    fn check_accessed_elements(
        &self,
        elements: usize,
        elem: KtirElem,
        ty: &KtirType,
    ) -> Result<(), KtirFault> {
        // The type of an access tile names no element type. The verifier compares the elements where
        // it sees the view, and cannot where the tile is an argument or the result of a branch.
        if ty.elem() != Some(elem) {
            return Err(KtirFault::Invalid(format!(
                "the view has elements {elem}, not those of {ty}"
            )));
        }
        let n = element_count(ty.shape().unwrap_or(&[]));
        if n == elements {
            return Ok(());
        }
        Err(KtirFault::Invalid(format!("the access tile has {elements} elements, {ty} has {n}")))
    }
}

/// The elements of a constant.
pub(super) fn constant_elements(op: &KtirOp, elem: KtirElem, n: usize) -> KtirElements {
    let list = match op.attr("value") {
        Some(KtirAttr::Literal(l)) => std::slice::from_ref(l),
        Some(KtirAttr::Dense(list)) => list.as_slice(),
        _ => &[],
    };
    let data = if elem.is_float() {
        KtirElements::F(list.iter().map(|l| literal_to_float(*l, elem)).collect())
    } else {
        let int = |l: &crate::ir::KtirLiteral| match l {
            crate::ir::KtirLiteral::Int(n) => pointwise::wrap_integer(*n, elem),
            _ => 0,
        };
        KtirElements::I(list.iter().map(int).collect())
    };
    if n == 0 { KtirElements::zeros(elem, 0) } else { data.broadcast_to(n) }
}
