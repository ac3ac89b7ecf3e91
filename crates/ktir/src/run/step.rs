//! One operation of a core.

use super::access::{Access, Part, Place, Subscript, View, place};
use super::core::Core;
use super::error::Fault;
use super::exchange::Exchange;
use super::memory::Memory;
use super::pointwise;
use super::value::{Data, Val, count};
use crate::affine::Set;
use crate::ir::{Attr, DYNAMIC, Op, Space, Value};
use crate::number::float_of;
use crate::op::{Form, Kind};
use crate::types::{Elem, Type};
use std::rc::Rc;

impl<'m> Core<'m> {
    /// Runs one operation; false where it has to wait.
    pub(super) fn step(
        &mut self,
        op: &'m Op,
        memory: &mut Memory,
        exchange: &mut Exchange,
    ) -> Result<bool, Fault> {
        match op.kind {
            Kind::For | Kind::If | Kind::While | Kind::Parallel | Kind::Call => self.control(op)?,
            Kind::Produce => self.produce(op)?,
            k if k.is_delivery() => return self.deliver(op, exchange),
            k if k.is_terminator() => self.end(op, exchange)?,
            _ => {
                self.ledger.begin(op.kind.name());
                let values = self.values(op, memory)?;
                self.ledger.end();
                for (v, value) in op.results.iter().zip(values) {
                    self.set(*v, value);
                }
                self.advance();
            }
        }
        Ok(true)
    }

    /// What an operation without blocks of its own to run gives.
    fn values(&mut self, op: &'m Op, memory: &mut Memory) -> Result<Vec<Val>, Fault> {
        for v in &op.results {
            self.room(self.ty(*v))?;
        }
        let value = match op.kind.form() {
            Form::Constant => self.constant(op)?,
            Form::Structured(n) => self.structured(op, n)?,
            Form::Same(_) | Form::Compare | Form::Select | Form::Cast => self.pointwise(op)?,
            _ => match op.kind {
                Kind::TileId => {
                    let dims = match op.int("dim") {
                        Some(d) => vec![usize::try_from(d).unwrap_or(0)],
                        None => (0..op.results.len()).collect(),
                    };
                    return Ok(dims.into_iter().map(|d| Val::I(self.coordinate(d))).collect());
                }
                Kind::AffineApply => {
                    let Some(map) = op.map("map") else { return Ok(vec![]) };
                    let at = self.ints(&op.operands)?;
                    let (dims, symbols) = at.split_at(map.dims().min(at.len()));
                    let out = map.eval(dims, symbols).ok_or(Fault::Overflow("an index"))?;
                    Val::I(out.first().copied().unwrap_or(0))
                }
                Kind::MemoryView => self.memory_view(op)?,
                Kind::DistributedView => self.distributed(op)?,
                Kind::AccessTile => self.access_tile(op)?,
                Kind::IndirectTile => self.indirect_tile(op)?,
                Kind::Load => self.load(op, memory)?,
                Kind::Store => {
                    self.store(op, memory)?;
                    return Ok(vec![]);
                }
                Kind::MemRefLoad => {
                    let view = self.view(op.operands[0])?;
                    let byte = view.byte(&self.ints(&op.operands[1..])?)?;
                    let value = memory.read(&[byte], 1, view.elem)?.first();
                    self.one_element(byte, view.elem, false);
                    value
                }
                Kind::MemRefStore => {
                    let view = self.view(op.operands[1])?;
                    let byte = view.byte(&self.ints(&op.operands[2..])?)?;
                    let data = self.get(op.operands[0])?.data();
                    memory.write(&[byte], 1, view.elem, &data, self.id)?;
                    self.one_element(byte, view.elem, true);
                    return Ok(vec![]);
                }
                Kind::Generic | Kind::Reduce | Kind::LinalgMap => return self.looped(op),
                _ => self.tile_op(op)?,
            },
        };
        Ok(vec![value])
    }

