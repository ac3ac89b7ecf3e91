//! Places for the boxes and lines of a directed graph, in layers from the top.
//!
//! The steps of Sugiyama, Tagawa and Toda: boxes go below all that they depend on; lines over several
//! layers get a point in each; orders within layers follow the medians of neighbours while that removes
//! crossings; and places are the least squares of straight lines, kept in order. **Law**: no two boxes
//! overlap, and every line goes down.

/// A box to be placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct BoxSize {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Where everything is.
#[derive(Debug, Clone, Default)]
pub(super) struct PlacedBoxes {
    /// Left and top of every box.
    pub(super) boxes: Vec<(f64, f64)>,
    /// Of every edge, the points between the boxes that its line passes, from the top.
    pub(super) bends: Vec<Vec<(f64, f64)>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Room between neighbours of a layer, and between layers.
const BESIDE: f64 = 26.0;
const BELOW: f64 = 54.0;
/// Passes over all layers, down and up.
const SWEEPS: usize = 12;

/// Places boxes whose edges go from lower to higher numbers; others are left out.
pub(super) fn place_boxes(sizes: &[BoxSize], edges: &[(usize, usize)]) -> PlacedBoxes {
    if sizes.is_empty() {
        return PlacedBoxes::default();
    }
    let mut net = LayeredGraph::new(sizes, edges);
    net.order_layers();
    net.straighten_lines();
    net.collect_placed(sizes, edges.len())
}

/// Boxes and the points of long lines alike.
struct LayeredGraph {
    width: Vec<f64>,
    layer: Vec<usize>,
    up: Vec<Vec<usize>>,
    down: Vec<Vec<usize>>,
    /// The points of every edge.
    points: Vec<Vec<usize>>,
    /// From left to right.
    layers: Vec<Vec<usize>>,
    x: Vec<f64>,
    real: usize,
}

impl LayeredGraph {
    fn new(sizes: &[BoxSize], edges: &[(usize, usize)]) -> LayeredGraph {
        let n = sizes.len();
        let edges_ok: Vec<Option<(usize, usize)>> =
            // An edge that goes up would be a cycle for the layering; the page draws one copy of a repeated block,
            // whose later copies may have such edges.
            edges.iter().map(|e| (e.0 < e.1 && e.1 < n).then_some(*e)).collect();
        let mut sorted: Vec<(usize, usize)> = edges_ok.iter().flatten().copied().collect();
        sorted.sort_unstable();
        let mut layer = vec![0usize; n];
        let mut has_parent = vec![false; n];
        for (a, b) in &sorted {
            layer[*b] = layer[*b].max(layer[*a] + 1);
            has_parent[*b] = true;
        }
        // What depends on nothing stands just above its first reader.
        for a in (0..n).filter(|a| !has_parent[*a]) {
            let first = sorted.iter().filter(|e| e.0 == a).map(|e| layer[e.1]).min();
            layer[a] = first.unwrap_or(1).saturating_sub(1);
        }
        let mut net = LayeredGraph {
            width: sizes.iter().map(|s| s.width).collect(),
            layer,
            up: vec![Vec::new(); n],
            down: vec![Vec::new(); n],
            points: Vec::with_capacity(edges.len()),
            layers: Vec::new(),
            x: Vec::new(),
            real: n,
        };
        for edge in edges_ok {
            net.add_long_line(edge);
        }
        let depth = net.layer.iter().max().map_or(0, |d| d + 1);
        net.layers = vec![Vec::new(); depth];
        for v in 0..net.layer.len() {
            net.layers[net.layer[v]].push(v);
        }
        net
    }

    /// A point in every layer between two boxes, joined.
    fn add_long_line(&mut self, edge: Option<(usize, usize)>) {
        let Some((a, b)) = edge else {
            self.points.push(Vec::new());
            return;
        };
        let (mut last, mut points) = (a, Vec::new());
        for layer in self.layer[a] + 1..self.layer[b] {
            let v = self.layer.len();
            self.layer.push(layer);
            // Narrow, so that lines may pass close to boxes, and not zero, because two lines at one place could not
            // be followed.
            self.width.push(2.0);
            self.up.push(vec![last]);
            self.down.push(Vec::new());
            self.down[last].push(v);
            points.push(v);
            last = v;
        }
        self.down[last].push(b);
        self.up[b].push(last);
        self.points.push(points);
    }

