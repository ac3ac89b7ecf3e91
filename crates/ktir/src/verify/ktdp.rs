//! Views, access tiles and what cores tell each other.

use super::{Checker, Result, broken, ensure};
use crate::affine::{Map, Set};
use crate::ir::{Attr, DYNAMIC, Op};
use crate::op::Kind;
use crate::types::{Elem, Type};

/// Points of a set that are counted; of one that is no box and has more, a run finds out.
const POINTS: i64 = 1 << 20;

impl<'m> Checker<'m> {
    pub(super) fn ktdp(&self, op: &'m Op) -> Result {
        let o = &op.operands;
        match op.kind {
            Kind::TileId => {
                let n = op.results.len();
                let rank = self.f.grid.len().max(1);
                ensure(op, o.is_empty() && n >= 1, || "takes nothing and gives indices".into())?;
                self.indices(op, &op.results)?;
                match op.int("dim") {
                    Some(dim) => {
                        let ok = n == 1 && (0..3).contains(&dim);
                        ensure(op, ok, || "dim is one of 0, 1 and 2".into())
                    }
                    None => ensure(op, n <= 3.max(rank), || {
                        format!("{n} coordinates in a grid of {rank} dimensions")
                    }),
                }
            }
            Kind::MemoryView => self.memory_view(op),
            Kind::DistributedView => {
                ensure(op, !o.is_empty() && op.results.len() == 1, || "joins views".into())?;
                let Type::MemRef(shape, elem) = self.ty(op.results[0]) else {
                    return broken(op, "gives a memref");
                };
                for v in o {
                    let ok = matches!(self.ty(*v), Type::MemRef(s, e) if s.len() == shape.len() && e == elem);
                    ensure(op, ok, || format!("`%{}` is no part of the view", self.name(*v)))?;
                }
                Ok(())
            }
            Kind::AccessTile => self.access_tile(op),
            Kind::IndirectTile => self.indirect(op),
            Kind::Load => {
                self.counts(op, 1, 1)?;
                self.transfer(op, op.results[0], o[0])
            }
            Kind::Store => {
                self.counts(op, 2, 0)?;
                self.transfer(op, o[0], o[1])
            }
            _ => self.produce(op),
        }
    }

    fn transfer(&self, op: &Op, tensor: crate::ir::Value, tile: crate::ir::Value) -> Result {
        let (shape, elem) = self.tensor(op, tensor)?;
        let Type::AccessTile(coordinates) = self.ty(tile) else {
            return broken(op, format!("`%{}` is no access tile", self.name(tile)));
        };
        let n: i64 = shape.iter().product();
        ensure(op, n == coordinates.iter().product::<i64>(), || {
            format!("a tensor of shape {shape:?} through a tile of shape {coordinates:?}")
        })?;
        // The elements of the view, where the tile is made in this function.
        let made = self.made.get(&tile);
        let view = made.filter(|o| matches!(o.kind, Kind::AccessTile | Kind::IndirectTile));
        if let Some(Type::MemRef(_, of)) = view.map(|o| self.ty(o.operands[0])) {
            ensure(op, *of == elem, || format!("the view has elements {of}, the tensor {elem}"))?;
        }
        Ok(())
    }