    fn one_element(&mut self, byte: (Place, i64), elem: Elem, write: bool) {
        let runs = super::access::Runs { runs: vec![byte], len: 1, index: vec![], index_size: 0 };
        self.ledger.transfer(&runs, elem.size(), write, self.id, self.cores);
    }

    fn constant(&mut self, op: &Op) -> Result<Val, Fault> {
        let ty = self.ty(op.results[0]);
        let elem = ty.elem().unwrap_or(Elem::Index);
        let data = constant(op, elem, count(ty.shape().unwrap_or(&[])));
        self.tile(ty, data)
    }

    fn pointwise(&mut self, op: &Op) -> Result<Val, Fault> {
        let values: Vec<Rc<Data>> =
            op.operands.iter().map(|v| Ok(self.get(*v)?.data())).collect::<Result<_, Fault>>()?;
        let inputs: Vec<&Data> = values.iter().map(AsRef::as_ref).collect();
        let ty = self.ty(op.results[0]);
        let from = self.elem(op.operands[if op.kind == Kind::ArithSelect { 1 } else { 0 }]);
        let data = pointwise::apply(op, &inputs, from, ty.elem().unwrap_or(from))?;
        let scalar = matches!(ty, Type::Scalar(_));
        self.ledger.compute(op.kind.class(), data.len(), scalar);
        if !scalar {
            self.touched(op);
        }
        self.tile(ty, data)
    }

    /// Tiles that an operation reads and writes pass the scratchpad's port.
    pub(super) fn touched(&mut self, op: &Op) {
        let all = op.operands.iter().chain(&op.results);
        let bytes = all.map(|v| super::value::bytes(self.ty(*v))).fold(0, u64::saturating_add);
        self.ledger.lx(bytes);
    }

    fn view(&self, v: Value) -> Result<Rc<View>, Fault> {
        match self.get(v)? {
            Val::View(view) => Ok(view),
            _ => Err(Fault::Invalid("a view is needed".into())),
        }
    }

    fn memory_view(&mut self, op: &Op) -> Result<Val, Fault> {
        let at = self.ints(&op.operands)?;
        let mut dynamic = at[1..].iter().copied();
        let mut fill = |key: &str| -> Vec<i64> {
            let list = op.ints(key).unwrap_or(&[]);
            list.iter()
                .map(|n| if *n == DYNAMIC { dynamic.next().unwrap_or(0) } else { *n })
                .collect()
        };
        let (shape, strides) = (fill("sizes"), fill("strides"));
        let space = match op.attr("memory_space") {
            Some(Attr::Space(space)) => *space,
            _ => Space::Global,
        };
        // Symbols of the coordinates are the sizes that are values, in their order.
        let sizes = op.ints("sizes").unwrap_or(&[]);
        let symbols: Vec<i64> =
            sizes.iter().zip(&shape).filter(|(n, _)| **n == DYNAMIC).map(|(_, n)| *n).collect();
        let coordinates = op.set("coordinate_set").and_then(|set| {
            let low = set.bounds(&symbols)?.low;
            Some((set.clone(), symbols, low))
        });
        let part = Part { base: at[0], strides, place: place(space, self.id), coordinates };
        let elem = self.elem(op.results[0]);
        Ok(Val::View(Rc::new(View { elem, shape, parts: vec![part], joined: false })))
    }

    fn distributed(&mut self, op: &Op) -> Result<Val, Fault> {
        let mut parts = Vec::new();
        for v in &op.operands {
            parts.extend(self.view(*v)?.parts.iter().cloned());
        }
        let shape = match self.ty(op.results[0]) {
            Type::MemRef(shape, _) => shape.iter().map(|n| n.unwrap_or(i64::MAX)).collect(),
            _ => Vec::new(),
        };
        let elem = self.elem(op.results[0]);
        Ok(Val::View(Rc::new(View { elem, shape, parts, joined: true })))
    }