    fn order_positions(&self) -> Vec<usize> {
        let mut at = vec![0; self.layer.len()];
        for layer in &self.layers {
            for (i, v) in layer.iter().enumerate() {
                at[*v] = i;
            }
        }
        at
    }

    fn count_crossings(&self, at: &[usize]) -> usize {
        let mut sum = 0;
        for layer in &self.layers {
            let mut ends: Vec<usize> = Vec::new();
            for v in layer {
                let mut mine: Vec<usize> = self.down[*v].iter().map(|d| at[*d]).collect();
                mine.sort_unstable();
                for m in &mine {
                    sum += ends.iter().filter(|e| *e > m).count();
                }
                ends.extend(mine);
            }
        }
        sum
    }

    /// Orders layers by the medians of their neighbours, and keeps the order with fewest crossings.
    fn order_layers(&mut self) {
        let mut best = (usize::MAX, self.layers.clone());
        for sweep in 0..SWEEPS {
            let at = self.order_positions();
            let crossings = self.count_crossings(&at);
            // Medians do not always improve, so the best order is kept and not the last.
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
            if crossings == 0 {
                break;
            }
            let depth = self.layers.len();
            let order: Vec<usize> =
                if sweep % 2 == 0 { (1..depth).collect() } else { (0..depth - 1).rev().collect() };
            for l in order {
                let at = self.order_positions();
                // Downwards by the layer above, upwards by the layer below: each sweep improves what the one before
                // has fixed.
                let near = if sweep % 2 == 0 { &self.up } else { &self.down };
                let mut keyed: Vec<(f64, usize, usize)> = Vec::new();
                for (i, v) in self.layers[l].iter().enumerate() {
                    keyed.push((median_position(&near[*v], &at).unwrap_or(i as f64), i, *v));
                }
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                self.layers[l] = keyed.into_iter().map(|k| k.2).collect();
            }
        }
        self.layers = best.1;
    }

    /// Centres of all boxes: as near to those of their neighbours as the order allows.
    fn straighten_lines(&mut self) {
        self.x = vec![0.0; self.layer.len()];
        for l in 0..self.layers.len() {
            let layer = self.layers[l].clone();
            let mut x = 0.0;
            for v in layer {
                self.x[v] = x + self.width[v] / 2.0;
                x += self.width[v] + BESIDE;
            }
        }
        for sweep in 0..2 * SWEEPS {
            let depth = self.layers.len();
            let order: Vec<usize> =
                if sweep % 2 == 0 { (0..depth).collect() } else { (0..depth).rev().collect() };
            for l in order {
                let layer = self.layers[l].clone();
                let wish = |v: usize| {
                    let (up, down) = (&self.up[v], &self.down[v]);
                    let near: Vec<usize> = match sweep % 3 {
                        // Three wishes in turn: to be below the readers, above the writers, and between both. One
                        // alone lets long chains drift to a side.
                        0 if !up.is_empty() => up.clone(),
                        1 if !down.is_empty() => down.clone(),
                        _ => up.iter().chain(down).copied().collect(),
                    };
                    if near.is_empty() {
                        return self.x[v];
                    }
                    near.iter().map(|n| self.x[*n]).sum::<f64>() / near.len() as f64
                };
                let wishes: Vec<f64> = layer.iter().map(|v| wish(*v)).collect();
                let widths: Vec<f64> = layer.iter().map(|v| self.width[*v]).collect();
                // Lines are pulled straight before boxes are.
                let weights: Vec<f64> =
                    layer.iter().map(|v| if *v < self.real { 1.0 } else { 4.0 }).collect();
                for (v, x) in layer.iter().zip(separate_in_order(&wishes, &widths, &weights)) {
                    self.x[*v] = x;
                }
            }
        }
        let left =
            (0..self.x.len()).map(|v| self.x[v] - self.width[v] / 2.0).fold(f64::MAX, f64::min);
        for x in &mut self.x {
            *x -= left;
        }
    }

