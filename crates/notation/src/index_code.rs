//! The place of an element as source code: integer expressions in its indices, for C, CUDA and Python.

use zellige_layout::{Axis, Iter, Layout, LayoutError, Result, Swizzle};

/// A language that index expressions are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeLanguage {
    /// C99 functions.
    C,
    /// Device and host functions of CUDA C++.
    Cuda,
    /// Python functions, which also take arrays of NumPy and tensors of PyTorch.
    Python,
}

impl CodeLanguage {
    /// All languages, by name.
    pub const NAMES: [(&'static str, CodeLanguage); 3] =
        [("c", CodeLanguage::C), ("cuda", CodeLanguage::Cuda), ("python", CodeLanguage::Python)];

    /// The language of a name.
    pub fn from_name(name: &str) -> Option<CodeLanguage> {
        CodeLanguage::NAMES.iter().find(|(n, _)| *n == name).map(|(_, language)| *language)
    }
}

/// An integer expression in the indices of an element. All values are 0 or more, except constants and what is added to
/// them, so `/` and `%` mean the same in every language.
#[derive(Debug, Clone, PartialEq, Eq)]
enum IndexExpression {
    /// The index of a dimension.
    Index(usize),
    Constant(i64),
    Sum(Vec<IndexExpression>),
    Times(Box<IndexExpression>, i64),
    Quotient(Box<IndexExpression>, i64),
    Remainder(Box<IndexExpression>, i64),
    Swizzled(Box<IndexExpression>, Swizzle),
}

use IndexExpression as E;

/// A sum without zeros; nothing to add is 0.
fn add_terms(terms: Vec<E>) -> E {
    let mut kept: Vec<E> = terms.into_iter().filter(|t| *t != E::Constant(0)).collect();
    match kept.len() {
        0 => E::Constant(0),
        1 => kept.remove(0),
        _ => E::Sum(kept),
    }
}

fn multiply(e: E, factor: i64) -> E {
    match (e, factor) {
        (_, 0) | (E::Constant(0), _) => E::Constant(0),
        (e, 1) => e,
        (e, factor) => E::Times(Box::new(e), factor),
    }
}

/// Dimensions of the tensor and iters of the layout that count the same elements: neither reaches into the next group.
struct AlignedGroup {
    dims: Vec<usize>,
    iters: Vec<usize>,
}

/// Cuts dimensions and iters into the smallest groups with equal products. Only digits of a whole group need a flat
/// index; where every dimension is a group of its own, expressions have no division by other dimensions.
fn align_groups(extents: &[i64], iters: &[Iter]) -> Vec<AlignedGroup> {
    let mut groups = Vec::new();
    let (mut d, mut i) = (0, 0);
    while d < extents.len() || i < iters.len() {
        let mut group = AlignedGroup { dims: Vec::new(), iters: Vec::new() };
        let (mut left, mut right) = (1_i128, 1_i128);
        loop {
            // The side that counts fewer elements takes the next; on a tie past the first step the group is whole.
            let take_dim = d < extents.len() && (left <= right || i == iters.len());
            if take_dim {
                left *= i128::from(extents[d]);
                group.dims.push(d);
                d += 1;
            } else if i < iters.len() {
                right *= i128::from(iters[i].extent);
                group.iters.push(i);
                i += 1;
            }
            if left == right || (d == extents.len() && i == iters.len()) {
                break;
            }
        }
        groups.push(group);
    }
    groups
}

/// The place of an element on every axis, in the order of the axes of the layout.
fn place_expressions(layout: &Layout, shape: &[i64]) -> Vec<(Axis, E)> {
    let mut extents = shape.to_vec();
    let mut coordinates: Vec<E> = (0..shape.len()).map(E::Index).collect();
    if let Some(window) = layout.window() {
        if window.shape() != shape {
            coordinates = split_index(&flat_index(&extents, &coordinates), &window.shape());
        }
        for (c, d) in coordinates.iter_mut().zip(window.dims()) {
            *c = add_terms(vec![c.clone(), E::Constant(d.begin)]);
        }
        extents = window.padded_shape();
    }
    let tile = layout.tile();
    let mut sums: Vec<Vec<E>> = vec![Vec::new(); tile.axes().len()];
    for group in align_groups(&extents, tile.shard()) {
        let pick = |list: &[usize]| -> Vec<i64> { list.iter().map(|d| extents[*d]).collect() };
        let inside: Vec<E> = group.dims.iter().map(|d| coordinates[*d].clone()).collect();
        let flat = flat_index(&pick(&group.dims), &inside);
        // Neighbouring iters that count on are one digit: (4:8, 8:1) is 32:1.
        let mut merged: Vec<Iter> = Vec::new();
        for it in group.iters.iter().map(|i| tile.shard()[*i]).filter(|it| it.extent != 1) {
            match merged.last_mut() {
                Some(last)
                    if last.axis == it.axis
                        && it.stride.checked_mul(it.extent) == Some(last.stride) =>
                {
                    *last = Iter::new(last.extent * it.extent, it.stride, it.axis);
                }
                _ => merged.push(it),
            }
        }
        let digits: Vec<i64> = merged.iter().map(|it| it.extent).collect();
        for (it, digit) in merged.iter().zip(split_index(&flat, &digits)) {
            if let Some(slot) = tile.axes().iter().position(|a| *a == it.axis) {
                sums[slot].push(multiply(digit, it.stride));
            }
        }
    }
    let axes = tile.axes().iter().zip(sums);
    axes.map(|(axis, mut terms)| {
        terms.push(E::Constant(tile.offset_on(*axis)));
        let sum = add_terms(terms);
        match layout.swizzle() {
            Some(swizzle) if *axis == Axis::M && !swizzle.is_identity() => {
                (*axis, E::Swizzled(Box::new(sum), swizzle))
            }
            _ => (*axis, sum),
        }
    })
    .collect()
}

/// The row-major index of coordinates.
fn flat_index(extents: &[i64], coordinates: &[E]) -> E {
    let mut weight = 1_i64;
    let mut terms = Vec::new();
    for (extent, c) in extents.iter().zip(coordinates).rev() {
        if *extent != 1 {
            terms.push(multiply(c.clone(), weight));
        }
        // The whole shape has as many elements as the layout, which fits.
        weight = weight.saturating_mul(*extent);
    }
    terms.reverse();
    add_terms(terms)
}

/// The digits of an index; of the first one nothing is cut off, as the index is below the product.
fn split_index(flat: &E, extents: &[i64]) -> Vec<E> {
    let mut weight = 1_i64;
    let mut digits = Vec::new();
    for (place, extent) in extents.iter().enumerate().rev() {
        let high = match weight {
            1 => flat.clone(),
            _ => E::Quotient(Box::new(flat.clone()), weight),
        };
        digits.push(match (*extent, place) {
            (1, _) => E::Constant(0),
            (_, 0) => high,
            _ => E::Remainder(Box::new(high), *extent),
        });
        weight = weight.saturating_mul(*extent);
    }
    digits.reverse();
    digits
}

impl IndexExpression {
    /// The expression as text. Every operand that is not a name or a number is in parentheses unless the operator
    /// binds it anyway, because three languages have three tables of precedence for `^`, `>>` and `&`.
    fn print(&self, language: CodeLanguage) -> String {
        let inner = |e: &E| match e {
            E::Index(_) => e.print(language),
            E::Constant(c) if *c >= 0 => e.print(language),
            _ => format!("({})", e.print(language)),
        };
        let product = |e: &E| match e {
            E::Times(..) => e.print(language),
            _ => inner(e),
        };
        match self {
            E::Index(d) => format!("i{d}"),
            E::Constant(c) => c.to_string(),
            E::Sum(terms) => terms.iter().map(product).collect::<Vec<_>>().join(" + "),
            E::Times(e, factor) => format!("{} * {factor}", inner(e)),
            E::Quotient(e, by) => match language {
                CodeLanguage::Python => format!("{} // {by}", inner(e)),
                _ => format!("{} / {by}", inner(e)),
            },
            E::Remainder(e, by) => format!("{} % {by}", inner(e)),
            E::Swizzled(..) => "address".into(),
        }
    }

    /// The swizzle of `address`.
    fn swizzle_text(swizzle: Swizzle) -> String {
        let field = ((1_i64 << swizzle.swizzle_len()) - 1) << swizzle.per_element();
        let shift = swizzle.atom_len();
        if swizzle.is_inner() {
            format!("address ^ ((address >> {shift}) & {field})")
        } else {
            format!("address ^ ((address & {field}) << {shift})")
        }
    }

    #[cfg(test)]
    fn evaluate(&self, coordinate: &[i64]) -> i64 {
        match self {
            E::Index(d) => coordinate[*d],
            E::Constant(c) => *c,
            E::Sum(terms) => terms.iter().map(|t| t.evaluate(coordinate)).sum(),
            E::Times(e, factor) => e.evaluate(coordinate) * factor,
            E::Quotient(e, by) => e.evaluate(coordinate) / by,
            E::Remainder(e, by) => e.evaluate(coordinate) % by,
            E::Swizzled(e, swizzle) => swizzle.apply_to_address(e.evaluate(coordinate)),
        }
    }
}

/// The place of element `(i0, i1, ..)` of a shape, as one function per axis. Of replicas it is the first copy.
///
/// Errors: the shape has another number of elements, or more than 32 dimensions.
pub fn print_index_code(layout: &Layout, shape: &[i64], language: CodeLanguage) -> Result<String> {
    layout.check_shape_size(shape)?;
    if shape.len() > 32 {
        return Err(LayoutError::TooLarge {
            what: "an index function of more dimensions",
            limit: 32,
        });
    }
    let sizes: Vec<String> = shape.iter().map(i64::to_string).collect();
    let mark = if language == CodeLanguage::Python { "#" } else { "//" };
    let mut text = format!(
        "{mark} Where element (i0, i1, ..) of a tensor of {} lives; places are counted in elements.\n",
        if sizes.is_empty() { "one element".into() } else { sizes.join(" x ") }
    );
    let copies = layout.tile().replica_count();
    if copies > 1 {
        text += &format!("{mark} Every element has {copies} copies; this is the first.\n");
    }
    let mut places = place_expressions(layout, shape);
    if places.is_empty() {
        // A single element without an axis lives at the one place there is.
        places.push((Axis::M, E::Constant(0)));
    }
    for (axis, e) in places {
        let name = format!("{}_of", axis.name());
        let (sum, swizzled) = match &e {
            E::Swizzled(inner, swizzle) => (inner.print(language), Some(E::swizzle_text(*swizzle))),
            plain => (plain.print(language), None),
        };
        let parameters: Vec<String> = (0..shape.len())
            .map(|d| match language {
                CodeLanguage::Python => format!("i{d}"),
                _ => format!("long long i{d}"),
            })
            .collect();
        let parameters = parameters.join(", ");
        match language {
            CodeLanguage::Python => {
                text += &format!("def {name}({parameters}):\n");
                match swizzled {
                    Some(s) => text += &format!("    address = {sum}\n    return {s}\n"),
                    None => text += &format!("    return {sum}\n"),
                }
            }
            CodeLanguage::C | CodeLanguage::Cuda => {
                let (prefix, none) = match language {
                    CodeLanguage::Cuda => ("__host__ __device__ __forceinline__", ""),
                    _ => ("static inline", "void"),
                };
                let parameters = if parameters.is_empty() { none } else { &parameters };
                text += &format!("{prefix} long long {name}({parameters}) {{\n");
                match swizzled {
                    Some(s) => text += &format!("  long long address = {sum};\n  return {s};\n"),
                    None => text += &format!("  return {sum};\n"),
                }
                text += "}\n";
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use zellige_layout::{AxisTable, flatten_coordinate, unflatten_index};

    fn layout(text: &str, shape: &[i64]) -> Layout {
        crate::parse(text, &AxisTable::new()).unwrap().layout_over_shape(Some(shape)).unwrap()
    }

    #[test]
    fn expressions_give_the_place_of_every_element() {
        let cases: [(&str, &[i64]); 9] = [
            ("S[(8,64):(64,1)]", &[8, 64]),
            ("Swizzle(3,3,3) o S[(8,64):(64,1)]", &[8, 64]),
            ("Swizzle(3,3,3) o S[(8,64):(64,1)]", &[4, 2, 64]),
            ("S[(2,8,4,2):(2,4@laneid,1@laneid,1)]", &[16, 8]),
            ("S[(2,8,4,2):(2,4@laneid,1@laneid,1)]", &[8, 16]),
            ("S[(3,4,5):(1,3,12)] + 7@m", &[12, 5]),
            ("S[(3,4,5):(1,3,12)] + 7@m", &[5, 12]),
            ("S[(5,2,64):(64,320,1)] valid[5,100/128]", &[5, 100]),
            ("S[(4,1,6):(-6,9,1)] + 18@m", &[2, 2, 1, 6]),
        ];
        for (text, shape) in cases {
            let layout = layout(text, shape);
            let places = place_expressions(&layout, shape);
            for flat in 0..layout.size() {
                let coordinate = unflatten_index(shape, flat);
                assert_eq!(flatten_coordinate(shape, &coordinate).unwrap(), flat);
                let expected = layout.physical_coordinates(flat).unwrap();
                let first = expected.coordinate_rows().next().unwrap().to_vec();
                let found: Vec<i64> = places.iter().map(|(_, e)| e.evaluate(&coordinate)).collect();
                assert_eq!(found, first, "{text} {shape:?} {coordinate:?}");
            }
        }
    }

    #[test]
    fn code_has_no_more_operations_than_it_needs() {
        let code = |text, shape: &[i64], language| {
            print_index_code(&layout(text, shape), shape, language).unwrap()
        };
        assert_eq!(
            code("S[(8,64):(64,1)]", &[8, 64], CodeLanguage::C),
            "// Where element (i0, i1, ..) of a tensor of 8 x 64 lives; places are counted in elements.\n\
             static inline long long m_of(long long i0, long long i1) {\n  return i0 * 64 + i1;\n}\n"
        );
        let swizzled = code("Swizzle(3,3,3) o S[(8,64):(64,1)]", &[8, 64], CodeLanguage::Python);
        assert!(swizzled.contains("address ^ ((address >> 3) & 56)"), "{swizzled}");
        let fragment = code("S[(2,8,4,2):(2,4@laneid,1@laneid,1)]", &[16, 8], CodeLanguage::Cuda);
        assert!(fragment.contains("return (i0 % 8) * 4 + (i1 / 2);"), "{fragment}");
        assert!(fragment.contains("return (i0 / 8) * 2 + (i1 % 2);"), "{fragment}");
    }
}
