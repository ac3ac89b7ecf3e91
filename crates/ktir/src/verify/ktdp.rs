//! Rules of memory views, access tiles and exchanges between cores.

use super::{KtirChecker, Result, broken_rule, ensure_rule};
use crate::affine::{KtirAffineMap, KtirAffineSet};
use crate::ir::{DYNAMIC_SIZE, KtirAttr, KtirOp};
use crate::op::KtirOpKind;
use crate::types::{KtirElem, KtirType, RuntimeArgument};

/// The largest set, in points, whose points are counted here. A larger set that is not a box is
/// checked when it runs.
// A tile of 2^20 numbers of 16 bits fills a core's scratchpad of 2 MiB, so real tiles stay below;
// counting more would make verifying slower than running.
const MAX_COUNTED_POINTS: i64 = 1 << 20;

impl<'m> KtirChecker<'m> {
    pub(super) fn check_ktdp(&self, op: &'m KtirOp) -> Result {
        let o = &op.operands;
        match op.kind {
            KtirOpKind::TileId => {
                let n = op.results.len();
                let rank = self.f.grid.len().max(1);
                ensure_rule(op, o.is_empty() && n >= 1, || {
                    "takes nothing and gives indices".into()
                })?;
                self.check_index_types(op, &op.results)?;
                match op.int_attr("dim") {
                    // Older texts ask for one coordinate by `{dim = N}`, newer ones for the first n
                    // coordinates at once.
                    Some(dim) => {
                        let ok = n == 1 && (0..3).contains(&dim);
                        ensure_rule(op, ok, || "dim is one of 0, 1 and 2".into())
                    }
                    // A coordinate beyond the grid's rank is 0, as a grid of fewer dimensions has
                    // size 1 in the others.
                    None => ensure_rule(op, n <= 3.max(rank), || {
                        format!("{n} coordinates in a grid of {rank} dimensions")
                    }),
                }
            }
            KtirOpKind::CoreId => {
                ensure_rule(op, (1..=3).contains(&o.len()) && op.results.len() == 1, || {
                    "takes one to three coordinates and gives an index".into()
                })?;
                self.check_index_types(op, o)?;
                self.check_index_types(op, &op.results)
            }
            KtirOpKind::RuntimeArgExtract => self.check_runtime_arg_extract(op),
            KtirOpKind::MemoryView => self.check_memory_view(op),
            KtirOpKind::DistributedView => {
                ensure_rule(op, !o.is_empty() && op.results.len() == 1, || "joins views".into())?;
                let KtirType::MemRef(shape, elem) = self.value_type(op.results[0]) else {
                    return broken_rule(op, "gives a memref");
                };
                for v in o {
                    // Partitions share the coordinates of the whole, so they need its rank; sizes
                    // may differ, because each holds a part.
                    let ok = matches!(self.value_type(*v), KtirType::MemRef(s, e) if s.len() == shape.len() && e == elem);
                    ensure_rule(op, ok, || {
                        format!("`%{}` is not a partition of the view", self.name_of_value(*v))
                    })?;
                }
                Ok(())
            }
            KtirOpKind::AccessTile => self.check_access_tile(op),
            KtirOpKind::IndirectTile => self.check_indirect(op),
            KtirOpKind::Load => {
                self.check_counts(op, 1, 1)?;
                self.check_transfer(op, op.results[0], o[0])
            }
            KtirOpKind::Store => {
                self.check_counts(op, 2, 0)?;
                self.check_transfer(op, o[0], o[1])
            }
            _ => self.check_produce(op),
        }
    }

    fn check_runtime_arg_extract(&self, op: &KtirOp) -> Result {
        self.check_counts(op, 1, 1)?;
        let KtirType::RuntimeArg(text) = self.value_type(op.operands[0]) else {
            return broken_rule(op, "takes a runtime argument");
        };
        let argument = match RuntimeArgument::read(text) {
            Ok(argument) => argument,
            Err(reason) => return broken_rule(op, reason),
        };
        let field = op.word_attr("field").unwrap_or_default();
        let missing = match field {
            "granularity" => argument.granularity.is_none(),
            "upperbound" => argument.upperbound.is_none(),
            _ => false,
        };
        ensure_rule(op, !missing, || format!("the runtime argument has no {field}"))?;
        let result = self.value_type(op.results[0]);
        // The bounds are counts, whatever the argument is.
        let value = argument.elem.unwrap_or(KtirElem::Index);
        let expected = if field == "value" { value } else { KtirElem::Index };
        ensure_rule(op, *result == KtirType::Scalar(expected), || {
            format!("{field} is {expected}, not {result}")
        })
    }