    fn memory_view(&self, op: &Op) -> Result {
        ensure(op, op.results.len() == 1, || "has one result".into())?;
        let Type::MemRef(shape, _) = self.ty(op.results[0]) else {
            return broken(op, "gives a memref");
        };
        let (sizes, strides) = (op.ints("sizes").unwrap_or(&[]), op.ints("strides").unwrap_or(&[]));
        ensure(op, sizes.len() == shape.len() && strides.len() == shape.len(), || {
            format!(
                "{} sizes and {} strides for a memref of {} dimensions",
                sizes.len(),
                strides.len(),
                shape.len()
            )
        })?;
        for (i, (size, of)) in sizes.iter().zip(shape).enumerate() {
            let same = of.is_none() || *size == DYNAMIC || *of == Some(*size);
            ensure(op, same && (*size >= 0 || *size == DYNAMIC), || {
                format!("size {i} is {size}, but the memref says {}", of.unwrap_or(-1))
            })?;
        }
        let dynamic = sizes.iter().chain(strides).filter(|n| **n == DYNAMIC).count();
        ensure(op, op.operands.len() == 1 + dynamic, || {
            format!("{dynamic} sizes and strides are values, {} are given", op.operands.len() - 1)
        })?;
        let ptr = self.ty(op.operands[0]);
        let pointer = matches!(ptr, Type::Scalar(Elem::Index) | Type::RuntimeArg(_));
        ensure(op, pointer, || format!("the pointer is {ptr}, an index is needed"))?;
        self.indices(op, &op.operands[1..])?;
        ensure(op, matches!(op.attr("memory_space"), Some(Attr::Space(_)) | None), || {
            "memory_space is #ktdp.memory_space<..>".into()
        })?;
        if let Some(set) = op.set("coordinate_set") {
            let symbols = sizes.iter().filter(|n| **n == DYNAMIC).count();
            self.arity(op, "coordinate_set", set, shape.len(), symbols)?;
        }
        Ok(())
    }

    fn arity(&self, op: &Op, key: &str, set: &Set, dims: usize, symbols: usize) -> Result {
        ensure(op, set.dims() == dims && set.symbols() <= symbols, || {
            format!(
                "{key} has {} dimensions and {} symbols, needs {dims} and at most {symbols}",
                set.dims(),
                set.symbols()
            )
        })
    }

    fn order(&self, op: &Op, key: &str, dims: usize) -> Result {
        let Some(map) = op.map(key) else { return Ok(()) };
        ensure(op, (map.dims(), map.symbols()) == (dims, 0), || {
            format!("{key} has {} dimensions, needs {dims}", map.dims())
        })?;
        ensure(op, covers(map), || format!("{key} is a permutation of the dimensions"))
    }

    fn access_tile(&self, op: &Op) -> Result {
        ensure(op, !op.operands.is_empty() && op.results.len() == 1, || "needs a view".into())?;
        let Type::MemRef(shape, _) = self.ty(op.operands[0]) else {
            return broken(op, format!("`%{}` is no view", self.name(op.operands[0])));
        };
        let Type::AccessTile(tile) = self.ty(op.results[0]) else {
            return broken(op, "gives an access tile");
        };
        self.indices(op, &op.operands[1..])?;
        let Some(indices) = op.map("indices") else { return broken(op, "has no indices") };
        ensure(op, indices.dims() == op.operands.len() - 1, || "other indices than values".into())?;
        let given = indices.results().len();
        match op.map("base_map") {
            Some(base) => {
                ensure(op, (base.dims(), base.symbols()) == (given, 0), || {
                    format!("base_map takes {} indices, {given} are given", base.dims())
                })?;
                ensure(op, base.results().len() == shape.len(), || {
                    format!(
                        "base_map gives {} of {} coordinates",
                        base.results().len(),
                        shape.len()
                    )
                })?;
            }
            None => ensure(op, given == shape.len(), || {
                format!("{given} indices into a view of {} dimensions", shape.len())
            })?,
        }
        if let Some(set) = op.set("access_tile_set") {
            self.arity(op, "access_tile_set", set, shape.len(), 0)?;
            self.fills(op, set, tile)?;
        } else {
            ensure(op, tile.len() == shape.len(), || {
                format!("a tile of {} dimensions in a view of {}", tile.len(), shape.len())
            })?;
        }
        self.order(op, "access_tile_order", shape.len())
    }