    fn collect_placed(&self, sizes: &[BoxSize], edges: usize) -> PlacedBoxes {
        let mut tops = Vec::with_capacity(self.layers.len());
        let mut heights = Vec::with_capacity(self.layers.len());
        let mut y = 0.0;
        for layer in &self.layers {
            let real = layer.iter().filter(|v| **v < self.real);
            let height = real.map(|v| sizes[*v].height).fold(0.0, f64::max);
            tops.push(y);
            heights.push(height);
            y += height + BELOW;
        }
        let at = |v: usize| (tops[self.layer[v]], heights[self.layer[v]]);
        let boxes = (0..self.real).map(|v| {
            let (top, height) = at(v);
            // Boxes of different heights have one middle.
            (self.x[v] - sizes[v].width / 2.0, top + (height - sizes[v].height) / 2.0)
        });
        let bends = (0..edges).map(|e| {
            let points = self.points[e].iter();
            points
                .flat_map(|v| {
                    let (t, h) = at(*v);
                    [(self.x[*v], t), (self.x[*v], t + h)]
                })
                .collect()
        });
        let right = (0..self.x.len()).map(|v| self.x[v] + self.width[v] / 2.0).fold(0.0, f64::max);
        PlacedBoxes {
            boxes: boxes.collect(),
            bends: bends.collect(),
            width: right,
            height: y - BELOW,
        }
    }
}

fn median_position(near: &[usize], at: &[usize]) -> Option<f64> {
    let mut places: Vec<usize> = near.iter().map(|n| at[*n]).collect();
    places.sort_unstable();
    let middle = places.len().checked_sub(1)? / 2;
    let other = places.len() / 2;
    Some((places[middle] + places[other]) as f64 / 2.0)
}

/// The centres nearest to the wishes (in weighted least squares) at which nothing overlaps and the
/// order stays: neighbours that collide become one group at the mean of their wishes.
fn separate_in_order(wishes: &[f64], widths: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut offset = Vec::with_capacity(wishes.len());
    let mut from_first = 0.0;
    for i in 0..wishes.len() {
        if i > 0 {
            from_first += (widths[i - 1] + widths[i]) / 2.0 + BESIDE;
        }
        offset.push(from_first);
    }
    // Groups of neighbours: the sum of weighted wishes, the weight, and how many.
    let mut groups: Vec<(f64, f64, usize)> = Vec::new();
    for i in 0..wishes.len() {
        let mut group = ((wishes[i] - offset[i]) * weights[i], weights[i], 1);
        while let Some(last) = groups.last() {
            if last.0 / last.1 <= group.0 / group.1 {
                break;
            }
            group = (group.0 + last.0, group.1 + last.1, group.2 + last.2);
            groups.pop();
        }
        groups.push(group);
    }
    let mut places = Vec::with_capacity(wishes.len());
    for (sum, weight, count) in groups {
        for _ in 0..count {
            places.push(sum / weight + offset[places.len()]);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(n: usize) -> Vec<BoxSize> {
        (0..n).map(|i| BoxSize { width: 60.0 + 10.0 * (i % 4) as f64, height: 30.0 }).collect()
    }

    #[test]
    fn boxes_do_not_overlap_and_lines_go_down() {
        // A fixed sequence of pseudo-random graphs.
        let mut state = 7u64;
        let mut next = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap_or(0) % n
        };
        for n in [1usize, 2, 5, 20, 60] {
            let sizes = sizes(n);
            let mut edges: Vec<(usize, usize)> = Vec::new();
            for b in 1..n {
                for _ in 0..1 + next(2) {
                    edges.push((next(b), b));
                }
            }
            let placed = place_boxes(&sizes, &edges);
            for a in 0..n {
                for b in a + 1..n {
                    let ((ax, ay), (bx, by)) = (placed.boxes[a], placed.boxes[b]);
                    let apart = ax + sizes[a].width <= bx + 1e-6
                        || bx + sizes[b].width <= ax + 1e-6
                        || ay + sizes[a].height <= by
                        || by + sizes[b].height <= ay;
                    assert!(apart, "{n}: {a} and {b}");
                }
            }
            for (e, (a, b)) in edges.iter().enumerate() {
                let mut y = placed.boxes[*a].1 + sizes[*a].height;
                for (_, next) in &placed.bends[e] {
                    assert!(*next >= y - 15.0);
                    y = *next;
                }
                assert!(placed.boxes[*b].1 >= y - 15.0, "{n}: {a} to {b}");
            }
        }
    }

    #[test]
    fn a_chain_is_straight_and_bad_edges_are_left_out() {
        let same = vec![BoxSize { width: 50.0, height: 20.0 }; 4];
        let placed = place_boxes(&same, &[(0, 1), (1, 2), (2, 3), (3, 0), (2, 9)]);
        assert!(placed.boxes.iter().all(|b| (b.0 - placed.boxes[0].0).abs() < 1e-6));
        assert!(placed.bends[3].is_empty() && placed.bends[4].is_empty());
    }
}