    fn check_transfer(
        &self,
        op: &KtirOp,
        tensor: crate::ir::KtirValue,
        tile: crate::ir::KtirValue,
    ) -> Result {
        let (shape, elem) = self.tile_type(op, tensor)?;
        let KtirType::AccessTile(coordinates) = self.value_type(tile) else {
            return broken_rule(
                op,
                format!("`%{}` is not an access tile", self.name_of_value(tile)),
            );
        };
        let n: i64 = shape.iter().product();
        // The number of elements decides and not the shape: upstream's kernels load a 1x64 tile
        // into a tensor of 64, which drops a dimension of size 1.
        ensure_rule(op, n == coordinates.iter().product::<i64>(), || {
            format!("a tensor of shape {shape:?} through a tile of shape {coordinates:?}")
        })?;
        // The element type of the view is known where the tile is made in this function.
        let made = self.made.get(&tile);
        // A tile that is an argument or comes out of a loop has no operation to ask; its element
        // type is then compared when the access runs.
        let view =
            made.filter(|o| matches!(o.kind, KtirOpKind::AccessTile | KtirOpKind::IndirectTile));
        if let Some(KtirType::MemRef(_, of)) = view.map(|o| self.value_type(o.operands[0])) {
            ensure_rule(op, *of == elem, || {
                format!("the view has elements {of}, the tensor {elem}")
            })?;
        }
        Ok(())
    }

    fn check_memory_view(&self, op: &KtirOp) -> Result {
        ensure_rule(op, op.results.len() == 1, || "has one result".into())?;
        let KtirType::MemRef(shape, _) = self.value_type(op.results[0]) else {
            return broken_rule(op, "gives a memref");
        };
        let (sizes, strides) =
            (op.ints_attr("sizes").unwrap_or(&[]), op.ints_attr("strides").unwrap_or(&[]));
        ensure_rule(op, sizes.len() == shape.len() && strides.len() == shape.len(), || {
            format!(
                "{} sizes and {} strides for a memref of {} dimensions",
                sizes.len(),
                strides.len(),
                shape.len()
            )
        })?;
        for (i, (size, of)) in sizes.iter().zip(shape).enumerate() {
            // A memref type says `?` where the size is an operand. The type and the list may not
            // contradict each other, as bounds of accesses are checked by the sizes and loops are
            // written by the type.
            let same = of.is_none() || *size == DYNAMIC_SIZE || *of == Some(*size);
            ensure_rule(op, same && (*size >= 0 || *size == DYNAMIC_SIZE), || {
                format!("size {i} is {size}, but the memref has {}", of.unwrap_or(-1))
            })?;
        }
        // Operands follow in the order sizes, strides; the count is all that ties them to their
        // places.
        let dynamic = sizes.iter().chain(strides).filter(|n| **n == DYNAMIC_SIZE).count();
        ensure_rule(op, op.operands.len() == 1 + dynamic, || {
            format!("{dynamic} sizes and strides are values, {} are given", op.operands.len() - 1)
        })?;
        let ptr = self.value_type(op.operands[0]);
        // A pointer is an element index in this dialect; `runtime_arg` is one that the runtime
        // binds later.
        let pointer = matches!(ptr, KtirType::Scalar(KtirElem::Index) | KtirType::RuntimeArg(_));
        ensure_rule(op, pointer, || format!("the pointer is {ptr}, an index is needed"))?;
        self.check_index_types(op, &op.operands[1..])?;
        ensure_rule(
            op,
            matches!(op.attr("memory_space"), Some(KtirAttr::Space(_)) | None),
            || "memory_space is #ktdp.memory_space<..>".into(),
        )?;
        if let Some(set) = op.set_attr("coordinate_set") {
            // The symbols of the set are the sizes that are only known at run time, so there cannot
            // be more of them.
            let symbols = sizes.iter().filter(|n| **n == DYNAMIC_SIZE).count();
            self.check_arity(op, "coordinate_set", set, shape.len(), symbols)?;
        }
        Ok(())
    }