    /// A set that is a box has as many points as the tile.
    fn fills(&self, op: &Op, set: &Set, tile: &[i64]) -> Result {
        let nodes = set.nodes() as u64 + 1;
        self.spend(op, nodes * (set.dims() as u64 + 1))?;
        let Some(bounds) = set.bounds(&[]) else {
            return broken(op, "the set of the tile has no bounds");
        };
        let n: i64 = tile.iter().product();
        if bounds.exact {
            let points = bounds.points();
            return ensure(op, points == Some(n), || {
                format!("the set has {:?} points, but the tile is {tile:?}", bounds.extents)
            });
        }
        let points = bounds.points().filter(|n| *n <= POINTS);
        self.spend(op, points.and_then(|n| u64::try_from(n).ok()).unwrap_or(0) * nodes)?;
        let points = set.points(&[], POINTS).map(|p| i64::try_from(p.len()).unwrap_or(i64::MAX));
        ensure(op, points.is_none_or(|p| p == n), || {
            format!("the set has {} points, but the tile is {tile:?}", points.unwrap_or(0))
        })
    }

    fn indirect(&self, op: &Op) -> Result {
        ensure(op, !op.operands.is_empty() && op.results.len() == 1, || "needs a view".into())?;
        let Type::MemRef(shape, _) = self.ty(op.operands[0]) else {
            return broken(op, format!("`%{}` is no view", self.name(op.operands[0])));
        };
        let Type::AccessTile(tile) = self.ty(op.results[0]) else {
            return broken(op, "gives an access tile");
        };
        let (flags, maps) = (op.ints("indirect").unwrap_or(&[]), op.maps("subscripts"));
        ensure(op, flags.len() == shape.len() && maps.len() == shape.len(), || {
            format!("{} subscripts of a view of {} dimensions", maps.len(), shape.len())
        })?;
        let sources = flags.iter().filter(|f| **f != 0).count();
        let variables = op.words("variables").len();
        ensure(op, op.operands.len() > sources, || "needs its index views".into())?;
        let captured = &op.operands[1 + sources..];
        self.indices(op, captured)?;
        let mut next = op.operands[1..].iter();
        for (flag, map) in flags.iter().zip(maps) {
            ensure(op, map.dims() == variables + captured.len(), || {
                "a subscript of other variables".into()
            })?;
            if *flag == 0 {
                ensure(op, map.results().len() == 1, || "a subscript is one expression".into())?;
                continue;
            }
            let Some(source) = next.next() else { return broken(op, "needs its index views") };
            let fits = matches!(self.ty(*source), Type::MemRef(s, e)
                if s.len() == map.results().len() && !e.is_float());
            ensure(op, fits, || {
                format!(
                    "`%{}` is {}, an index view of {} dimensions is needed",
                    self.name(*source),
                    self.ty(*source),
                    map.results().len()
                )
            })?;
        }
        let Some(set) = op.set("variables_space_set") else {
            return broken(op, "has no variables_space_set");
        };
        self.arity(op, "variables_space_set", set, variables, 0)?;
        self.fills(op, set, tile)?;
        self.order(op, "variables_space_order", variables)
    }

    fn produce(&self, op: &'m Op) -> Result {
        self.counts(op, 0, 1)?;
        self.regions(op, 1)?;
        let Type::TileFuture(types, groups) = self.ty(op.results[0]) else {
            return broken(op, "gives a future");
        };
        let Some(groups) = groups else {
            return broken(op, "needs groups: !ktdp.tile_future<T, groups = S>");
        };
        ensure(op, (groups.dims(), groups.symbols()) == (1, 0), || {
            "groups is a set of one dimension, such as (g) : (g == 0)".into()
        })?;
        self.spend(op, (groups.nodes() as u64 + 1) * 2)?;
        ensure(op, groups.bounds(&[]).is_some(), || "there is no end of groups".into())?;
        self.cores(op, "producer_tiles_per_group", 1)?;
        let tiles = types.iter().all(|t| matches!(t, Type::Tensor(..)));
        ensure(op, tiles && !types.is_empty(), || "partials are tensors".into())?;
        let region = &op.regions[0];
        let index = Type::INDEX;
        ensure(op, self.types(&region.args) == [&index], || {
            "its region takes the group, an index".into()
        })?;
        self.plain(op, region)?;
        self.yielded(op, region, &types.iter().collect::<Vec<_>>())
    }