    fn access_tile(&mut self, op: &Op) -> Result<Val, Fault> {
        let view = self.view(op.operands[0])?;
        let at = self.ints(&op.operands[1..])?;
        let far = || Fault::Overflow("a coordinate");
        let Some(indices) = op.map("indices") else { return Err(far()) };
        let mut base = indices.eval(&at, &[]).ok_or_else(far)?;
        if let Some(map) = op.map("base_map") {
            base = map.eval(&base, &[]).ok_or_else(far)?;
        }
        let shape = self.ty(op.results[0]).shape().unwrap_or(&[]);
        let set = op.set("access_tile_set").cloned().unwrap_or_else(|| Set::boxed(shape));
        let order = op.map("access_tile_order").cloned();
        Ok(Val::Access(Rc::new(Access::Direct { view, base, set, order })))
    }

    fn indirect_tile(&mut self, op: &Op) -> Result<Val, Fault> {
        let view = self.view(op.operands[0])?;
        let flags = op.ints("indirect").unwrap_or(&[]);
        let sources = flags.iter().filter(|f| **f != 0).count();
        let captured = self.ints(&op.operands[1 + sources..])?;
        let mut next = op.operands[1..].iter();
        let mut subscripts = Vec::new();
        for (map, flag) in op.maps("subscripts").iter().zip(flags) {
            let through = match (*flag != 0).then(|| next.next()).flatten() {
                Some(v) => Some(self.view(*v)?),
                None => None,
            };
            subscripts.push(Subscript { map: map.clone(), captured: captured.clone(), through });
        }
        let Some(set) = op.set("variables_space_set").cloned() else {
            return Err(Fault::Invalid("an indirect tile without its set".into()));
        };
        let order = op.map("variables_space_order").cloned();
        Ok(Val::Access(Rc::new(Access::Indirect { view, subscripts, set, order })))
    }

    fn access(&self, v: Value) -> Result<Rc<Access>, Fault> {
        match self.get(v)? {
            Val::Access(access) => Ok(access),
            _ => Err(Fault::Invalid("an access tile is needed".into())),
        }
    }

    fn load(&mut self, op: &Op, memory: &mut Memory) -> Result<Val, Fault> {
        let access = self.access(op.operands[0])?;
        let elem = access.view().elem;
        let runs = access.runs(memory, &self.meter)?;
        let ty = self.ty(op.results[0]);
        self.fits(runs.runs.len() * runs.len, ty)?;
        let data = memory.read(&runs.runs, runs.len, elem)?;
        self.ledger.transfer(&runs, elem.size(), false, self.id, self.cores);
        self.touched(op);
        self.tile(ty, data)
    }

    fn store(&mut self, op: &Op, memory: &mut Memory) -> Result<(), Fault> {
        let access = self.access(op.operands[1])?;
        let elem = access.view().elem;
        let runs = access.runs(memory, &self.meter)?;
        self.fits(runs.runs.len() * runs.len, self.ty(op.operands[0]))?;
        let data = self.get(op.operands[0])?.data();
        memory.write(&runs.runs, runs.len, elem, &data, self.id)?;
        self.ledger.transfer(&runs, elem.size(), true, self.id, self.cores);
        self.touched(op);
        Ok(())
    }

    fn fits(&self, elements: usize, ty: &Type) -> Result<(), Fault> {
        let n = count(ty.shape().unwrap_or(&[]));
        if n == elements {
            return Ok(());
        }
        Err(Fault::Invalid(format!("the access tile has {elements} elements, {ty} has {n}")))
    }
}

/// The elements of a constant.
pub(super) fn constant(op: &Op, elem: Elem, n: usize) -> Data {
    let list = match op.attr("value") {
        Some(Attr::Literal(l)) => std::slice::from_ref(l),
        Some(Attr::Dense(list)) => list.as_slice(),
        _ => &[],
    };
    let data = if elem.is_float() {
        Data::F(list.iter().map(|l| float_of(*l, elem)).collect())
    } else {
        let int = |l: &crate::ir::Literal| match l {
            crate::ir::Literal::Int(n) => pointwise::wrap(*n, elem),
            _ => 0,
        };
        Data::I(list.iter().map(int).collect())
    };
    if n == 0 { Data::zeros(elem, 0) } else { data.spread(n) }
}