    fn check_arity(
        &self,
        op: &KtirOp,
        key: &str,
        set: &KtirAffineSet,
        dims: usize,
        symbols: usize,
    ) -> Result {
        // Fewer symbols are allowed: a set that does not mention a dynamic size need not declare
        // it.
        ensure_rule(op, set.dims() == dims && set.symbols() <= symbols, || {
            format!(
                "{key} has {} dimensions and {} symbols, needs {dims} and at most {symbols}",
                set.dims(),
                set.symbols()
            )
        })
    }

    fn check_order(&self, op: &KtirOp, key: &str, dims: usize) -> Result {
        let Some(map) = op.map_attr(key) else { return Ok(()) };
        ensure_rule(op, (map.dims(), map.symbols()) == (dims, 0), || {
            format!("{key} has {} dimensions, needs {dims}", map.dims())
        })?;
        // An order that is no permutation would visit some points of the tile twice or never.
        ensure_rule(op, covers_every_dim(map), || {
            format!("{key} is a permutation of the dimensions")
        })
    }

    fn check_access_tile(&self, op: &KtirOp) -> Result {
        ensure_rule(op, !op.operands.is_empty() && op.results.len() == 1, || {
            "needs a view".into()
        })?;
        let KtirType::MemRef(shape, _) = self.value_type(op.operands[0]) else {
            return broken_rule(
                op,
                format!("`%{}` is not a view", self.name_of_value(op.operands[0])),
            );
        };
        let KtirType::AccessTile(tile) = self.value_type(op.results[0]) else {
            return broken_rule(op, "gives an access tile");
        };
        self.check_index_types(op, &op.operands[1..])?;
        let Some(indices) = op.map_attr("indices") else {
            return broken_rule(op, "has no indices");
        };
        ensure_rule(op, indices.dims() == op.operands.len() - 1, || {
            "the numbers of indices and of values differ".into()
        })?;
        // `base_map` is applied to the written indices; without one they are the coordinates
        // themselves.
        let given = indices.results().len();
        match op.map_attr("base_map") {
            Some(base) => {
                ensure_rule(op, (base.dims(), base.symbols()) == (given, 0), || {
                    format!("base_map takes {} indices, {given} are given", base.dims())
                })?;
                ensure_rule(op, base.results().len() == shape.len(), || {
                    format!(
                        "base_map gives {} of {} coordinates",
                        base.results().len(),
                        shape.len()
                    )
                })?;
            }
            None => ensure_rule(op, given == shape.len(), || {
                format!("{given} indices into a view of {} dimensions", shape.len())
            })?,
        }
        if let Some(set) = op.set_attr("access_tile_set") {
            self.check_arity(op, "access_tile_set", set, shape.len(), 0)?;
            self.check_set_fills_tile(op, set, tile)?;
        } else {
            ensure_rule(op, tile.len() == shape.len(), || {
                format!("a tile of {} dimensions in a view of {}", tile.len(), shape.len())
            })?;
        }
        self.check_order(op, "access_tile_order", shape.len())
    }

    /// Checks that a set has as many points as the tile.
    fn check_set_fills_tile(&self, op: &KtirOp, set: &KtirAffineSet, tile: &[i64]) -> Result {
        // The box is charged before it is computed, because one alias can be used by thousands of
        // operations.
        let nodes = set.count_nodes() as u64 + 1;
        self.spend_steps(op, nodes * (set.dims() as u64 + 1))?;
        // A set without bounds has infinitely many points, and no tile could hold them.
        let Some(bounds) = set.bounding_box(&[]) else {
            return broken_rule(op, "the set of the tile has no bounds");
        };
        let n: i64 = tile.iter().product();
        if bounds.exact {
            let points = bounds.point_count();
            return ensure_rule(op, points == Some(n), || {
                format!("the set has {:?} points, but the tile is {tile:?}", bounds.extents)
            });
        }
        // Every point of the box is tested against every condition, so the budget pays for both.
        let points = bounds.point_count().filter(|n| *n <= MAX_COUNTED_POINTS);
        self.spend_steps(op, points.and_then(|n| u64::try_from(n).ok()).unwrap_or(0) * nodes)?;
        let points = set
            .list_points(&[], MAX_COUNTED_POINTS)
            .map(|p| i64::try_from(p.len()).unwrap_or(i64::MAX));
        // A set that was too large to count is accepted here and checked when the access runs.
        ensure_rule(op, points.is_none_or(|p| p == n), || {
            format!("the set has {} points, but the tile is {tile:?}", points.unwrap_or(0))
        })
    }