    /// A set of cores for a group.
    fn cores(&self, op: &Op, key: &str, symbols: usize) -> Result {
        let Some(set) = op.set(key) else { return broken(op, format!("needs {key}")) };
        self.arity(op, key, set, 1, symbols)
    }

    /// A region that no core waits in.
    fn plain(&self, op: &Op, region: &'m crate::ir::Block) -> Result {
        let mut waits = None;
        region.visit(&mut |inner| {
            let bad = inner.kind.is_delivery() || matches!(inner.kind, Kind::Produce | Kind::Call);
            if bad {
                waits.get_or_insert(inner);
            }
        });
        match waits {
            None => Ok(()),
            Some(inner) => {
                broken(inner, format!("has no place in a region of `{}`", op.kind.name()))
            }
        }
    }

    pub(super) fn delivery(&self, op: &'m Op) -> Result {
        let Some(future) = op.operands.first() else { return broken(op, "needs a future") };
        let Type::TileFuture(types, _) = self.ty(*future) else {
            return broken(op, format!("`%{}` is no future", self.name(*future)));
        };
        ensure(op, op.results.len() == types.len(), || {
            format!("{} results for {} partials", op.results.len(), types.len())
        })?;
        self.cores(op, "consumer_tiles_per_group", 1)?;
        if op.attr("producer_dependency_per_consumer").is_some() {
            ensure(op, op.kind != Kind::Scatter, || {
                "has one producer, so no producer_dependency_per_consumer".into()
            })?;
            self.cores(op, "producer_dependency_per_consumer", 2)?;
        }
        let keys: &[&str] = match op.kind {
            Kind::ReduceScatter | Kind::Scatter => &["scatter_dimensions"],
            Kind::Gather => &["gather_dimensions"],
            Kind::AllToAll => &["split_dimensions", "concat_dimensions"],
            _ => &[],
        };
        let elements = |t: &Type| t.shape().map_or(0, |s| s.iter().product::<i64>());
        for (i, (partial, result)) in types.iter().zip(&op.results).enumerate() {
            let (shape, elem) = self.tensor(op, *result)?;
            ensure(op, partial.elem() == Some(elem), || format!("{partial} arrives as {elem}"))?;
            let rank = partial.shape().map_or(0, <[i64]>::len);
            for key in keys {
                let dims = self.distinct(op, key, rank)?;
                ensure(op, dims.len() == 1, || format!("{key} names one dimension"))?;
            }
            if keys.is_empty() {
                ensure(op, elements(partial) == elements(self.ty(*result)), || {
                    format!("partial {i} is {partial}, the result {shape:?}")
                })?;
            }
        }
        let identities = self.types(&op.operands[1..]);
        let want: Vec<&Type> = types.iter().collect();
        if !matches!(op.kind, Kind::InterReduce | Kind::ReduceScatter) {
            self.regions(op, 0)?;
            return ensure(op, identities.is_empty(), || "combines nothing, so no identity".into());
        }
        self.regions(op, 1)?;
        ensure(op, identities == want, || "needs an identity for each partial".into())?;
        let region = &op.regions[0];
        ensure(op, self.types(&region.args) == [want.clone(), want.clone()].concat(), || {
            "its region takes two partials of each role".into()
        })?;
        self.plain(op, region)?;
        self.yielded(op, region, &want)
    }
}

/// Whether every dimension is one result, and nothing else is.
fn covers(map: &Map) -> bool {
    map.selected()
        .is_some_and(|dims| dims.len() == map.dims() && (0..map.dims()).all(|d| dims.contains(&d)))
}
