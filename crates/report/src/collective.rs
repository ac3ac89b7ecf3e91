//! What a run exchanged with other cards: beside the report of a program, as it happens between programs.

/// An exchange between the cards of a group. Times are simulated microseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReportedCollective {
    /// The operation, such as `all_reduce`.
    pub op: String,
    /// The dtype of the elements.
    pub dtype: String,
    /// The size of the tensor that this card gives.
    pub size: Vec<i64>,
    /// Cards that take part.
    pub ranks: usize,
    /// Messages that follow one another.
    pub messages: u64,
    /// Bytes that the busiest link carries in one direction.
    pub bytes: u64,
    /// How long it takes.
    pub us: f64,
    /// How long this card waited for others before; not part of `us`.
    pub waited_us: f64,
}