    fn check_indirect(&self, op: &KtirOp) -> Result {
        ensure_rule(op, !op.operands.is_empty() && op.results.len() == 1, || {
            "needs a view".into()
        })?;
        let KtirType::MemRef(shape, _) = self.value_type(op.operands[0]) else {
            return broken_rule(
                op,
                format!("`%{}` is not a view", self.name_of_value(op.operands[0])),
            );
        };
        let KtirType::AccessTile(tile) = self.value_type(op.results[0]) else {
            return broken_rule(op, "gives an access tile");
        };
        let (flags, maps) = (op.ints_attr("indirect").unwrap_or(&[]), op.maps_attr("subscripts"));
        ensure_rule(op, flags.len() == shape.len() && maps.len() == shape.len(), || {
            format!("{} subscripts of a view of {} dimensions", maps.len(), shape.len())
        })?;
        let sources = flags.iter().filter(|f| **f != 0).count();
        let variables = op.words_attr("variables").len();
        // Checked before the operands are split, because the slice below would be out of range
        // otherwise.
        ensure_rule(op, op.operands.len() > sources, || "needs its index views".into())?;
        let captured = &op.operands[1 + sources..];
        self.check_index_types(op, captured)?;
        let mut next = op.operands[1..].iter();
        for (flag, map) in flags.iter().zip(maps) {
            // The dimensions of a subscript are the variables first and the captured values after
            // them; the interpreter concatenates the two lists in this order.
            ensure_rule(op, map.dims() == variables + captured.len(), || {
                "a subscript of other variables".into()
            })?;
            if *flag == 0 {
                ensure_rule(op, map.results().len() == 1, || {
                    "a subscript is one expression".into()
                })?;
                continue;
            }
            let Some(source) = next.next() else { return broken_rule(op, "needs its index views") };
            let fits = matches!(self.value_type(*source), KtirType::MemRef(s, e)
                // An index is read as an integer. A float view would be read as bits and address
                // anything.
                if s.len() == map.results().len() && !e.is_float());
            ensure_rule(op, fits, || {
                format!(
                    "`%{}` is {}, an index view of {} dimensions is needed",
                    self.name_of_value(*source),
                    self.value_type(*source),
                    map.results().len()
                )
            })?;
        }
        let Some(set) = op.set_attr("variables_space_set") else {
            return broken_rule(op, "has no variables_space_set");
        };
        self.check_arity(op, "variables_space_set", set, variables, 0)?;
        self.check_set_fills_tile(op, set, tile)?;
        self.check_order(op, "variables_space_order", variables)
    }

    fn check_produce(&self, op: &'m KtirOp) -> Result {
        self.check_counts(op, 0, 1)?;
        self.check_region_count(op, 1)?;
        let KtirType::TileFuture(types, groups) = self.value_type(op.results[0]) else {
            return broken_rule(op, "gives a future");
        };
        let Some(groups) = groups else {
            return broken_rule(op, "needs groups: !ktdp.tile_future<T, groups = S>");
        };
        ensure_rule(op, (groups.dims(), groups.symbols()) == (1, 0), || {
            "groups is a set of one dimension, such as (g) : (g == 0)".into()
        })?;
        self.spend_steps(op, (groups.count_nodes() as u64 + 1) * 2)?;
        // A core finds its group by testing all of them, so there has to be a last one.
        ensure_rule(op, groups.bounding_box(&[]).is_some(), || {
            "the set of groups has no bounds".into()
        })?;
        self.check_core_set(op, "producer_tiles_per_group", 1)?;
        let tiles = types.iter().all(|t| matches!(t, KtirType::Tensor(..)));
        ensure_rule(op, tiles && !types.is_empty(), || "partials are tensors".into())?;
        let region = &op.regions[0];
        let index = KtirType::INDEX;
        ensure_rule(op, self.value_types(&region.args) == [&index], || {
            "its region takes the group, an index".into()
        })?;
        self.check_plain_region(op, region)?;
        self.check_yielded(op, region, &types.iter().collect::<Vec<_>>())
    }

    /// Checks a set of cores for a group.
    fn check_core_set(&self, op: &KtirOp, key: &str, symbols: usize) -> Result {
        let Some(set) = op.set_attr(key) else { return broken_rule(op, format!("needs {key}")) };
        self.check_arity(op, key, set, 1, symbols)
    }

    /// Checks that no operation of a region waits for another core.
    fn check_plain_region(&self, op: &KtirOp, region: &'m crate::ir::KtirBlock) -> Result {
        // A core inside such a region cannot stop for another one: the interpreter would have to
        // keep half of an exchange open inside another exchange. Calls are refused because the
        // callee could contain one.
        let mut waits = None;
        region.visit_ops(&mut |inner| {
            let bad = inner.kind.is_delivery()
                || matches!(inner.kind, KtirOpKind::Produce | KtirOpKind::Call);
            if bad {
                waits.get_or_insert(inner);
            }
        });
        match waits {
            None => Ok(()),
            Some(inner) => {
                broken_rule(inner, format!("is not allowed in a region of `{}`", op.kind.name()))
            }
        }
    }

    pub(super) fn check_delivery(&self, op: &'m KtirOp) -> Result {
        let Some(future) = op.operands.first() else { return broken_rule(op, "needs a future") };
        let KtirType::TileFuture(types, _) = self.value_type(*future) else {
            return broken_rule(op, format!("`%{}` is not a future", self.name_of_value(*future)));
        };
        ensure_rule(op, op.results.len() == types.len(), || {
            format!("{} results for {} partials", op.results.len(), types.len())
        })?;
        self.check_core_set(op, "consumer_tiles_per_group", 1)?;
        if op.attr("producer_dependency_per_consumer").is_some() {
            // A scatter has one producer per group by definition, so naming the producers of a
            // consumer is meaningless.
            ensure_rule(op, op.kind != KtirOpKind::Scatter, || {
                "has one producer, so no producer_dependency_per_consumer".into()
            })?;
            self.check_core_set(op, "producer_dependency_per_consumer", 2)?;
        }
        let keys: &[&str] = match op.kind {
            KtirOpKind::ReduceScatter | KtirOpKind::Scatter => &["scatter_dimensions"],
            KtirOpKind::Gather => &["gather_dimensions"],
            KtirOpKind::AllToAll => &["split_dimensions", "concat_dimensions"],
            _ => &[],
        };
        let elements = |t: &KtirType| t.shape().map_or(0, |s| s.iter().product::<i64>());
        for (i, (partial, result)) in types.iter().zip(&op.results).enumerate() {
            let (shape, elem) = self.tile_type(op, *result)?;
            ensure_rule(op, partial.elem() == Some(elem), || {
                format!("{partial} arrives as {elem}")
            })?;
            let rank = partial.shape().map_or(0, <[i64]>::len);
            for key in keys {
                let dims = self.find_distinct_dims(op, key, rank)?;
                ensure_rule(op, dims.len() == 1, || format!("{key} names one dimension"))?;
            }
            // Without a dimension to cut or join along the elements arrive as they were sent. With
            // one the size depends on how many cores take part, which only a run knows.
            if keys.is_empty() {
                ensure_rule(op, elements(partial) == elements(self.value_type(*result)), || {
                    format!("partial {i} is {partial}, the result {shape:?}")
                })?;
            }
        }
        let identities = self.value_types(&op.operands[1..]);
        let want: Vec<&KtirType> = types.iter().collect();
        // Only the two reductions combine values. The identity is what a core gets whose group has
        // no producer.
        if !matches!(op.kind, KtirOpKind::InterReduce | KtirOpKind::ReduceScatter) {
            self.check_region_count(op, 0)?;
            return ensure_rule(op, identities.is_empty(), || {
                "combines nothing, so no identity".into()
            });
        }
        self.check_region_count(op, 1)?;
        ensure_rule(op, identities == want, || "needs an identity for each partial".into())?;
        let region = &op.regions[0];
        ensure_rule(
            op,
            self.value_types(&region.args) == [want.clone(), want.clone()].concat(),
            || "its region takes two partials of each role".into(),
        )?;
        self.check_plain_region(op, region)?;
        self.check_yielded(op, region, &want)
    }
}

/// Whether the results of a map are its dimensions, each exactly once.
fn covers_every_dim(map: &KtirAffineMap) -> bool {
    map.selected_dims()
        .is_some_and(|dims| dims.len() == map.dims() && (0..map.dims()).all(|d| dims.contains(&d)))
}
